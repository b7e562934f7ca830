"""Compares Elman with other libraries, the machine's limit and its own older commits: bash scripts/bench --help

Every contender is a process that waits for its turn. Turns are short, many and in random order; how a ratio is computed
from them is described in ratios.py.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from contenders import NAMES, RIVALS, Size
from crew import PATIENCE, TURN, Crew, Failed, Worker, alternate, cores
from encode import measure as encoding
from machine import machine, versions
from older import UnknownCommit, files_of
from ratios import Estimate, Turn, speed_ratio, step_seconds
from report import console, show, size_name, write_docs
from startup import start_up
from tasks import TASKS, TaskProblem

SIZES = [
    Size(1, 25, 100, 65),
    Size(32, 50, 128, 65),
    Size(50, 50, 256, 65),
    Size(64, 64, 256, 75),
    Size(64, 64, 512, 96),
    Size(128, 64, 1024, 96),
    Size(64, 64, 256, 75, 2),
]
GATED = [size._replace(cell=cell) for cell in ("gru", "lstm") for size in (*SIZES[:2], *SIZES[3:5])]
# problems at which all contenders must compute the same losses, at learning rates and clipping limits that show a wrong
# gradient
SMALL = [Size(6, 7, 20, 11), Size(20, 7, 33, 11, 2)]
SMALL_GATED = [Size(20, 7, 33, 11, 2, cell) for cell in ("gru", "lstm")]
SMALL_TASKS = [task._replace(B=20, T=7, X=30, E=task.E and 15, H=33, Y=11) for task in TASKS]
MIDDLE = Size(64, 64, 256, 75)
PRODUCT = 1536  # rows and columns of the matrices whose product shows the machine's limit
# the sizes along each dimension at which the part cost measures Elman
ALONG = {"T": (16, 32, 64, 128, 256), "B": (8, 16, 32, 64, 128, 256), "H": (64, 128, 256, 512, 1024)}
SAMPLED = {1: 1000, 32: 200}  # sequences at once: characters of each in one step
PARTS = ("training", "tasks", "memory", "sampling", "cost", "start", "growth", "encoding")
COMPARED = ("training", "tasks", "sampling")  # with an older commit
LONG = ("memory", "growth", "encoding")  # left out by --quick
LEAST_TURNS = 40
TOLERANCE = 1e-4
CLEARLY = 1.5  # a variant that is this many times as slow in two turns takes no more turns


def same_losses(crew: Crew, kind: str, sizes: Sequence[Any], hyper: dict[str, float], names: list[str]) -> None:
    """Raises an error if a contender computes other losses than Elman in five steps."""
    for size in sizes:
        expected = crew["elman"].ask("losses", kind=kind, size=size, hyper=hyper)
        for name in names:
            try:
                got = crew[name].ask("losses", kind=kind, size=size, hyper=hyper)
            except Failed:
                continue  # prepare() will say why
            worst = max(abs(a - b) for a, b in zip(got, expected, strict=True))
            assert worst < TOLERANCE, f"{name} computes other losses at {size}: {got}, Elman {expected}"


def entrants(args: argparse.Namespace, possible: Sequence[str]) -> list[str]:
    """Elman, the older commit if there is one, and the libraries that were asked for.

    Whether OpenMP's threads had better spin or sleep while they wait depends on size and machine: PyTorch and
    torch.compile take part with both, and the faster variant counts.
    """
    libraries = [name for name in possible if name in args.contenders]
    spinning = [f"{name}/spin" for name in libraries if name in ("torch", "compile")]
    return ["elman", *(["before"] if args.against else []), *libraries, *spinning]


def take_turns(
    crew: Crew, kind: str, sizes: Sequence[tuple[Any, ...]], names: list[str], args: argparse.Namespace
) -> tuple[list[Turn], dict[Any, dict[str, str]]]:
    """The turns of (size, contender), and for each size the contenders that could not take part, and why.

    The machine's limit takes turns too, except in sampling and if no other library takes part.
    """
    limit = bool(args.contenders) and kind != "sample"
    absent: dict[Any, dict[str, str]] = {size: {} for size in sizes}
    for name in names:
        patience = args.compile_seconds if name.startswith("compile") else PATIENCE
        for size, reason in crew.prepare(name, kind, sizes, patience).items():
            if name in ("elman", "before"):
                raise Failed(f"{name} at {size}: {reason}")
            absent[size][name] = reason
    if limit:
        crew.prepare("limit", "product", [(PRODUCT,)])
    groups = []
    for size in sizes:
        group = {(size, name): crew.turn(name, size) for name in names if name not in absent[size]}
        drop_worse_variants(group)
        if limit:
            group[size, "limit"] = crew.turn("limit", (PRODUCT,))
        groups.append(group)
    return alternate(groups, args.turns), absent


def drop_worse_variants(group: dict[tuple[Any, str], Callable[[], float]]) -> None:
    """On a busy machine threads that spin make a library many times slower. Only the faster variant counts, so one that
    is clearly slower need not take all its turns."""
    for size, name in [key for key in group if key[1].endswith("/spin")]:
        both = [(size, name), (size, name.partition("/")[0])]
        if all(key in group for key in both):
            tried = {key: min(group[key]() for _ in range(2)) for key in both}
            if max(tried.values()) > CLEARLY * min(tried.values()):
                del group[max(tried, key=lambda key: tried[key])]


def compared(turns: list[Turn], size: Any, flops: int = 0) -> dict[str, Any]:
    """Milliseconds a step of all contenders at a size, how many times as fast as each of them Elman is, and more.

    best: the rival that is fastest relative to Elman. share: of the limit that Elman reaches. gflops: the limit's rate.
    numpy_to_torch: how many times as fast as PyTorch Elman's NumPy path is. Each is None if it was not measured.
    """
    milliseconds: dict[str, Estimate] = {}
    ratios: dict[str, Estimate] = {}
    names = {turn.contender[1] for turn in turns if turn.contender[0] == size}
    for name in names:
        contender = name.partition("/")[0]
        own = step_seconds(turns, (size, name)).times(1e3)
        ratio = speed_ratio(turns, (size, "elman"), (size, name))
        if contender not in ratios or ratio < ratios[contender]:
            milliseconds[contender], ratios[contender] = own, ratio
    share = ratios["limit"].times(flops / (2 * PRODUCT**3)) if "limit" in ratios else None
    gflops = 2e-6 * PRODUCT**3 / milliseconds["limit"].value if share else None
    rivals = {name: ratios[name] for name in RIVALS if name in ratios}
    best = min(rivals, key=lambda name: rivals[name]) if rivals else None
    torch = [name for name in names if name.startswith("torch") and "numpy" in names]
    return {
        "milliseconds": milliseconds,
        "ratios": ratios,
        "best": best,
        "share": share,
        "gflops": gflops,
        "numpy_to_torch": min((speed_ratio(turns, (size, "numpy"), (size, name)) for name in torch), default=None),
    }


def training(args: argparse.Namespace) -> dict[str, Any]:
    """Steps of a language model."""
    names = entrants(args, ("numpy", "torch", "compile", "jax"))
    with Crew(args.threads, args.before) as crew:
        small = [size for size in SMALL + SMALL_GATED if size.cell in {asked.cell for asked in args.sizes}]
        same_losses(crew, "training", small, {"rate": 0.5, "limit": 0.2}, [n for n in names if "/" not in n])
        turns, absent = take_turns(crew, "training", args.sizes, names, args)
        rows = [
            {"size": size, "why": absent[size], **compared(turns, size, training_flops(size))} for size in args.sizes
        ]
        return {"rows": rows, "idle_cpu": crew.spinning()}


def training_flops(size: Size) -> int:
    """Floating-point operations of the products of one step: forward, and two as large backward for each.

    Inputs that are token ids cost none. Each layer has 6GH² a token for W_hh; each above the first has as many for
    W_xh; the output layer has 6HV.
    """
    B, T, H, V, L, _ = size
    return B * T * (6 * size.gates * H * H * (2 * L - 1) + 6 * H * V)


def tasks(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Steps of a classifier, a tagger and translators."""
    names = entrants(args, ("torch",))
    # an older commit may have no attention
    tasks, small = ([task for task in of if not (args.before and task.attention)] for of in (TASKS, SMALL_TASKS))
    with Crew(args.threads, args.before) as crew:
        same_losses(crew, "task", small, {"rate": 0.01, "limit": 0.2}, [n for n in names if "/" not in n])
        turns, absent = take_turns(crew, "task", tasks, names, args)
    return [{"task": task, "why": absent[task], **compared(turns, task, TaskProblem(task).flops)} for task in tasks]


def sampling(args: argparse.Namespace) -> dict[str, Any]:
    """Characters a second on one thread."""
    names = [name for name in entrants(args, ("torch",)) if "/" not in name]
    cells = dict.fromkeys(size.cell for size in args.sizes)
    sizes = {(cell, B): (B, 1, 256, 75, 1, cell, n) for cell in cells for B, n in SAMPLED.items()}
    with Crew(1, args.before) as crew:
        turns, _ = take_turns(crew, "sample", list(sizes.values()), names, args)
    rows = []
    for (cell, B), size in sizes.items():
        row = compared(turns, size)
        characters = {name: 1e3 * B * SAMPLED[B] / ms.value for name, ms in row["milliseconds"].items()}
        rows.append({"cell": cell, "sequences": B, "characters_per_second": characters, **row})
    (one, few), (many, most) = SAMPLED.items()
    first = next(iter(cells))
    together = speed_ratio(turns, (sizes[first, many], "elman"), (sizes[first, one], "elman"))
    return {"rows": rows, "together": together.times(many * most / (one * few))}


def cost(args: argparse.Namespace) -> dict[str, Any]:
    """Elman's milliseconds a step along each dimension, with the others as in MIDDLE.

    `power` is the exponent with which the time grows between the last two sizes.
    """
    points = {(axis, n): MIDDLE._replace(**{axis: n}) for axis, along in ALONG.items() for n in along}
    group = {}
    with ExitStack() as stack:
        crew = stack.enter_context(Crew(args.threads))
        crew.prepare("elman", "training", [*dict.fromkeys(points.values())])
        for point, size in points.items():
            group[point] = crew.turn("elman", size)
        for threads in thread_counts(args.threads):
            crew = stack.enter_context(Crew(threads))
            crew.prepare("elman", "training", [MIDDLE])
            group["threads", threads] = crew.turn("elman", MIDDLE)
        turns = alternate([group], args.turns)
    result: dict[str, Any] = {}
    for axis in (*ALONG, "threads"):
        along = [n for a, n in group if a == axis]
        result[axis] = {"points": [[n, 1e3 * step_seconds(turns, (axis, n)).value] for n in along]}
        if len(along) > 1:
            *_, n, m = along
            ratio = speed_ratio(turns, (axis, n), (axis, m))
            result[axis]["power"] = Estimate(*(math.log(value) / math.log(m / n) for value in ratio))
    return result


def thread_counts(most: int) -> list[int]:
    return sorted({most} | {2**k for k in range(most.bit_length()) if 2**k <= most})


def memory(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Peak megabytes above imports, each in a fresh process. torch.compile's peak is its compiler's: left out."""
    rows = []
    for size in args.sizes:
        row: dict[str, Any] = {"size": size, "megabytes": {}}
        for contender in [c for c in NAMES if c != "compile"]:
            with Worker(contender, args.threads) as worker:
                try:
                    row["megabytes"][contender] = worker.ask("memory", size=size)
                except Failed as error:
                    console.print(f"memory of {contender} at {size_name(size)}: {error}")
        rows.append(row)
    return rows


def growth(args: argparse.Namespace) -> dict[str, float]:
    """Megabytes in use after each of these numbers of steps."""
    marks = [100, 1000]
    with Worker("elman", args.threads) as worker:
        return dict(zip(map(str, marks), worker.ask("growth", size=MIDDLE, marks=marks), strict=True))


MEASURES: dict[str, Callable[[argparse.Namespace], Any]] = {
    "training": training,
    "tasks": tasks,
    "memory": memory,
    "sampling": sampling,
    "cost": cost,
    "start": lambda args: start_up(3 if args.quick else 10),
    "growth": growth,
    "encoding": lambda args: encoding(),
}


def measure(results: dict[str, Any], args: argparse.Namespace) -> None:
    """Adds each part to the results, or replaces it, and saves them after each part."""
    results |= {"date": datetime.now(UTC).strftime("%Y-%m-%d"), "machine": machine(), "versions": versions()}
    results |= {"threads": f"{args.threads} threads for each", "turns": args.turns, "turn_seconds": TURN}
    results |= {"against": args.before.name if args.before else None, "contenders": args.contenders}
    for part in args.parts:
        if part in LONG and not Path("/proc/self/clear_refs").exists():
            console.print(f"{part}: measured on Linux only")
            continue
        console.print(f"{part} …")
        results[part] = MEASURES[part](args)
        if args.json:
            args.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def size_of(text: str) -> Size:
    cell, _, sizes = text.rpartition(":")
    numbers, _, layers = sizes.partition("x")
    return Size(*map(int, numbers.split(",")), L=int(layers or 1), cell=cell or "rnn")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measures how fast Elman is, compared with other libraries, the machine's limit and its own past.",
    )
    parser.add_argument(
        "--quick", action="store_true",
        help="fewer turns, only the first four sizes of the vanilla cell, no memory, growth and encoding",
    )  # fmt: skip
    parser.add_argument("--against", help="compare with an older commit: training, tasks, sampling", metavar="COMMIT")
    parser.add_argument(
        "--contenders", nargs="*", choices=[name for name in NAMES if name != "elman"], metavar="NAME",
        help="beside Elman: numpy, torch, compile, jax (default: all; with --against: none)",
    )  # fmt: skip
    parser.add_argument(
        "--sizes", type=size_of, nargs="+", help="B,T,H,V, B,T,H,Vx2 for two layers, or gru:B,T,H,V", metavar="S"
    )
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, metavar="P",
        help="what to measure (default: everything; with --load: nothing; with --against: training, tasks, sampling)",
    )  # fmt: skip
    parser.add_argument(
        "--turns", type=int, metavar="N",
        help=f"of each contender at each size (default: 100, quick: {LEAST_TURNS}, with --against: 200)",
    )  # fmt: skip
    parser.add_argument("--threads", type=int, default=cores(), help="of each contender (default: all cores)")
    parser.add_argument("--compile-seconds", type=float, default=300, help="limit for torch.compile (default: 300)")
    parser.add_argument("--json", type=Path, help="write the results here", metavar="FILE")
    parser.add_argument("--load", type=Path, help="start with these results, measure --parts again", metavar="FILE")
    parser.add_argument(
        "--write", action="store_true", help="save the results in benchmarks/results and write docs/performance.md"
    )
    args = parser.parse_args()
    # an older commit is compared with the vanilla cell only, which all commits have
    args.sizes = args.sizes or (SIZES[:4] if args.quick else SIZES) + ([] if args.against else GATED)
    args.turns = args.turns or (200 if args.against else LEAST_TURNS if args.quick else 100)
    if args.turns < LEAST_TURNS:
        parser.error(f"--turns: expected {LEAST_TURNS} or more, got {args.turns}: fewer turns give no usable interval")
    if args.contenders is None:
        args.contenders = [] if args.against else list(NAMES)
    if args.parts is None:
        possible = COMPARED if args.against else PARTS
        args.parts = [] if args.load else [part for part in possible if not (args.quick and part in LONG)]
    try:
        args.before = files_of(args.against) if args.against else None
    except UnknownCommit as error:
        parser.error(f"--against: {error}")
    results = json.loads(args.load.read_text(encoding="utf-8")) if args.load else {}
    if args.parts:
        measure(results, args)
    show(results)
    if args.write:
        write_docs(results)


if __name__ == "__main__":
    main()
