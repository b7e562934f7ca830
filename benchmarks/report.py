"""The results as tables: in the terminal, and in docs/performance.md."""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from contenders import NAMES, Size
from plots import bars, curves
from ratios import WIDE, Estimate
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

DOCS = Path(__file__).parent.parent / "docs"
RESULTS = Path(__file__).parent / "results"  # a file for each CPU that was measured
console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
NO_SLOWER = 0.97  # of the speed of the older commit
MARK = "?"
# times the speed of PyTorch
TASK_AIMS = {"classifier": 2, "tagger": 2, "translator": 1.3, "translator with attention": 1.3}
# sampling: times the speed of PyTorch's cell, by cell and number of sequences
SAMPLING_AIMS = {("rnn", 1): 20, ("rnn", 32): 5, ("gru", 1): 5, ("lstm", 1): 4}
VANILLA, GATED = ("rnn",), ("gru", "lstm")
# cells, smallest and largest H, aim: times the speed of the best rival, and share of the limit
RATIO_AIMS = [(VANILLA, 0, 512, 1.6), (GATED, 0, 512, 1.5)]
SHARE_AIMS = [(VANILLA, 128, 128, 0.65), (VANILLA, 256, 512, 0.8), (VANILLA, 1024, 1024, 0.85), (GATED, 256, 512, 0.7)]


class Sheet(NamedTuple):
    title: str
    header: list[str]
    rows: list[list[str]]
    notes: Sequence[str] = ()


def number(value: float | None, digits: int = 3) -> str:
    """With this many significant digits, and no exponent."""
    if value is None:
        return "–"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{decimals}f}"


def figure(estimate: Sequence[float] | None, digits: int = 3, *, interval: bool = False) -> str:
    """The value, with its interval if asked for; marked if the interval is wide."""
    if estimate is None:
        return "–"
    value, low, high = made = Estimate(*estimate)
    limits = f" ({number(low, digits)} to {number(high, digits)})" if interval else ""
    return f"{number(value, digits)}{limits}{f' {MARK}' if made.is_wide else ''}"


def size_name(size: Sequence[Any]) -> str:
    B, T, H, V, L, cell = Size(*size)
    return ("" if cell == "rnn" else f"{cell.upper()} ") + f"{B}, {T}, {H}, {V}" + (f" ×{L}" if L > 1 else "")


def sheets(results: dict[str, Any]) -> dict[str, Sheet]:
    makers = {
        "training": training,
        "speed": speed,
        "tasks": tasks,
        "memory": memory,
        "sampling": sampling,
        "cost": cost,
        "start": start,
        "growth": growth,
        "encoding": encoding,
    }
    if results.get("against") and not results["contenders"]:
        return {"against": with_note(against(results))}
    measured = results | ({"speed": results["training"]} if "training" in results else {})
    made = {part: make(measured[part]) for part, make in makers.items() if part in measured}
    if results.get("against"):
        made["against"] = against(results)
    elif aims := [[name, value, met] for name, value, met in targets(results)]:
        made["targets"] = Sheet("Aims", ["aim", "measured", "met"], aims)
    return {part: with_note(sheet) for part, sheet in made.items()}


def with_note(sheet: Sheet) -> Sheet:
    if not any(cell.endswith(MARK) for row in sheet.rows for cell in row):
        return sheet
    far = f"more than {100 * WIDE:.0f} %"
    note = f"{MARK} marks a figure whose 95 % interval reaches {far} from it: the machine was too noisy."
    return sheet._replace(notes=[*sheet.notes, note])


def training(part: dict[str, Any]) -> Sheet:
    rows, notes = [], []
    names = {c: name for c, name in NAMES.items() if any(c in row["milliseconds"] for row in part["rows"])}
    for row in part["rows"]:
        name, ms = size_name(row["size"]), row["milliseconds"]
        limit = row["share"][0] * ms["elman"][0]
        rows.append([name, *(figure(ms.get(c)) for c in names), number(limit)])
        notes += [f"{c} at {name}: {why}" for c, why in row["why"].items()]
    notes += [
        f"{name} used {share:.0%} of a core while it waited for its turn: its threads disturbed the others."
        for name, share in part["idle_cpu"].items()
        if share > 0.05
    ]
    return Sheet("Training, milliseconds a step", ["B, T, H, V", *names.values(), "limit"], rows, notes)


def speed(part: dict[str, Any]) -> Sheet:
    rows = []
    for row in part["rows"]:
        B, T, *_ = row["size"]
        tokens = f"{1e3 * B * T / row['milliseconds']['elman'][0]:,.0f}"
        rows.append([size_name(row["size"]), tokens, *best_and_share(row)])
    rate = statistics.median(row["gflops"] for row in part["rows"])
    title = f"Elman in training (limit: a large product at {rate:.0f} GFLOP/s)"
    return Sheet(title, ["B, T, H, V", "tokens a second", *BEST_AND_SHARE], rows)


BEST_AND_SHARE = ["× the best rival (95 % interval)", "best rival", "share of the limit (95 % interval)"]


def best_and_share(row: dict[str, Any]) -> list[str]:
    best = row["best"]
    ratio = figure(row["ratios"][best], interval=True) if best else "–"
    return [ratio, NAMES[best] if best else "–", figure(row["share"], 2, interval=True)]


def tasks(part: list[dict[str, Any]]) -> Sheet:
    rows, notes = [], []
    for row in part:
        name, ms = row["task"][0], row["milliseconds"]
        ratio, _, share = best_and_share(row)
        rows.append([name, figure(ms["elman"]), figure(ms.get("torch")), ratio, share])
        notes += [f"{c}, {name}: {why}" for c, why in row["why"].items()]
    header = ["task", "Elman, ms a step", "PyTorch", "× PyTorch (95 % interval)", BEST_AND_SHARE[-1]]
    return Sheet("Training of other tasks", header, rows, notes)


def against(results: dict[str, Any]) -> Sheet:
    """Elman now and at an older commit."""
    rows = [("training, " + size_name(row["size"]), row) for row in results.get("training", {}).get("rows", [])]
    rows += [("training, " + row["task"][0], row) for row in results.get("tasks", [])]
    rows += [
        (f"sampling, {row['cell']}, {row['sequences']} at once", row)
        for row in results.get("sampling", {}).get("rows", [])
    ]
    cells = []
    for name, row in rows:
        ms, ratio = row["milliseconds"], row["ratios"]["before"]
        verdict = met([ratio], NO_SLOWER)
        cells.append([name, figure(ms["before"]), figure(ms["elman"]), figure(ratio, interval=True), verdict])
    header = ["", f"{results['against']}, ms a step", "now", "× as fast (95 % interval)", f"{NO_SLOWER:g} or more"]
    return Sheet(f"Elman now and at commit {results['against']}", header, cells)


def met(estimates: Iterable[Sequence[float]], aim: float) -> str:
    """Whether the lowest of them reaches the aim: unclear if its interval contains the aim."""
    _, low, high = min(estimates)
    return "yes" if low >= aim else "no" if high < aim else "unclear"


def memory(part: list[dict[str, Any]]) -> Sheet:
    some = [c for c in NAMES if c != "compile"]
    rows = []
    for row in part:
        peak = row["megabytes"]
        ratio = peak["torch"] / peak["elman"] if {"torch", "elman"} <= peak.keys() and peak["elman"] > 0 else None
        rows.append([size_name(row["size"]), *(number(peak.get(c)) for c in some), number(ratio, 2)])
    header = ["B, T, H, V", *(NAMES[c] for c in some), "PyTorch : Elman"]
    return Sheet("Peak memory of training above imports, megabytes", header, rows)


def sampling(part: dict[str, Any]) -> Sheet:
    rows = []
    for row in part["rows"]:
        characters = [row["characters_per_second"].get(name) for name in ("elman", "torch")]
        shown = [f"{value:,.0f}" if value else "–" for value in characters]
        rows.append(
            [f"{row['cell'].upper()}, {row['sequences']}", *shown, figure(row["ratios"].get("torch"), interval=True)]
        )
    header = ["cell, sequences at once", "Elman", "PyTorch's cell", "ratio (95 % interval)"]
    return Sheet("Sampling, characters a second on one thread, H = 256, V = 75", header, rows)


def cost(part: dict[str, Any]) -> Sheet:
    rows = []
    for axis, measured in part.items():
        power = "–"
        if "power" in measured:
            power = "{:.2f} ({:.2f} to {:.2f})".format(*measured["power"])
        rows.append([axis, ", ".join(f"{n:.0f}: {number(ms)}" for n, ms in measured["points"]), power])
    header = ["along", "milliseconds a step", "exponent between the last two (95 % interval)"]
    return Sheet("Elman's cost from (64, 64, 256, 75) along one dimension", header, rows)


def start(part: dict[str, float]) -> Sheet:
    labels = {
        "import": '`python -c "import elman"`',
        "version": "`elman --version`",
        "first character": "`elman sample RUN`, first character, kernels in the cache",
        "compile wall": "compiling what `elman train` needs, once for a machine",
        "compile cpu": "the same, seconds of CPU",
    }
    return Sheet("Start-up", ["", "seconds"], [[label, f"{part[key]:.2f}"] for key, label in labels.items()])


def growth(part: dict[str, float]) -> Sheet:
    rows = [[steps, f"{megabytes:.1f}"] for steps, megabytes in part.items()]
    return Sheet("Memory in use, megabytes, (64, 64, 256, 75)", ["after steps", "resident"], rows)


def encoding(part: dict[str, float]) -> Sheet:
    cells = [f"{part['megabytes']:,.0f}", number(part["megabytes"] / part["seconds"]), number(part["peak"])]
    return Sheet("Encoding a text as characters", ["megabytes", "megabytes a second", "peak memory, MB"], [cells])


def targets(results: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What the project set out to reach, what it reached, and whether that is enough."""

    def yes(reached: bool) -> str:
        return "yes" if reached else "no"

    if part := results.get("training"):
        rows = [(Size(*row["size"]), row["ratios"].get(row["best"]), row["share"]) for row in part["rows"]]
        for cells, least, most, aim in RATIO_AIMS:
            ratios = [ratio for size, ratio, _ in rows if size.cell in cells and least <= size.H <= most and ratio]
            if ratios:
                text = f"{aim} times as fast as the best rival, H up to {most}, {_named(cells)}"
                yield text, f"{min(ratios)[0]:.2f} and up", met(ratios, aim)
        for cells, least, most, aim in SHARE_AIMS:
            shares = [share for size, _, share in rows if size.cell in cells and least <= size.H <= most and share]
            if shares:
                sizes = f"{least}" if least == most else f"{least} to {most}"
                text = f"{aim:.2f} of the limit, H = {sizes}, {_named(cells)}"
                yield text, f"{min(shares)[0]:.2f} and up", met(shares, aim)
        for row in part["rows"]:
            if row["numpy_to_torch"] and Size(*row["size"]) == Size(64, 64, 256, 75):
                ratio = row["numpy_to_torch"]
                yield (
                    "the NumPy path no slower than PyTorch at 64, 64, 256, 75",
                    f"{ratio[0]:.2f} times",
                    met([ratio], 1),
                )
    for row in results.get("tasks", []):
        if row["best"]:
            name, ratio, aim = row["task"][0], row["ratios"][row["best"]], TASK_AIMS[row["task"][0]]
            yield f"{name}: {aim} times as fast as PyTorch", f"{ratio[0]:.2f} times", met([ratio], aim)
    if part := results.get("memory"):
        for most, gated, of in ((0.5, False, "vanilla cell"), (0.6, True, "GRU and LSTM")):
            peaks = [row["megabytes"] for row in part if (Size(*row["size"]).gates > 1) == gated]
            # below a megabyte, single pages of memory decide
            ratios = [peak["elman"] / peak["torch"] for peak in peaks if "elman" in peak and peak.get("torch", 0) > 1]
            if ratios:
                aim = f"at most {most} of PyTorch's peak memory, where that is above 1 MB, {of}"
                yield aim, f"{max(ratios):.2f} and less", yes(max(ratios) <= most)
    if part := results.get("sampling"):
        for row in part["rows"]:
            times, ratio = SAMPLING_AIMS.get((row["cell"], row["sequences"])), row["ratios"].get("torch")
            if times and ratio:
                what = "one sequence" if row["sequences"] == 1 else f"{row['sequences']} sequences"
                text = f"sampling {what} {times} times as fast as PyTorch's {row['cell'].upper()}Cell"
                yield text, f"{ratio[0]:.1f} times", met([ratio], times)
        together = part["together"]
        yield "sampling 32 sequences together at twice the speed of one", f"{together[0]:.1f} times", met([together], 2)
    if part := results.get("cost"):
        for aim, axis, most in (("linear in T", "T", 1.1), ("no more than quadratic in H", "H", 2.1)):
            power = part[axis]["power"]
            yield f"cost {aim}", f"exponent {power[0]:.2f}", met([[-power[0], -power[2], -power[1]]], -most)
    if part := results.get("growth"):
        first, *_, last = part.values()
        yield "memory does not grow from step to step", f"{last - first:+.1f} MB", yes(last - first < 1)
    if part := results.get("start"):
        first = part["first character"]
        yield "first sampled character in under 0.7 seconds", f"{first:.2f} s", yes(first < 0.7)
        yield "kernels compiled in under 20 seconds", f"{part['compile wall']:.1f} s", yes(part["compile wall"] < 20)
    if part := results.get("encoding"):
        yield "a large text encoded in under 300 MB", f"{part['peak']:.0f} MB", yes(part["peak"] < 300)


def _named(cells: tuple[str, ...]) -> str:
    return "vanilla cell" if cells == VANILLA else "GRU and LSTM"


def show(results: dict[str, Any]) -> None:
    console.print(environment(results), markup=False)
    for sheet in sheets(results).values():
        show_sheet(sheet)


def show_sheet(sheet: Sheet) -> None:
    console.print(f"\n[bold]{sheet.title}[/]\n")
    table = Table(box=SIMPLE, show_edge=False)
    for index, name in enumerate(sheet.header):
        table.add_column(name, justify="right" if index else "left", no_wrap=index == 0)
    for row in sheet.rows:
        table.add_row(*row)
    console.print(table)
    for note in sheet.notes:
        console.print(f"– {note}", markup=False)


def environment(results: dict[str, Any]) -> str:
    at, has = results["machine"], results["versions"]
    software = ", ".join(f"{name} {version}" for name, version in has.items())
    return (
        f"{at['cpu']}, {at['cores']} cores, vectors of {at['vector_bits']} bits, {at['system']}; {software};"
        f" {results['threads']}; {results['date']}."
    )


def write_docs(results: dict[str, Any]) -> None:
    """Save the results of this CPU, and write docs/performance.md with a section for each CPU in RESULTS."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{cpu_name(results)}.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    known = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    text = (Path(__file__).parent / "performance.md").read_text(encoding="utf-8")
    text = text.replace("{turn}", f"{1e3 * results['turn_seconds']:.0f} milliseconds")
    (DOCS / "performance.md").write_text(text.replace("{cpus}", "\n\n".join(map(section, known))), encoding="utf-8")


def cpu_name(results: dict[str, Any]) -> str:
    """LLVM's name of the CPU, such as znver3 or emeraldrapids."""
    return str(results["machine"]["cpu"].rpartition("(")[2].rstrip(")"))


def section(results: dict[str, Any]) -> str:
    """The tables of one CPU; its figures are written to docs/figures."""
    made, name = sheets(results), cpu_name(results)
    figures = {"training": ("speed", bars), "cost": ("cost", curves)}
    turns = f"{results['turns']} turns for each figure."
    parts = [f"## {results['machine']['cpu']}", f"{environment(results)} {turns}"]
    for part in ("targets", "training", "speed", "tasks", "memory", "growth", "sampling", "cost", "start", "encoding"):
        if part not in made:
            continue
        parts.append(markdown(made[part]))
        if part in figures:
            kind, draw = figures[part]
            (DOCS / "figures" / f"{kind}-{name}.svg").write_text(draw(results[part]), encoding="utf-8")
            parts.append(f"![{made[part].title}](figures/{kind}-{name}.svg)")
    return "\n\n".join(parts)


def markdown(sheet: Sheet) -> str:
    lines = [sheet.header, [":--" if index == 0 else "--:" for index in range(len(sheet.header))], *sheet.rows]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return "\n".join([f"### {sheet.title}", "", table, *(f"\n– {note}" for note in sheet.notes)])
