"""The known mistakes of the lab as mutants of its solutions: the tests of the solutions must notice each.

The table is the one that the checker uses, src/elman/lab/mistakes.py.
"""

import re
import runpy
from pathlib import Path

FOLDER = "elman/lab"
TESTS = {f"solutions/{file}.py": ["tests/lab/test_lab_solutions.py"] for file in ("rnn", "lstm")}

_LAB = Path(__file__).resolve().parents[2] / "src" / FOLDER


def _mutant(mistake):
    for name in TESTS:
        text = (_LAB / name).read_text(encoding="utf-8")
        function = re.search(rf"^def {mistake.gap}\(.*?(?=^def |\Z)", text, re.DOTALL | re.MULTILINE)
        if function:
            return name, function[0], function[0].replace(mistake.old, mistake.new), f"{mistake.gap}: {mistake.says}"
    raise KeyError(mistake.gap)


MUTANTS = [_mutant(mistake) for mistake in runpy.run_path(str(_LAB / "mistakes.py"))["MISTAKES"]]
