"""Elman against its rivals and against the machine, in one run: bash scripts/bench --help

Every contender is a process that waits for its turn. They take turns of about half a second, round after round, so
that whatever else the machine does meets all of them alike; the best step of each counts.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from contenders import NAMES, RIVALS, SAMPLERS, Size
from crew import PATIENCE, Failed, Worker, cores
from encode import measure as encoding
from machine import machine, versions
from report import console, show, write_docs
from startup import start_up

SIZES = [
    Size(1, 25, 100, 65),
    Size(32, 50, 128, 65),
    Size(50, 50, 256, 65),
    Size(64, 64, 256, 75),
    Size(64, 64, 512, 96),
    Size(128, 64, 1024, 96),
    Size(64, 64, 256, 75, 2),
]
SMALL = [Size(6, 7, 20, 11), Size(20, 7, 33, 11, 2)]  # where all must agree
MIDDLE = Size(64, 64, 256, 75)
# whether OpenMP's threads had better spin or sleep depends on size and machine: PyTorch gets both, the better counts
ENTRANTS = (*NAMES, "torch/spin", "compile/spin")
PRODUCTS = (1024, 2048)  # sizes of the square matrices that show the machine's rate
ALONG = {"T": (16, 32, 64, 128, 256), "B": (8, 16, 32, 64, 128, 256), "H": (64, 128, 256, 512, 1024)}
PARTS = ("training", "memory", "sampling", "cost", "start", "growth", "encoding")
LONG = ("memory", "growth", "encoding")  # left out by --quick
TOLERANCE = 1e-4


class Crew:
    """One worker for each contender, made anew after a failure."""

    def __init__(self, threads: int) -> None:
        self.threads, self.workers = threads, dict[str, Worker]()

    def __getitem__(self, contender: str) -> Worker:
        worker = self.workers.get(contender)
        if worker is None or not worker.alive:
            worker = self.workers[contender] = Worker(contender, self.threads)
        return worker

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers.values():
            worker.stop()

    def prepare(self, contender: str, kind: str, size: Iterable[int], patience: float = PATIENCE) -> None:
        self[contender].ask("prepare", kind=kind, size=[*size], name=name_of(size), patience=patience)

    def turn(self, contender: str, size: Iterable[int], seconds: float) -> float:
        return self[contender].ask("turn", name=name_of(size), seconds=seconds)

    def forget(self) -> None:
        for worker in self.workers.values():
            if worker.alive:
                worker.ask("forget")

    def spinning(self) -> dict[str, float]:
        """CPU seconds for each second in which a worker had nothing to do."""
        return {name: w.idle_cpu / max(w.idle_seconds, 1e-9) for name, w in self.workers.items()}


def name_of(size: Iterable[int]) -> str:
    return ",".join(map(str, size))


def contender_of(name: str) -> str:
    return name.partition("/")[0]


def patience_with(name: str, args: argparse.Namespace) -> float:
    return args.compile_seconds if contender_of(name) == "compile" else PATIENCE


def keep_best(best: dict[Any, float], key: Any, seconds: float) -> None:
    best[key] = min(seconds, best.get(key, seconds))


def same_losses(crew: Crew, args: argparse.Namespace) -> dict[str, str]:
    """Asserts that all compute the same thing; the contenders that cannot take part, and why."""
    absent: dict[str, str] = {}
    for size in SMALL:
        expected = crew["elman"].ask("losses", size=size)
        for contender in [c for c in NAMES if c != "elman" and c not in absent]:
            try:
                got = crew[contender].ask("losses", size=size, patience=patience_with(contender, args))
            except Failed as error:
                absent[contender] = str(error)
                continue
            worst = max(abs(a - b) for a, b in zip(got, expected, strict=True))
            assert worst < TOLERANCE, f"{NAMES[contender]} computes other losses at {size}: {got}, Elman {expected}"
    return absent


def training(args: argparse.Namespace) -> dict[str, Any]:
    with Crew(args.threads) as crew:
        absent = same_losses(crew, args)
        console.print("Same losses everywhere" + "".join(f"; no {c}: {why}" for c, why in absent.items()))
        return steps(crew, absent, args)


def steps(crew: Crew, absent: dict[str, str], args: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds a step, and GFLOP/s of a large product in the same rounds."""
    rows, rate = [], 0.0
    for size in args.sizes:
        best, why, entrants = dict[str, float](), dict(absent), []
        for name in ENTRANTS:
            if contender_of(name) in why:
                continue
            try:
                crew.prepare(name, "step", size, patience_with(name, args))
                entrants.append(name)
            except Failed as error:
                if name == "elman":
                    raise
                why[contender_of(name)] = str(error)
        for n in PRODUCTS:
            crew.prepare("limit", "product", [n])
        for _ in range(args.rounds):
            for name in entrants:
                keep_best(best, contender_of(name), crew.turn(name, size, args.seconds))
            for n in PRODUCTS:
                rate = max(rate, 2e-9 * n**3 / crew.turn("limit", [n], args.seconds / 2))
        crew.forget()
        row = {"size": [*size], "milliseconds": {c: 1e3 * t for c, t in best.items()}, "why": why}
        rows.append(row)
        times = ", ".join(f"{c} {ms:.3g}" for c, ms in row["milliseconds"].items())
        console.print(f"{name_of(size)}: {times} ms", soft_wrap=True)
    return {"gflops": rate, "rows": [row | derived(row, rate) for row in rows], "idle_cpu": crew.spinning()}


def derived(row: dict[str, Any], rate: float) -> dict[str, Any]:
    size, ms = Size(*row["size"]), row["milliseconds"]
    rivals = [ms[c] for c in RIVALS if c in ms]
    limit = 1e-6 * flops(size) / rate  # milliseconds
    return {
        "tokens_per_second": 1e3 * size.B * size.T / ms["elman"],
        "ratio": min(rivals) / ms["elman"] if rivals else None,
        "limit": limit,
        "share": limit / ms["elman"],
    }


def flops(size: Size) -> int:
    """Of the products of one step: forward, and two as large backward for each. Token inputs cost none.

    Each layer has W_hh, 6H² a token; each above the first has W_xh of the same size; the output layer has 6HV.
    """
    B, T, H, V, L = size
    return B * T * (6 * H * H * (2 * L - 1) + 6 * H * V)


def memory(sizes: list[Size], threads: int) -> list[dict[str, Any]]:
    """Peak megabytes above imports, each in a fresh process. torch.compile's peak is its compiler's: left out."""
    rows = []
    for size in sizes:
        row: dict[str, Any] = {"size": [*size], "megabytes": {}}
        for contender in [c for c in NAMES if c != "compile"]:
            with Worker(contender, threads) as worker:
                try:
                    row["megabytes"][contender] = worker.ask("memory", size=size)
                except Failed as error:
                    console.print(f"memory of {contender} at {name_of(size)}: {error}")
        rows.append(row)
    return rows


def sampling(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Characters a second on one thread."""
    rows = []
    with Crew(threads=1) as crew:
        for B, n in ((1, 1000), (32, 200)):
            size, best = (B, 1, 256, 75, 1, n), dict[str, float]()
            for contender in SAMPLERS:
                crew.prepare(contender, "sample", size)
            for _ in range(args.rounds):
                for contender in SAMPLERS:
                    keep_best(best, contender, crew.turn(contender, size, args.seconds))
            crew.forget()
            rows.append({"sequences": B, "characters_per_second": {c: B * n / t for c, t in best.items()}})
    return rows


def cost(args: argparse.Namespace) -> dict[str, list[list[float]]]:
    """Elman's milliseconds a step along each dimension, the others as in MIDDLE."""
    best = dict[tuple[str, int], float]()
    points = {(axis, n): MIDDLE._replace(**{axis: n}) for axis, along in ALONG.items() for n in along}
    with Crew(args.threads) as crew:
        for size in set(points.values()):
            crew.prepare("elman", "step", size)
        for _ in range(args.rounds):
            for point, size in points.items():
                keep_best(best, point, crew.turn("elman", size, args.seconds))
    with ExitStack() as stack:
        crews = [stack.enter_context(Crew(threads)) for threads in thread_counts(args.threads)]
        for crew in crews:
            crew.prepare("elman", "step", MIDDLE)
        for _ in range(args.rounds):
            for crew in crews:
                keep_best(best, ("threads", crew.threads), crew.turn("elman", MIDDLE, args.seconds))
    return {axis: [[n, 1e3 * t] for (a, n), t in best.items() if a == axis] for axis in (*ALONG, "threads")}


def thread_counts(most: int) -> list[int]:
    return sorted({most} | {2**k for k in range(most.bit_length()) if 2**k <= most})


def growth(threads: int) -> dict[str, float]:
    """Megabytes in use after so many steps."""
    marks = [100, 1000]
    with Worker("elman", threads) as worker:
        return dict(zip(map(str, marks), worker.ask("growth", size=MIDDLE, marks=marks), strict=True))


def measure(results: dict[str, Any], args: argparse.Namespace) -> None:
    """Adds each part to the results, or replaces it, and saves them: a long run that breaks off is not lost."""
    makers: dict[str, Callable[[], Any]] = {
        "training": lambda: training(args),
        "memory": lambda: memory(args.sizes, args.threads),
        "sampling": lambda: sampling(args),
        "cost": lambda: cost(args),
        "start": lambda: start_up(args.rounds),
        "growth": lambda: growth(args.threads),
        "encoding": encoding,
    }
    results |= {"date": datetime.now(UTC).strftime("%Y-%m-%d"), "machine": machine(), "versions": versions()}
    results |= {"threads": f"{args.threads} threads for each", "rounds": args.rounds, "seconds": args.seconds}
    for part in args.parts:
        if part in ("memory", "growth", "encoding") and not Path("/proc/self/clear_refs").exists():
            console.print(f"{part}: measured on Linux only")
            continue
        console.print(f"{part} …")
        results[part] = makers[part]()
        if args.json:
            args.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def size_of(text: str) -> Size:
    numbers, _, layers = text.partition("x")
    return Size(*map(int, numbers.split(",")), L=int(layers or 1))


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Elman, its rivals and the machine's limit.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, the first four sizes, no memory")
    parser.add_argument("--sizes", type=size_of, nargs="+", help="B,T,H,V, or B,T,H,Vx2 for two layers", metavar="S")
    parser.add_argument("--parts", nargs="+", choices=PARTS, help="what to measure (default: everything)")
    parser.add_argument("--rounds", type=int, help="turns of each contender (default: 10, quick: 3)")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn (default: 0.5)")
    parser.add_argument("--threads", type=int, default=cores(), help="of each contender (default: all cores)")
    parser.add_argument("--compile-seconds", type=float, default=300, help="patience with torch.compile (default: 300)")
    parser.add_argument("--json", type=Path, help="write the results here", metavar="FILE")
    parser.add_argument("--load", type=Path, help="begin with these results; measure only --parts anew", metavar="FILE")
    parser.add_argument("--write", action="store_true", help="render docs/performance.md and its figures")
    args = parser.parse_args()
    args.sizes = args.sizes or (SIZES[:4] if args.quick else SIZES)
    args.rounds = args.rounds or (3 if args.quick else 10)
    if args.parts is None:
        args.parts = [] if args.load else [part for part in PARTS if not (args.quick and part in LONG)]
    results = json.loads(args.load.read_text(encoding="utf-8")) if args.load else {}
    if args.parts:
        measure(results, args)
    show(results)
    if args.write:
        write_docs(results)


if __name__ == "__main__":
    main()
