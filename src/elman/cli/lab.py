"""elman lab: write files with gaps to fill in, and check them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from elman.cli.console import console
from elman.cli.flags import argument, flag
from elman.errors import ArgumentError


@dataclass(frozen=True)
class Lab:
    """Write backpropagation through time yourself; a checker names the mistakes in your code.

    start FOLDER writes rnn.py and lstm.py with gaps. check FILE tests each gap by itself; if a result equals that of a
    known mistake, it names the mistake. check exits with 1 unless all gaps are right.

    For instance:
        elman lab start lab
        elman lab check lab/rnn.py
    """

    action: Literal["start", "check"] = argument("ACTION", "start or check")
    path: Path = argument("PATH", "a folder to write into, or a file to check")
    solutions: bool = flag(False, "start: write the files with all gaps filled")
    seed: int = flag(0, "check: seed of the random problems")
    seconds: float = flag(10.0, "check: time limit for each gap")

    def run(self) -> int:
        from elman.lab import check_file, start

        if self.action == "start":
            for path in start(self.path, solutions=self.solutions):
                console.print(f"{path}", markup=False)
            first = "To check a file: " if self.solutions else "Fill in the gaps from the top, then: "
            console.print(f"{first}elman lab check {self.path / 'rnn.py'}", markup=False)
            return 0
        if self.seconds <= 0:
            raise ArgumentError("--seconds", expected="more than 0", got=self.seconds)
        wrong = 0
        for number, verdict in enumerate(check_file(self.path, seed=self.seed, seconds=self.seconds), 1):
            wrong += not verdict.right
            console.print(f"{number:2}  {verdict.gap:23} {verdict.message}", markup=False)
            for line in verdict.printed.splitlines()[:10]:
                console.print(f"    printed: {line}", markup=False)
        console.print(f"{number - wrong} of {number} gaps are right.", markup=False)
        return 1 if wrong else 0
