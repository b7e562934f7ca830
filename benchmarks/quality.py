"""How well the models learn, compared with the same networks in PyTorch, with linear models and with aims.

    .venv-bench/bin/python benchmarks/quality.py FOLDER [--only PART,PART] [--json FILE] [--write]

The parts are curves, float32, defaults, translation, language, baselines, adding, memory and time. FOLDER holds the
corpora (default: $ELMAN_DATA; adding and memory use none of them). With --json, parts that are not measured again are
taken from the file. --write replaces the tables of all parts, measured or taken from the file, and their aims in
docs/quality.md, and nothing else there. .venv-bench is made by scripts/bench. On two busy cores the part translation
took 56 minutes, language 33, memory 45 (5 of CPU time), time 40, and the others an hour and a half.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from string import ascii_lowercase
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from crew import HERE
from long_memory import NETWORKS, solve
from long_memory import adding as adding_problem
from machine import machine, versions
from more_time import measured
from quality_report import FOLDS, show, write_docs
from rich.console import Console
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from twin import Twin, both_curves, prepared, seeded, train

from elman import LanguageModel, Seq2Seq, SequenceClassifier, SequenceGenerator, SequenceRegressor, SequenceTagger
from elman.config import PRESETS
from elman.data.labeled_data import read_examples
from elman.kernels.threads import thread_count
from elman.models.evaluation import Evaluation, edit_distance, sequence_scores
from elman.models.held_out import evaluate_held_out
from elman.training import ProgressLine

PLAIN = {"dropout": 0.0, "input_dropout": 0.0, "recurrent_dropout": 0.0, "unk_dropout": 0.0, "random_state": 0}
NOVEL = "pride-and-prejudice.txt"
LANGUAGE_MODELS = [("gru", "default"), ("rnn", "default"), ("gru", "fast"), ("rnn", "fast")]  # cell and preset
SENTENCES = {"sentiment": "sentiment.tsv", "questions": "questions.tsv"}
SEEDS = 0, 1, 2
STEPS, LONG = 50, 500  # over which the losses must agree, and after which scores are compared
TRAINED, TESTED = 20_000, 2_000  # examples of numbers and of strings
BEAM = {"English → French": 5}  # the others are decoded greedily
ADDING = {"cell": "rnn", "recurrent_init": "identity", "activation": "relu", "hidden": 64, "epochs": 10}
console = Console(highlight=False)


class Corpus(NamedTuple):
    file: str
    kind: Any  # the class of the estimator


CORPORA = {
    "surnames": Corpus("names", SequenceClassifier),
    "part of speech": Corpus("part-of-speech.tsv", SequenceTagger),
    "sentiment": Corpus("sentiment.tsv", SequenceClassifier),
    "pronunciation": Corpus("pronunciation.tsv", Seq2Seq),
    "french": Corpus("english-french.tsv", Seq2Seq),
}


class Split(NamedTuple):
    X: Any
    y: Any
    X_test: Any
    y_test: Any


def split(X: Any, y: Any) -> Split:
    """Hold out a tenth for the test, drawn at random with seed 0."""
    held = np.zeros(len(X), bool)
    held[np.random.default_rng(0).permutation(len(X))[: round(0.1 * len(X))]] = True

    def part(values: Any, keep: Any) -> Any:
        return values[keep] if isinstance(values, np.ndarray) else [values[i] for i in np.flatnonzero(keep)]

    return Split(part(X, ~held), part(y, ~held), part(X, held), part(y, held))


def load(folder: Path, name: str, kind: Any = None) -> Split:
    corpus = CORPORA[name]
    rows = read_examples(str(folder / corpus.file), (kind or corpus.kind).task)
    return by_source(rows.inputs, rows.targets) if corpus.kind is Seq2Seq else split(rows.inputs, rows.targets)


def by_source(X: list[str], y: list[str]) -> Split:
    """All translations of a sentence are in the same part; a held-out sentence comes once, with a list of them."""
    answers: dict[str, list[str]] = {}
    for source, target in zip(X, y, strict=True):
        answers.setdefault(source, []).append(target)
    sources, targets, X_test, y_test = split(list(answers), list(answers.values()))
    pairs = [(source, target) for source, several in zip(sources, targets, strict=True) for target in several]
    return Split([source for source, _ in pairs], [target for _, target in pairs], X_test, y_test)


def numbers() -> Split:
    """Numbers below a million, digit by digit, and their English words."""
    sys.path.append(str(HERE.parent / "examples"))
    from shared import number_in_words

    drawn = np.random.default_rng(0).permutation(1_000_000)[: TRAINED + TESTED].tolist()
    return made([str(n) for n in drawn], [number_in_words(n) for n in drawn])


def strings(longest: int = 30) -> Split:
    """Different strings of 1 to 30 letters, and the same strings backwards."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, longest + 1, size=(TRAINED + TESTED) * 6 // 5)
    drawn = sorted({"".join(rng.choice(list(ascii_lowercase), size=n)) for n in lengths})
    drawn = [drawn[i] for i in rng.permutation(len(drawn))[: TRAINED + TESTED]]
    return made(drawn, [string[::-1] for string in drawn])


def made(X: list[str], y: list[str]) -> Split:
    """The first pairs are for training; the last are held out, each with a list of its one answer."""
    assert len(set(X)) == TRAINED + TESTED
    return Split(X[:TRAINED], y[:TRAINED], X[TRAINED:], [[answer] for answer in y[TRAINED:]])


def adding(T: int = 50, n: int = 10_000) -> Split:
    return split(*adding_problem(T, n))


def cases(folder: Path) -> Iterator[tuple[str, Any, Split, dict[str, Any]]]:
    """One for each task: name, class, data, and options other than PLAIN."""
    yield "classify", SequenceClassifier, load(folder, "surnames"), {}
    yield "regress", SequenceRegressor, adding(), {k: v for k, v in ADDING.items() if k != "epochs"}
    yield "tag, two directions", SequenceTagger, load(folder, "part of speech"), {}
    X, y, X_test, y_test = load(folder, "surnames", SequenceGenerator)
    yield "generate", SequenceGenerator, Split(y, X, y_test, X_test), {}
    yield "translate", Seq2Seq, load(folder, "pronunciation"), {}


def model_with(kind: Any, **options: Any) -> Any:
    """A model with those of the options that it has."""
    return kind(**{name: value for name, value in options.items() if name in kind.defaults()})


def curves(folder: Path) -> list[dict[str, Any]]:
    """The largest difference between the losses of Elman and of its twin, in float64."""
    rows = []
    for name, kind, data, options in cases(folder):
        model = model_with(kind, **PLAIN | options, dtype="float64")
        ours, theirs, _ = both_curves(*prepared(model, data.X, data.y), STEPS)
        off = float(np.abs(np.subtract(ours, theirs)).max())
        rows.append({"shape": name, "first": ours[0], "last": ours[-1], "off": off})
        console.print(f"{name:>16}  {STEPS} steps, loss {ours[0]:.4f} → {ours[-1]:.4f}, off by {off:.1e}")
    return rows


def float32(folder: Path) -> list[dict[str, Any]]:
    """The scores of Elman and of its twin after more steps, in float32."""
    rows = []
    for name, kind, data, options in cases(folder):
        model = model_with(kind, **PLAIN | options)
        fitted, task = prepared(model, data.X, data.y)
        _, _, twin = both_curves(fitted, task, LONG)
        ours = figures(model._set_fitted(fitted), data)["score"]
        theirs = figures(with_parameters_of(twin, model), data)["score"]
        rows.append({"shape": name, "elman": ours, "torch": theirs})
        console.print(f"{name:>16}  {LONG} steps, Elman {ours:.4f}, PyTorch {theirs:.4f}")
    return rows


def with_parameters_of(twin: Twin, model: Any) -> Any:
    """The model with the parameters of its twin, so that the same code evaluates both."""
    twin.fitted.parameters.buffer[:] = twin.give().buffer
    return model._set_fitted(twin.fitted)


def figures(model: Any, data: Split, beam: int = 1) -> dict[str, float]:
    """The scores on the test data; of several right answers the nearest counts."""
    if model.task != "translate":
        return {"score": model.score(data.X_test, data.y_test)}
    predicted, nearest = model.predict(data.X_test, beam=beam), []
    for answers, one in zip(data.y_test, predicted, strict=True):
        nearest.append(min(answers, key=lambda answer: edit_distance(answer.split(), one.split())))
    scores = sequence_scores(nearest, predicted, model.symbols_)
    return {"score": scores.exact_match, "words right": scores.words_right}


def defaults(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Every corpus with the defaults of its task, and the twin from PyTorch's initial parameters, for as many steps."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, corpus in CORPORA.items():
        data = load(folder, name)
        for seed in SEEDS:
            # a translator's twin takes too long to run twice
            for who in ("elman", "torch", "torch, Elman's rate")[: 2 if corpus.kind is Seq2Seq else 3]:
                row = {"seed": seed, "who": who, **run(corpus.kind, data, seed, who)}
                found.setdefault(name, []).append(row)
                shown = ", ".join(f"{what} {row[what]:.4f}" for what in ("score", "words right") if what in row)
                console.print(f"{name:>16}  {who:<20} seed {seed}  {shown}  {row['seconds']:.0f} s")
    return found


def run(kind: Any, data: Split, seed: int, who: str = "elman", beam: int = 1) -> dict[str, Any]:
    """Train a model or its twin; its times and scores."""
    # the twins learn with Adam
    model = kind(random_state=seed, **({} if who == "elman" else {"optimizer": "adam", "weight_decay": 0.0}))
    began, began_cpu = time.perf_counter(), time.process_time()
    if who == "elman":
        model.fit(data.X, data.y)
        steps = model.n_iter_
    else:
        fitted, task = prepared(model, data.X, data.y)
        steps, twin = round(fitted.config.epochs * task.steps_per_epoch), seeded(fitted, seed)
        train(twin, task, steps, usual=who == "torch")
        with_parameters_of(twin, model)
    row = {"steps": steps, "seconds": time.perf_counter() - began, "cpu": time.process_time() - began_cpu,
           "examples": len(data.X_test)}  # fmt: skip
    return row | figures(model, data, beam)


def translation(folder: Path) -> Iterator[list[dict[str, Any]]]:
    """Translators with the defaults, on real pairs and on pairs that a rule makes; yields all rows after each run."""
    rows = []
    tasks = {"English → French": load(folder, "french"), "spelling → pronunciation": load(folder, "pronunciation"),
             "number → words": numbers(), "string → reversed": strings()}  # fmt: skip
    for seed in SEEDS:
        for task, data in tasks.items():
            rows.append(row := {"task": task, "seed": seed, **run(Seq2Seq, data, seed, beam=BEAM.get(task, 1))})
            console.print(f"{task:>24}  seed {seed}  exact match {row['score']:.4f}, words right"
                          f" {row['words right']:.4f}  {row['steps']} steps, {row['seconds']:.0f} s")  # fmt: skip
            yield rows


def baselines(folder: Path) -> dict[str, dict[str, list[float]]]:
    """Ten-fold cross-validation of sentences, on the same folds as a linear model on words and pairs of words.

    The scores of Elman are those of all folds with the first seed, then with the next.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for name, file in SENTENCES.items():
        rows = read_examples(str(folder / file), "classify")
        X, y = np.array(rows.inputs, object), np.array(rows.targets)
        linear = make_pipeline(
            TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LogisticRegression(C=4, max_iter=1000)
        )
        models = [("linear", linear), *(("elman", SequenceClassifier(random_state=seed)) for seed in SEEDS)]
        scores: dict[str, list[float]] = {"elman": [], "linear": []}
        for who, model in models:
            for train_rows, test_rows in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y):
                fitted = clone(model).fit(X[train_rows].tolist(), y[train_rows])
                scores[who].append(float(fitted.score(X[test_rows].tolist(), y[test_rows])))
            console.print(f"{name:>16}  {who} {np.mean(scores[who][-FOLDS:]):.4f}")
        found[name] = scores
    return found


def language(folder: Path) -> Iterator[list[dict[str, Any]]]:
    """A novel: eight tenths for training, the ninth for validation, the last for the test.

    Yields all rows after each run.
    """
    rows: list[dict[str, Any]] = []
    for seed, (cell, preset) in product(SEEDS, LANGUAGE_MODELS):
        model = LanguageModel(cell=cell, seed=seed, test_fraction=0.1, **PRESETS[preset])
        with TemporaryDirectory() as out:
            began = time.perf_counter(), time.process_time()
            model.fit(folder / NOVEL, out=Path(out) / "run", listeners=[ProgressLine()])
            seconds, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
            _, test = evaluate_held_out(Path(out) / "run")
        assert isinstance(test, Evaluation)
        config, losses = model.config_, [row["validation_loss"] for row in model.history_]
        rows.append({
            "cell": cell, "preset": preset, "seed": seed, "units": config.hidden, "layers": config.layers,
            "parameters": model.parameters_.buffer.size, "epochs": model.history_[-1]["epoch"],
            "validation": min(filter(None, losses)), "test": test.nats_per_token, "seconds": seconds, "cpu": cpu,
        })  # fmt: skip
        console.print(f"{cell}, preset {preset}, seed {seed}: validation {rows[-1]['validation']:.4f}, "
                      f"test {rows[-1]['test']:.4f}, {seconds:.0f} s")  # fmt: skip
        yield rows


def starts(_: Path) -> list[dict[str, Any]]:
    """The adding problem over 50 steps, with each initialization of a vanilla network."""
    rows, data = [], adding()
    for initial, activation in (("identity", "relu"), ("orthogonal", "tanh"), ("glorot", "tanh")):
        began = time.perf_counter()
        model = SequenceRegressor(**ADDING | {"recurrent_init": initial, "activation": activation}, random_state=0)
        model.fit(data.X, data.y)
        error = float(((model.predict(data.X_test) - data.y_test) ** 2).mean())
        rows.append({"start": f"{initial}, {activation}", "error": error, "steps": model.n_iter_,
                     "seconds": time.perf_counter() - began})  # fmt: skip
        console.print(f"adding, T = 50  {initial:>10}, {activation}: {error:.5f}")
    return rows


def memory(_: Path) -> Iterator[list[dict[str, Any]]]:
    """Problems that need a long memory; yields all rows after each run."""
    rows = []
    for seed in SEEDS:
        for network in NETWORKS:
            rows.append(row := solve(network, seed))
            shown = ", ".join(f"{measure} {score:.5f}" for measure, (score, _) in row["measured"].items())
            console.print(f"{network.problem:>12}, T = {network.T}, {row['cell']}  seed {seed}  {shown}"
                          f"  {row['seconds']:.0f} s")  # fmt: skip
            yield rows


PARTS = {"curves": curves, "float32": float32, "defaults": defaults, "translation": translation,
         "language": language, "baselines": baselines, "adding": starts, "memory": memory,
         "time": lambda folder: measured("time", folder, [])}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default=os.environ.get("ELMAN_DATA"), help="folder of the corpora")
    parser.add_argument("--only", default=",".join(PARTS), help="parts to measure, with commas between")
    parser.add_argument("--json", type=Path, help="file of results, read and written")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/quality.md")
    asked = parser.parse_args()
    if asked.folder is None or not Path(asked.folder).is_dir():
        parser.error("name the folder of the corpora, or set ELMAN_DATA to it (elman data fetch NAME downloads them)")
    torch.set_num_threads(1)  # with steps this small two threads would only wait for each other
    results = json.loads(asked.json.read_text()) if asked.json and asked.json.exists() else {}
    results |= {"machine": machine(), "versions": versions(), "threads": f"threads: Elman {thread_count()}, PyTorch 1"}
    results["date"] = datetime.now(UTC).strftime("%Y-%m-%d")
    for part in filter(None, asked.only.split(",")):
        found = PARTS[part](Path(asked.folder))
        for results[part] in found if isinstance(found, Iterator) else [found]:
            if asked.json:
                asked.json.write_text(json.dumps(results, indent=1))
    met = show(results)
    if asked.write:
        write_docs(results)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
