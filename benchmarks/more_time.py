"""Does more time give a better language model, and does every optimizer learn at its default rate?

    .venv/bin/python benchmarks/more_time.py FOLDER [--only time,search,optimizers] [--json FILE]

FOLDER holds pride-and-prejudice.txt; the other kind of text is code of Python's standard library. Models are judged on
20,000 characters of the same source that no run reads. Rows that FILE has already are not measured again. On two cores
time takes 50 minutes, search 20 and optimizers 15; nothing else may run beside time and search.
"""

from __future__ import annotations

import argparse
import json
import random
import sysconfig
import time
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path
from statistics import mean
from typing import Any

from machine import machine
from report import Sheet, show_sheet

from elman import LanguageModel
from elman.config import choices_of

TIMES = 3, 8, 20, 60  # seconds
SEEDS = {8: 4, 20: 4, 100: 2, 300: 2}  # thousands of characters: how many seeds
RISE = {8: 0.04, 20: 0.04, 100: 0.02, 300: 0.02}  # of the loss from one time to the next, at most
SEARCHED = [("code", 20, "rnn"), ("novel", 100, "gru")]
TRIALS, TRIAL_SECONDS = 30, 20
CELLS = choices_of("cell")
RATES = {  # the rates that are tried if an optimizer is more than 0.2 nats behind Adam
    "sgd": (0.1, 0.2, 0.5, 1, 2, 3, 4, 6, 8, 16),
    "momentum": (0.01, 0.03, 0.06, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2),
    "adagrad": (0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.4),
    "rmsprop": (5e-4, 1e-3, 2e-3, 3e-3, 4e-3, 6e-3, 8e-3, 1e-2, 1.5e-2, 3e-2),
}
Row = dict[str, Any]


def texts(folder: Path, kind: str) -> tuple[str, str]:
    """The text to judge a model on, and the text that follows it, to train on."""
    if kind == "novel":
        text = (folder / "pride-and-prejudice.txt").read_text(encoding="utf-8")
        text = text[text.index("It is a truth universally acknowledged") :]
    else:
        library = Path(sysconfig.get_paths()["stdlib"])
        text = "".join(
            (library / f"{name}.py").read_text(encoding="utf-8") for name in ("inspect", "argparse", "typing")
        )
    return text[:20_000], text[20_000:]


def fitted(folder: Path, kind: str, thousands: int, **options: Any) -> Row:
    """Train on a text of this length; what was chosen, and the loss on the other text."""
    judged, text = texts(folder, kind)
    began = time.perf_counter()
    model = LanguageModel(**options).fit(text[: 1000 * thousands], listeners=[])
    seconds, c = time.perf_counter() - began, model.config_
    nats = model.evaluate(judged, unknown="skip").nats_per_token
    losses = [row["validation_loss"] for row in model.history_ if row.get("validation_loss") is not None]
    chosen = {name: getattr(c, name) for name in ("hidden", "layers", "dropout", "recurrent_dropout", "learning_rate")}
    steps = model.history_[-1]["step"]
    return {
        "nats": nats,
        "validation": min(losses),
        "took": seconds,
        "steps": steps,
        "limit": model.fitted_.limit,
        **chosen,
    }


def by_time(folder: Path) -> Iterator[Row]:
    for thousands, kind, cell, seconds in product(SEEDS, ("novel", "code"), ("rnn", "gru"), TIMES):
        for seed in range(SEEDS[thousands]):
            yield {"kind": kind, "thousands": thousands, "cell": cell, "seconds": seconds, "seed": seed}


def by_search(folder: Path) -> Iterator[Row]:
    """Random trials: the one with the best validation counts."""
    for kind, thousands, cell in SEARCHED:
        draw = random.Random(0)
        for trial in range(TRIALS):
            options = {
                "learning_rate": 10 ** draw.uniform(-3, -1.7), "hidden": draw.choice((96, 128, 192, 256, 384, 512)),
                "dropout": draw.uniform(0, 0.6), "optimizer": "adamw", "weight_decay": 10 ** draw.uniform(-3, 0),
                "recurrent_dropout": 0.0, "layers": 1,
            }  # fmt: skip
            yield {
                "kind": kind,
                "thousands": thousands,
                "cell": cell,
                "seconds": TRIAL_SECONDS,
                "trial": trial,
                **options,
            }


def by_optimizer(folder: Path) -> Iterator[Row]:
    for kind, cell, optimizer in product(("novel", "code"), CELLS, choices_of("optimizer")):
        yield {"kind": kind, "thousands": 100, "cell": cell, "epochs": 15, "optimizer": optimizer}


PARTS = {"time": by_time, "search": by_search, "optimizers": by_optimizer}


def measured(part: str, folder: Path, rows: list[Row]) -> Iterator[list[Row]]:
    """All rows of a part, after each that is measured."""
    for case in PARTS[part](folder):
        if any(all(row["case"].get(name) == value for name, value in case.items()) for row in rows):
            continue
        options = {name: value for name, value in case.items() if name not in ("kind", "thousands", "trial")}
        found = fitted(folder, case["kind"], case["thousands"], **options)
        rows.append({"case": case, **found})
        print(part, *case.values(), f"{found['nats']:.4f}", f"{found['took']:.1f} s", found["limit"], flush=True)
        yield rows
    if part == "optimizers":
        yield from best_rates(folder, rows)


def best_rates(folder: Path, rows: list[Row]) -> Iterator[list[Row]]:
    """Ten rates for each optimizer that is more than 0.2 nats behind Adam."""
    plain = {
        (r["case"]["kind"], r["case"]["cell"], r["case"]["optimizer"]): r["nats"]
        for r in rows
        if "learning_rate" not in r["case"]
    }
    for (kind, cell, optimizer), nats in plain.items():
        if nats > plain[kind, cell, "adam"] + 0.2:
            for rate in RATES[optimizer]:
                case = {
                    "kind": kind,
                    "thousands": 100,
                    "cell": cell,
                    "epochs": 15,
                    "optimizer": optimizer,
                    "learning_rate": rate,
                }
                if any(row["case"] == case for row in rows):
                    continue
                options = {name: value for name, value in case.items() if name not in ("kind", "thousands")}
                rows.append({"case": case, **fitted(folder, kind, 100, **options)})
                print(*case.values(), f"{rows[-1]['nats']:.4f}", flush=True)
                yield rows


def losses(rows: list[Row], **case: Any) -> list[float]:
    return [r["nats"] for r in rows if all(r["case"].get(name) == value for name, value in case.items())]


def time_means(rows: list[Row]) -> Iterator[tuple[int, str, list[float]]]:
    """For each text and cell: the length of the text, both in words, and the mean loss after each time."""
    for thousands, kind, cell in product(SEEDS, ("novel", "code"), ("rnn", "gru")):
        case = {"thousands": thousands, "kind": kind, "cell": cell}
        yield thousands, f"{thousands} kB, {kind}, {cell}", [mean(losses(rows, **case, seconds=s)) for s in TIMES]


def largest_rise(means: list[float]) -> float:
    return max(b - a for a, b in pairwise(means))


def time_sheet(rows: list[Row]) -> Sheet:
    cells = [[what, *(f"{m:.3f}" for m in means), f"{largest_rise(means):+.3f}"] for _, what, means in time_means(rows)]
    header = ["text and cell", *(f"{s} s" for s in TIMES), "largest rise"]
    return Sheet("Nats per character after more time", header, cells)


def time_targets(rows: list[Row]) -> Iterator[tuple[str, str, bool]]:
    cases = list(time_means(rows))
    held = sum(largest_rise(means) <= RISE[thousands] for thousands, _, means in cases)
    aim = "more time: the loss never rises by more than 0.02 nats, on 8 and 20 kB by 0.04"
    yield aim, f"{held} of {len(cases)} texts and cells", held == len(cases)
    gain = mean(means[0] - means[-1] for *_, means in cases)
    yield "more time: 60 s are better than 3 s, mean of all texts and cells", f"{gain:.3f} nats", gain > 0


def search_sheet(rows: list[Row], timed: list[Row]) -> Sheet:
    cells = []
    for kind, thousands, cell in SEARCHED:
        trials = [r for r in rows if (r["case"]["kind"], r["case"]["thousands"]) == (kind, thousands)]
        best = min(trials, key=lambda r: r["validation"])
        ours = mean(losses(timed, thousands=thousands, kind=kind, cell=cell, seconds=60))
        c = best["case"]
        what = f"{c['hidden']} units, rate {c['learning_rate']:.2g}, dropout {c['dropout']:.2f}"
        what += f", decay {c['weight_decay']:.2g}"
        cells.append(
            [
                f"{thousands} kB, {kind}, {cell}",
                f"{best['nats']:.3f}",
                what,
                f"{ours:.3f}",
                "yes" if ours <= best["nats"] + 0.03 else "no",
            ]
        )
    return Sheet(
        "The best of 30 trials of at most 20 s, and the defaults with 60 s",
        ["text and cell", "best trial", "its options", "defaults", "met"],
        cells,
    )


def optimizer_sheet(rows: list[Row]) -> Sheet:
    cells = []
    for optimizer in choices_of("optimizer"):
        shown = []
        for kind, cell in product(("novel", "code"), CELLS):
            tried = [
                r
                for r in rows
                if (r["case"]["kind"], r["case"]["cell"], r["case"]["optimizer"]) == (kind, cell, optimizer)
            ]
            own = next((r["nats"] for r in tried if "learning_rate" not in r["case"]), float("nan"))
            others = [r["nats"] for r in tried if "learning_rate" in r["case"]]
            shown.append(f"{own:.3f}" + (f" (best rate: {min(others):.3f})" if others else ""))
        cells.append([optimizer, *shown])
    return Sheet(
        "Nats per character of each optimizer at its default rate, 100 kB, 15 epochs",
        ["optimizer", *(f"{k}, {c}" for k, c in product(("novel", "code"), CELLS))],
        cells,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    results: dict[str, Any] = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    LanguageModel(steps=5).fit("compiled first " * 100, listeners=[])
    LanguageModel(steps=5, cell="gru").fit("compiled first " * 100, listeners=[])
    for part in args.only.split(","):
        for rows in measured(part, args.folder, results.setdefault(part, [])):
            results |= {part: rows, "machine": machine()}
            if args.json:
                args.json.write_text(json.dumps(results))
    for sheet in sheets(results):
        show_sheet(sheet)


def sheets(results: dict[str, Any]) -> Iterator[Sheet]:
    if "time" in results:
        yield time_sheet(results["time"])
    if "search" in results and "time" in results:
        yield search_sheet(results["search"], results["time"])
    if "optimizers" in results:
        yield optimizer_sheet(results["optimizers"])


if __name__ == "__main__":
    main()
