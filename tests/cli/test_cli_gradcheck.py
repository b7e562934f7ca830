"""elman gradcheck: all checks or the most telling ones, told apart in the last line; a wrong gradient is status 1."""

from __future__ import annotations

import re

import pytest

from elman.maths.cases import CHECKED, Functions, all_cases, check_case, is_telling
from elman.maths.gradient_check import GradientCheck, Row
from elman.maths.recurrence import cell_backward
from elman.network.cases import KINDS, all_translators

TELLING = [case for case in all_cases() if is_telling(case)]


def test_a_quick_check_says_that_it_was_quick_and_what_all_would_check(elman):
    status, out, err = elman("gradcheck", "--quick")
    assert (status, err) == (0, "")
    verdict, last = out.splitlines()[-2:]
    checked = int(re.search(r"gradients of (\d+) networks and 5 functions: all agree", verdict)[1])
    everything = len(list(all_cases())) + len(list(all_translators()))
    assert checked < everything / 5
    assert last == f"This was a quick check. Without --quick, all {everything} networks are checked."
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    assert [row[:2] for row in rows] == [
        *([cell, passes] for cell, passes in dict.fromkeys((case.cell, case.passes) for case in all_cases())),
        *([kind, cell] for kind in KINDS for cell in ("rnn", "gru", "lstm")),
    ]
    assert all(any(re.fullmatch(r"\de-\d\d", cell) for cell in row[2:]) for row in rows)  # each kind was checked


def test_a_wrong_gradient_is_told_and_is_status_1(elman, monkeypatch):
    wrong = GradientCheck([Row("o", "[0, 1]", 1.0, 2.0, 0.5)], 1e-6)
    monkeypatch.setattr("elman.maths.cases.check_losses", lambda tolerance: {"softmax": wrong})
    status, out, _ = elman("gradcheck", "--quick")
    assert status == 1
    assert "softmax: 5e-01" in out
    assert str(wrong) in out
    assert "76 networks and 1 functions: 1 checks failed" in out


def without(argument):
    return lambda *args, **options: cell_backward(*args, **{**options, argument: None})


def reading_forward(*args, **options):
    return cell_backward(*args, **{**options, "reverse": False})


def losing(name):
    def backward(*args, **options):
        d = cell_backward(*args, **options)
        if name in d.d_p:
            return d._replace(d_p={**d.d_p, name: 0 * d.d_p[name]})
        part = getattr(d, name)
        return d._replace(**{name: None if part is None else 0 * part})

    return backward


MISTAKES = {
    "padded steps take part": without("lengths"),
    "no mask": without("h_mask"),
    "the wrong direction": reading_forward,
    **{f"no d_{name}": losing(name) for name in ("W_xh", "W_hh", "b_h")},
    **{f"no {name}": losing(name) for name in ("d_x", "d_s0")},
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("cell", CHECKED)
def test_the_quick_cases_of_each_cell_find_every_mistake(cell, mistake):
    functions = Functions(cell_backward=MISTAKES[mistake])
    cases = [case for case in TELLING if case.cell == cell and case.passes in ("full", "reverse")]
    assert not all(check_case(case, functions).passed for case in cases)
