"""Tests of scripts/mutate, and whether its tables fit the code; scripts/nightly tries all mutants."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def mutate(*arguments: object) -> tuple[int, str]:
    command = [sys.executable, ROOT / "scripts" / "mutate", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    return done.returncode, done.stdout + done.stderr


def table(folder: Path, *mutants: tuple[str, ...]) -> Path:
    path = folder / "table.py"
    test = ["tests/maths/test_maths_rtrl.py::test_forward_mode_equals_backward_mode"]
    tests = dict.fromkeys(("real_time_learning.py", "recurrence.py", "none.py"), test)
    path.write_text(f"FOLDER = 'elman/maths'\nTESTS = {tests!r}\nMUTANTS = {list(mutants)!r}\n", encoding="utf-8")
    return path


def test_the_tables_fit_the_code():
    code, output = mutate("--sample", 0)
    assert code == 0, output


def test_a_mistake_is_killed_what_changes_nothing_survives_and_what_cannot_run_is_not_called_killed(tmp_path):
    line = "X = len(W_xh)"
    changed = {"X = len(W_xh) + 1": "a mistake", "X = W_xh.shape[0]": "no difference", "X = = 3": "no Python"}
    mutants = [("real_time_learning.py", line, new, why) for new, why in changed.items()]
    mutants.append(("recurrence.py", "cell_backward d_h_next", "W_hh.T", "W_hh", "a mistake in a marked line"))
    code, output = mutate(table(tmp_path, *mutants))
    assert code == 1, output
    assert "2 of 4 killed" in output
    assert "SURVIVED: src/elman/maths/real_time_learning.py" in output
    assert "BROKEN: src/elman/maths/real_time_learning.py" in output
    assert "SyntaxError" in output


def test_a_stale_table_is_refused(tmp_path):
    stale = [
        ("real_time_learning.py", "no such line", "", "gone"),
        ("real_time_learning.py", "W_hh", "W_xh", "too often"),
        ("recurrence.py", "cell_backward nothing", "W_hh", "W_xh", "no marker"),
        ("recurrence.py", "cell_backward d_h_next", "d_h_direct", "0", "in another line"),
        ("none.py", "W_hh", "W_xh", "no file"),
    ]
    code, output = mutate(table(tmp_path, *stale))
    assert code == 2, output
    assert "'no such line' occurs 0 times" in output
    assert "(too often)" in output
    assert "no line of recurrence.py has the marker 'cell_backward nothing' (no marker)" in output
    assert "'d_h_direct' occurs 0 times in the line 'cell_backward d_h_next' of recurrence.py" in output
    assert "there is no src/elman/maths/none.py (no file)" in output
