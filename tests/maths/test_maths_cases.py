"""Every way through the network against central differences: what `elman gradcheck` runs."""

from __future__ import annotations

import pytest

from elman.maths.cases import CHECKED, Functions, all_cases, check_case, check_losses
from elman.maths.recurrence import cell_backward


@pytest.mark.parametrize("cell", CHECKED)
def test_every_case_agrees_with_central_differences(cell):
    cases = [case for case in all_cases() if case.cell == cell]
    assert {"full", "reverse"} < {case.passes for case in cases}
    assert {case.T > 1 for case in cases if case.k is None} == {False, True}
    assert len({(case.passes, case.ids, case.ragged, case.masked) for case in cases}) >= 5 * 2 * 2 * 2
    for case in cases:
        assert check_case(case).passed, f"{case}\n{check_case(case)}"


def test_losses_softmax_and_embedding_agree_with_central_differences():
    for name, check in check_losses().items():
        assert check.passed, f"{name}\n{check}"


def test_cases_fail_functions_whose_gradient_is_wrong():
    def without_h0(*args, **kwargs):
        gradients = cell_backward(*args, **kwargs)
        return gradients._replace(d_s0=0 * gradients.d_s0)

    check = check_case(next(all_cases()), Functions(cell_backward=without_h0))
    assert not check.passed
    assert [row.name for row in check.rows if row.error > check.tolerance] == ["h0"]
