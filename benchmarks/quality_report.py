"""What benchmarks/quality.py found, as tables: in the terminal, and in docs/quality.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from textwrap import wrap
from typing import Any

from more_time import time_sheet, time_targets
from report import DOCS, Sheet, markdown, show_sheet

MEASURES = {  # of each corpus: its title, the metric, and the metric's key in a row
    "surnames": ("surname → language", "accuracy", "score"),
    "part of speech": ("word → part of speech", "accuracy", "score"),
    "sentiment": ("sentence → sentiment", "accuracy", "score"),
    "pronunciation": ("spelling → pronunciation", "exact match", "score"),
    "french": ("English → French", "words right", "words right"),
}
BARS = {"surnames": 0.83, "part of speech": 0.90}  # the aims; for other corpora PyTorch's score
TRANSLATED = {  # the aims of each task, by the key in a row
    "English → French": {"score": 0.15, "words right": 0.55},
    "spelling → pronunciation": {"score": 0.50},
    "number → words": {"score": 0.99},
    "string → reversed": {"score": 0.99},
}
FOLDS = 10  # of the cross-validation of sentences
LEADS = {"sentiment": -0.005, "questions": 0.03}  # aims, relative to a linear model on words
LONG_MEMORY = {  # problem and T: the aim in words, the measure, and its aim for every seed
    ("adding", 200): ("the adding problem over 200 steps, vanilla: an error under 0.01", "mean squared error", 0.01),
    ("adding", 400): ("the adding problem over 400 steps, gated: an error under 0.01", "mean squared error", 0.01),
    ("digits", 64): ("digits pixel by pixel, vanilla: accuracy of at least 0.95", "accuracy", 0.95),
    ("copy memory", 100): ("copy memory over 100 steps: symbols right of at least 0.99", "symbols right", 0.99),
}
LANGUAGE_BARS = {  # cell and preset: the aim for the nats per character of the last tenth
    ("rnn", "default"): 1.20,
    ("gru", "default"): 1.18,
}
ERRORS = "mean squared error", "nats per step"  # measures of which lower values are better
WHO = {"elman": "Elman", "torch": "PyTorch", "torch, Elman's rate": "PyTorch, Elman's rate"}


def sheets(results: dict[str, Any]) -> dict[str, Sheet]:
    makers = {
        "curves": curves,
        "float32": float32,
        "defaults": defaults,
        "translation": translation,
        "language": language,
        "baselines": baselines,
        "adding": adding,
        "memory": memory,
        "time": time_sheet,
    }
    made = {part: make(results[part]) for part, make in makers.items() if part in results}
    aims = [[aim, measured, "yes" if met else "no"] for aim, measured, met in targets(results)]
    return {"targets": Sheet("Aims", ["aim", "measured", "met"], aims), **made}


def curves(rows: list[dict[str, Any]]) -> Sheet:
    cells = [[r["shape"], f"{r['first']:.4f}", f"{r['last']:.4f}", f"{r['off']:.1e}"] for r in rows]
    return Sheet("Loss over 50 steps, float64", ["task", "first loss", "last loss", "largest difference"], cells)


def float32(rows: list[dict[str, Any]]) -> Sheet:
    cells = [[r["shape"], f"{r['elman']:.4f}", f"{r['torch']:.4f}"] for r in rows]
    return Sheet("Score on held-out data after 500 steps, float32", ["task", "Elman", "PyTorch"], cells)


def column(rows: list[dict[str, Any]], who: str, what: str) -> list[float]:
    return [row[what] for row in rows if row["who"] == who]


def defaults(found: dict[str, list[dict[str, Any]]]) -> Sheet:
    cells = []
    for name, rows in found.items():
        title, measure, what = MEASURES[name]
        scores = [", ".join(f"{score:.3f}" for score in column(rows, who, what)) for who in WHO]
        times = [f"{min(column(rows, who, 'seconds')):.0f}" for who in ("elman", "torch")]
        cells.append([f"{title}, {measure}", f"{rows[0]['examples']:,}", *scores, f"{rows[0]['steps']:,}", *times])
    header = ["", "test examples", *WHO.values(), "steps", "Elman, s", "PyTorch, s"]
    return Sheet("With the defaults, seeds 0, 1 and 2", header, cells)


def by_task(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return {task: some for task in TRANSLATED if (some := [row for row in rows if row["task"] == task])}


def translation(rows: list[dict[str, Any]]) -> Sheet:
    cells = []
    for task, runs in by_task(rows).items():
        first, scores, words = runs[0], [run["score"] for run in runs], mean(run["words right"] for run in runs)
        each = ", ".join(f"{score:.3f}" for score in scores)
        times = [f"{min(run[clock] for run in runs):.0f}" for clock in ("seconds", "cpu")]
        cells.append([task, f"{first['examples']:,}", each, f"{mean(scores):.3f}", f"{words:.3f}",
                      f"{first['steps']:,}", *times])  # fmt: skip
    header = ["", "test examples", "exact match", "mean", "words right", "steps", "s", "CPU s"]
    return Sheet("Translators with the defaults, seeds 0, 1 and 2", header, cells)


def baselines(found: dict[str, dict[str, list[float]]]) -> Sheet:
    cells = []
    for name, scores in found.items():
        ours = scores["elman"]
        seeds = ", ".join(f"{mean(ours[i : i + FOLDS]):.3f}" for i in range(0, len(ours), FOLDS))
        cells.append([name, seeds, f"{mean(ours):.3f}", f"{mean(scores['linear']):.3f}", f"{min(ours):.3f}"])
    header = ["", "Elman, seeds 0, 1 and 2", "mean", "TF-IDF and logistic regression", "Elman, worst fold"]
    return Sheet("Sentences, ten-fold cross-validation, accuracy", header, cells)


def language(rows: list[dict[str, Any]]) -> Sheet:
    cells = []
    for runs in grouped(rows, "cell", "preset"):
        first, tests = runs[0], ", ".join(f"{run['test']:.3f}" for run in runs)
        epochs, test, validation, seconds = (
            mean(run[name] for run in runs) for name in ("epochs", "test", "validation", "seconds")
        )
        size = f"{first['layers']} × {first['units']}", f"{first['parameters']:,}"
        cells.append(
            [
                first["cell"],
                first["preset"],
                *size,
                f"{epochs:.0f}",
                tests,
                f"{test:.3f}",
                f"{validation:.3f}",
                f"{seconds:.0f}",
            ]
        )
    header = ["cell", "preset", "layers × units", "parameters", "epochs", "test", "mean", "validation", "s"]
    return Sheet("Pride and Prejudice, nats per character, seeds 0, 1 and 2", header, cells)


def language_targets(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str, bool]]:
    for (cell, preset), bar in LANGUAGE_BARS.items():
        if losses := [row["test"] for row in rows if (row["cell"], row["preset"]) == (cell, preset)]:
            aim = f"a language model, {cell}, five minutes: at most {bar:.2f} nats per character"
            yield aim, f"{mean(losses):.3f}", mean(losses) <= bar


def adding(rows: list[dict[str, Any]]) -> Sheet:
    cells = [[r["start"], f"{r['error']:.4f}", f"{r['steps']:,}", f"{r['seconds']:.0f}"] for r in rows]
    header = ["initial W_hh, activation", "mean squared error", "steps", "s"]
    return Sheet("The adding problem, 50 steps, 64 units", header, cells)


def grouped(rows: list[dict[str, Any]], *names: str) -> list[list[dict[str, Any]]]:
    """The rows that have the same values of these names together: the runs of a network, one for each seed."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return list(found.values())


def memory(rows: list[dict[str, Any]]) -> Sheet:
    cells = []
    for runs in grouped(rows, "problem", "T", "cell", "start"):
        first = runs[0]
        times = [f"{min(run[clock] for run in runs):.0f}" for clock in ("seconds", "cpu")]
        for measure, (_, baseline) in first["measured"].items():
            digits = 5 if measure in ERRORS else 3
            scores = ", ".join(f"{run['measured'][measure][0]:.{digits}f}" for run in runs)
            cells.append([f"{first['problem']}, {measure}", first["cell"], first["start"], str(first["T"]),
                          str(first["units"]), f"{first['rate']:g}", f"{first['steps']:,}", scores,
                          f"{baseline:.3f}", *times])  # fmt: skip
    header = ["", "cell", "initial W_hh, activation", "T", "units", "rate", "steps", "on test data", "baseline",
              "s", "CPU s"]  # fmt: skip
    return Sheet("Long memory, seeds 0, 1 and 2", header, cells)


def memory_targets(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str, bool]]:
    """Of the networks for a problem, the one whose worst seed is best counts."""
    networks = grouped(rows, "problem", "T", "cell", "start")
    for key, (aim, measure, bar) in LONG_MEMORY.items():
        sign = -1 if measure in ERRORS else 1
        worst = [
            min(sign * run["measured"][measure][0] for run in runs)
            for runs in networks
            if (runs[0]["problem"], runs[0]["T"]) == key
        ]
        if worst:
            yield aim, f"{abs(max(worst)):.4f}" if measure in ERRORS else f"{max(worst):.3f}", max(worst) >= sign * bar


def targets(results: dict[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """What the project set out to reach, what it reached, and whether that is enough."""
    if part := results.get("curves"):
        worst = max(row["off"] for row in part)
        yield "losses agree with PyTorch's to 1e-6 over 50 steps, float64", f"{worst:.1e}", worst <= 1e-6
    if part := results.get("float32"):
        worst = max(abs(row["elman"] - row["torch"]) for row in part)
        yield "scores within 0.01 of PyTorch's after 500 steps, float32", f"{worst:.4f}", worst <= 0.01
    for name, rows in results.get("defaults", {}).items():
        title, measure, what = MEASURES[name]
        ours, theirs = mean(column(rows, "elman", what)), mean(column(rows, "torch", what))
        bar = BARS.get(name, theirs)
        aim = f"{title}: {measure} of at least {bar:.3f}" + ("" if name in BARS else ", PyTorch's")
        yield aim, f"{ours:.3f}", ours >= bar
    for task, runs in by_task(results.get("translation", [])).items():
        for what, bar in TRANSLATED[task].items():
            reached, measure = mean(run[what] for run in runs), "exact match" if what == "score" else what
            yield f"{task}: {measure} of at least {bar:.2f}", f"{reached:.3f}", reached >= bar
    for name, scores in results.get("baselines", {}).items():
        ours, linear = mean(scores["elman"]), mean(scores["linear"])
        bar = linear + LEADS[name]
        yield f"{name}, ten folds: accuracy of at least {bar:.3f} (TF-IDF {linear:.3f})", f"{ours:.3f}", ours >= bar
    if part := results.get("adding"):
        best = min(row["error"] for row in part)
        yield "the adding problem over 50 steps: an error under 0.01", f"{best:.4f}", best < 0.01
    yield from language_targets(results.get("language", []))
    yield from memory_targets(results.get("memory", []))
    if part := results.get("time"):
        yield from time_targets(part)


def show(results: dict[str, Any]) -> bool:
    """Everything in the terminal; whether all aims are met."""
    for sheet in sheets(results).values():
        show_sheet(sheet)
    return all(met for *_, met in targets(results))


def write_docs(results: dict[str, Any], path: Path = DOCS / "quality.md") -> None:
    """Replace the tables that were measured, below their titles, and the rows of their aims; all else stays."""
    text, made, at = path.read_text(encoding="utf-8"), sheets(results), results["machine"]
    where = f"({at['cpu']}, {at['cores']} cores, {results['threads']}; {results['date']})"
    for part, sheet in made.items():
        title = f"**{sheet.title}**"
        found = re.search(rf"^{re.escape(title)}[^|]*\n\n((?:\|.*\n)+)", text, flags=re.MULTILINE)
        if found is None:
            raise SystemExit(f"{path}: expected a table below the title {title}, got none. Add the title and a table.")
        if part == "targets":
            sheet, caption = sheet._replace(rows=merged_aims(found[1], sheet.rows)), title
        else:
            caption = "\n".join(wrap(f"{title} {where}", 120))
        table = markdown(sheet).partition("\n\n")[2]
        text = text[: found.start()] + f"{caption}\n\n{table}\n" + text[found.end() :]
    path.write_text(text, encoding="utf-8")


def merged_aims(table: str, rows: list[list[str]]) -> list[list[str]]:
    """The rows of the table, in which measured rows replace those of the same aim or are added at the end.

    Aims that differ in their numbers only are the same: a limit may have changed.
    """
    old = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    merged = {re.sub(r"[\d.]+", "", row[0]): row for row in [*old, *rows]}
    return list(merged.values())
