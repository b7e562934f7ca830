"""elman gradcheck: compare every gradient with central differences, in tables."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass

from elman.cli.console import console, track
from elman.cli.flags import flag

QUICK = {"dot": (2, False), "additive": (1, True)}  # layers, and whether the encoder reads in both directions


@dataclass(frozen=True)
class Gradcheck:
    """Check every gradient against central differences.

    Checks, in float64, each cell and activation, with one and with several time steps, equal and ragged lengths, both
    directions, truncated and full BPTT, token ids and numbers as inputs, with and without recurrent dropout; whole
    translators with attention; and the losses, softmax and the embedding. Exits with 1 if any gradient disagrees.

    For instance:
        elman gradcheck
        elman gradcheck --quick
    """

    tolerance: float = flag(1e-6, "largest relative error that passes")
    quick: bool = flag(False, "check only the most telling networks of each kind, in a few seconds")

    def run(self) -> int:
        from rich.table import Table

        from elman.maths.cases import all_cases, check_case, check_losses, is_telling
        from elman.network.cases import TranslatorCase, all_translators, check_translator

        started = time.perf_counter()
        worst: dict[tuple[str, str], dict[tuple[bool, bool], float]] = defaultdict(lambda: defaultdict(float))
        wrong, count = [], 0
        cases, translators = list(all_cases()), list(all_translators())
        everything = len(cases) + len(translators)
        if self.quick:
            cases = [case for case in cases if is_telling(case)]
            translators = [case for case in translators if (case.layers, case.bidirectional) == QUICK[case.attention]]
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
            table.add_row(name, passes, *(self._shown(errors.get(column)) for column in columns))
        console.print(table)

        worst_of: dict[TranslatorCase, float] = {}
        for translator in track(translators, "checking translators"):
            report = check_translator(translator, tolerance=self.tolerance)
            count += len(report.rows)
            worst_of[translator] = report.error
            if not report.passed:
                wrong.append(f"{translator}\n{report}")
        table = Table("attention", "cell", title="Worst relative error of translators with attention")
        for column in ("1 layer", "2 layers", "1 layer, both directions", "2 layers, both directions"):
            table.add_column(column, justify="right")
        for kind, name in dict.fromkeys((translator.attention, translator.cell) for translator in translators):
            sizes = ((1, False), (2, False), (1, True), (2, True))
            table.add_row(kind, name, *(self._shown(worst_of.get(TranslatorCase(kind, name, *size))) for size in sizes))
        console.print(table)
        functions = check_losses(tolerance=self.tolerance)
        for name, report in functions.items():
            count += 1
            console.print(f"{name}: {self._shown(report.error)}")
            if not report.passed:
                wrong.append(f"{name}\n{report}")

        for text in wrong:
            console.print(text, markup=False)
        seconds = time.perf_counter() - started
        verdict = f"[red]{len(wrong)} checks failed[/red]" if wrong else "all agree"
        checked = f"{len(cases) + len(translators)} networks and {len(functions)} functions"
        console.print(f"{count} gradients of {checked}: {verdict} ({seconds:.1f} s)")
        if self.quick:
            console.print(f"This was a quick check. Without --quick, all {everything} networks are checked.")
        return 1 if wrong else 0

    def _shown(self, error: float | None) -> str:
        if error is None:
            return "–"
        return f"{error:.0e}" if error <= self.tolerance else f"[red]{error:.0e}[/red]"
