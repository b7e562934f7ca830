"""elman gradcheck: every gradient against central differences, in a table."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass

from elman.cli.console import console, track
from elman.cli.flags import flag


@dataclass(frozen=True)
class Gradcheck:
    """Check every gradient against central differences.

    Runs each cell and activation, T = 1 and T > 1, equal and ragged lengths, both directions, truncated and full,
    token ids and numbers, with and without a recurrent mask, in float64. Exits with 1 if any disagrees.

    For instance:
        elman gradcheck --tolerance 1e-7
    """

    tolerance: float = flag(1e-6, "largest relative error that passes")

    def run(self) -> int:
        from rich.table import Table

        from elman.maths.cases import all_cases, check_case, check_losses

        started = time.perf_counter()
        worst: dict[tuple[str, str], dict[tuple[bool, bool], float]] = defaultdict(lambda: defaultdict(float))
        wrong, count = [], 0
        cases = list(all_cases())
        for case in track(cases, "checking gradients"):
            report = check_case(case, tolerance=self.tolerance)
            count += len(report.rows)
            cell = worst[case.cell, case.passes]
            cell[case.ids, case.ragged] = max(cell[case.ids, case.ragged], report.error)
            if not report.passed:
                wrong.append(f"{case}\n{report}")

        table = Table("cell", "backward pass", title="Worst relative error against central differences")
        for column in ("numbers", "ids", "numbers, ragged", "ids, ragged"):
            table.add_column(column, justify="right")
        for (name, passes), errors in worst.items():
            columns = ((False, False), (True, False), (False, True), (True, True))
            table.add_row(name, passes, *(self._shown(errors[column]) for column in columns))
        console.print(table)
        for name, report in check_losses(tolerance=self.tolerance).items():
            count += 1
            console.print(f"{name}: {self._shown(report.error)}")
            if not report.passed:
                wrong.append(f"{name}\n{report}")

        for text in wrong:
            console.print(text, markup=False)
        seconds = time.perf_counter() - started
        verdict = f"[red]{len(wrong)} checks failed[/red]" if wrong else "all right"
        console.print(f"{count} gradients in {len(cases)} networks: {verdict} ({seconds:.1f} s)")
        return 1 if wrong else 0

    def _shown(self, error: float) -> str:
        return f"{error:.0e}" if error <= self.tolerance else f"[red]{error:.0e}[/red]"
