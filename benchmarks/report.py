"""The results as tables: in the terminal, and in docs/performance.md."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from contenders import NAMES, Size
from plots import bars, curves
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

DOCS = Path(__file__).parent.parent / "docs"
console = Console(highlight=False)


class Sheet(NamedTuple):
    title: str
    header: list[str]
    rows: list[list[str]]
    notes: Sequence[str] = ()


def number(value: float | None, digits: int = 3) -> str:
    """So many digits, without powers of ten."""
    if value is None:
        return "–"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{decimals}f}"


def size_name(size: list[int]) -> str:
    B, T, H, V, L = Size(*size)
    return f"{B}, {T}, {H}, {V}" + (f" ×{L}" if L > 1 else "")


def sheets(results: dict[str, Any]) -> dict[str, Sheet]:
    makers = {
        "training": training,
        "speed": speed,
        "memory": memory,
        "sampling": sampling,
        "cost": cost,
        "start": start,
        "growth": growth,
        "encoding": encoding,
    }
    measured = results | ({"speed": results["training"]} if "training" in results else {})
    made = {part: make(measured[part]) for part, make in makers.items() if part in measured}
    if aims := [[name, value, "yes" if met else "no"] for name, value, met in targets(results)]:
        made["targets"] = Sheet("What was aimed at", ["aim", "measured", "met"], aims)
    return made


def training(part: dict[str, Any]) -> Sheet:
    rows, notes = [], []
    for row in part["rows"]:
        name, ms = size_name(row["size"]), row["milliseconds"]
        rows.append([name, *(number(ms.get(c)) for c in NAMES), number(row["limit"])])
        notes += [f"{NAMES[c]} at {name}: {why}" for c, why in row["why"].items() if c not in ms]
    notes += [
        f"{name} used {share:.0%} of a core while it waited for its turn: its threads disturbed the others."
        for name, share in part["idle_cpu"].items()
        if share > 0.05
    ]
    return Sheet("Training, milliseconds a step", ["B, T, H, V", *NAMES.values(), "limit"], rows, notes)


def speed(part: dict[str, Any]) -> Sheet:
    rows = [
        [size_name(row["size"]), f"{row['tokens_per_second']:,.0f}", number(row["ratio"]), f"{row['share']:.2f}"]
        for row in part["rows"]
    ]
    title = f"Elman in training (limit: a large product at {part['gflops']:.0f} GFLOP/s)"
    return Sheet(title, ["B, T, H, V", "tokens a second", "× the best rival", "share of the limit"], rows)


def memory(part: list[dict[str, Any]]) -> Sheet:
    some = [c for c in NAMES if c != "compile"]
    rows = []
    for row in part:
        peak = row["megabytes"]
        ratio = peak["torch"] / peak["elman"] if {"torch", "elman"} <= peak.keys() and peak["elman"] > 0 else None
        rows.append([size_name(row["size"]), *(number(peak.get(c)) for c in some), number(ratio, 2)])
    header = ["B, T, H, V", *(NAMES[c] for c in some), "PyTorch : Elman"]
    return Sheet("Peak memory of training above imports, megabytes", header, rows)


def sampling(part: list[dict[str, Any]]) -> Sheet:
    rows = [
        [str(row["sequences"]), f"{speed['elman']:,.0f}", f"{speed['torch']:,.0f}",
         number(speed["elman"] / speed["torch"])]
        for row in part for speed in [row["characters_per_second"]]
    ]  # fmt: skip
    header = ["sequences at once", "Elman", "PyTorch RNNCell", "ratio"]
    return Sheet("Sampling, characters a second on one thread, H = 256, V = 75", header, rows)


def cost(part: dict[str, list[list[float]]]) -> Sheet:
    rows = [
        [axis, ", ".join(f"{n:.0f}: {number(ms)}" for n, ms in points), f"{slope(points):.2f}" if points[1:] else "–"]
        for axis, points in part.items()
    ]
    header = ["along", "milliseconds a step", "power, between the last two"]
    return Sheet("Elman's cost from (64, 64, 256, 75) along one dimension", header, rows)


def slope(points: list[list[float]]) -> float:
    """The power of n with which the time grows, at the large end."""
    (n, a), (m, b) = points[-2:]
    return math.log(b / a) / math.log(m / n)


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


def targets(results: dict[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """What the project set out to reach, what it reached, and whether that is enough."""
    if part := results.get("training"):
        ratios = [row["ratio"] for row in part["rows"] if row["ratio"]]
        if ratios:
            yield "1.4 times as fast as the best rival at every size", f"{min(ratios):.2f} and up", min(ratios) >= 1.4
        shares = [row["share"] for row in part["rows"] if Size(*row["size"]).H >= 256]
        if shares:
            yield "0.80 of the limit for H of 256 and up", f"{min(shares):.2f} and up", min(shares) >= 0.8
        for row in part["rows"]:
            ms = row["milliseconds"]
            if row["size"] == [64, 64, 256, 75, 1] and {"torch", "numpy"} <= ms.keys():
                ratio = ms["torch"] / ms["numpy"]
                yield "the NumPy path no slower than PyTorch at 64, 64, 256, 75", f"{ratio:.2f} times", ratio >= 1
    if part := results.get("memory"):
        peaks = [row["megabytes"] for row in part]  # below a megabyte it is pages that were there or not
        ratios = [peak["elman"] / peak["torch"] for peak in peaks if "elman" in peak and peak.get("torch", 0) > 1]
        if ratios:
            yield "at most half of PyTorch's peak memory, above 1 MB", f"{max(ratios):.2f} and less", max(ratios) <= 0.5
    if part := results.get("sampling"):
        one, many = (row["characters_per_second"] for row in part)
        ratio = one["elman"] / one["torch"]
        yield "one sequence 10 times as fast as PyTorch's RNNCell", f"{ratio:.1f} times", ratio >= 10
        ratio = many["elman"] / one["elman"]
        yield "32 sequences together twice the speed of one", f"{ratio:.1f} times", ratio >= 2
    if part := results.get("cost"):
        yield "cost linear in T", f"power {slope(part['T']):.2f}", slope(part["T"]) < 1.1
        yield "cost no more than quadratic in H", f"power {slope(part['H']):.2f}", slope(part["H"]) < 2.1
    if part := results.get("growth"):
        first, *_, last = part.values()
        yield "nothing grows from step to step", f"{last - first:+.1f} MB", last - first < 1
    if part := results.get("start"):
        yield "first character in under a second", f"{part['first character']:.2f} s", part["first character"] < 1
        yield "compiled in under 20 seconds", f"{part['compile wall']:.1f} s", part["compile wall"] < 20
    if part := results.get("encoding"):
        yield "a large text encoded in under 300 MB", f"{part['peak']:.0f} MB", part["peak"] < 300


def show(results: dict[str, Any]) -> None:
    console.print(environment(results), markup=False)
    for sheet in sheets(results).values():
        show_sheet(sheet)


def show_sheet(sheet: Sheet) -> None:
    console.print(f"\n[bold]{sheet.title}[/]\n")
    table = Table(box=SIMPLE, show_edge=False)
    for index, name in enumerate(sheet.header):
        table.add_column(name, justify="right" if index else "left")
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
    made = sheets(results)
    text = (Path(__file__).parent / "performance.md").read_text(encoding="utf-8")
    text = text.replace("{environment}", environment(results))
    turns = "1 turn" if results["rounds"] == 1 else f"{results['rounds']} turns"
    text = text.replace("{rounds}", f"{turns} of {results['seconds']:g} s")
    figures = {"training": ("speed", bars), "cost": ("cost", curves)}
    for part in ("targets", "training", "speed", "memory", "sampling", "cost", "start", "growth", "encoding"):
        shown = markdown(made[part]) if part in made else "Not measured in this run."
        if part in made and part in figures:
            name, draw = figures[part]
            (DOCS / "figures" / f"{name}.svg").write_text(draw(results[part]), encoding="utf-8")
            shown += f"\n\n![{made[part].title}](figures/{name}.svg)"
        text = text.replace(f"{{{part}}}", shown)
    (DOCS / "performance.md").write_text(text, encoding="utf-8")


def markdown(sheet: Sheet) -> str:
    lines = [sheet.header, [":--" if index == 0 else "--:" for index in range(len(sheet.header))], *sheet.rows]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return "\n".join([f"**{sheet.title}**", "", table, *(f"\n– {note}" for note in sheet.notes)])
