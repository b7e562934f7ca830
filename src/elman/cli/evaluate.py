"""elman eval: evaluate a model on its held-out data, on a text or on examples."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from elman.cli.console import console, write
from elman.cli.flags import argument, flag
from elman.config import SEQUENCE_TASKS
from elman.errors import ArgumentError, DataError

if TYPE_CHECKING:
    from elman.data.labeled_data import LabeledData
    from elman.models.evaluation import ClassScores
    from elman.training.run import Run

MAX_CLASSES = 25  # no confusion matrix is printed for more classes


@dataclass(frozen=True)
class Evaluate:
    """Evaluate a model: without SOURCE on the held-out part of its data (the test part if there is one, else the
    validation part); with SOURCE on a text, or on examples in the format of its training data.

    A language model reads a text from a zero state and predicts every token but the first.

    For instance:
        elman eval runs/pride-and-prejudice
        elman eval runs/pride-and-prejudice other.txt --json
    """

    run_folder: Path = argument("RUN", "a run made by elman train")
    source: str | None = argument(
        "SOURCE",
        "a file or folder, - for standard input, or a name listed by elman data list; lm: also a pattern in quotes",
        None,
    )
    encoding: str | None = flag(None, "encoding of SOURCE (default: as in training)")
    unknown: Literal["error", "skip"] | None = flag(
        None,
        "lm: stop with an error at a character outside the vocabulary, or skip it (default: error); "
        "words outside it are read as <unk> unless skipped",
    )
    text_column: str | None = flag(None, "name or number (from 1) of the column with the text, in a CSV or TSV file")
    label_column: str | None = flag(None, "name or number (from 1) of the column with the label, in a CSV or TSV file")
    dynamic: bool = flag(False, "lm: a copy of the model learns while it reads (dynamic evaluation)")
    json: bool = flag(False, "print the figures as JSON")

    def run(self) -> int:
        from elman.training.run import Run

        run = Run(self.run_folder)
        task = run.config.get("task")
        columns = [f"--{name}" for name in ("text-column", "label-column") if getattr(self, name.replace("-", "_"))]
        if task != "lm" and self.unknown is not None:
            do = "Leave it out: the other tasks read unknown tokens as <unk>."
            raise ArgumentError("--unknown", expected="a language model", got=f"a run with --task {task}", do=do)
        if task != "lm" and self.dynamic:
            raise ArgumentError("--dynamic", expected="a language model", got=f"a run with --task {task}")
        if columns and (task == "lm" or self.source is None):
            got = f"a run with --task {task}" if task == "lm" else "no SOURCE"
            raise ArgumentError(columns[0], expected="a run that reads examples, and SOURCE", got=got)
        if self.source is None:
            return self._held_out(run)
        return self._text(run, self.source) if task not in SEQUENCE_TASKS else self._examples(run, self.source)

    # -- a text -------------------------------------------------------------------------------------------------------

    def _text(self, run: Run, source: str) -> int:
        from elman.cli.compile_notice import print_compile_notice
        from elman.data import open_corpus
        from elman.models import LanguageModel
        from elman.models.evaluation import evaluate_dynamically, evaluate_text

        model = LanguageModel.load(self.run_folder)
        print_compile_notice("forward")
        corpus = open_corpus(
            source,
            encoding=self.encoding or model.config_.encoding,
            keep_boilerplate=model.config_.keep_boilerplate,
            vocabulary=model.vocabulary_,
            unknown=self.unknown or "error",
        )
        with console.rich.status(f"reading {len(corpus.ids):,} tokens"):
            evaluate = evaluate_dynamically if self.dynamic else evaluate_text
            figures = evaluate(model.network_, model.parameters_, corpus.ids, corpus.characters)
        trained_on = _recorded(run, "sha256") == corpus.sha256
        self._print_text(figures, list(corpus.notes), {"trained_on": trained_on})
        return 0

    def _print_text(self, figures: Any, notes: list[str], facts: dict[str, Any]) -> None:
        if self.json:
            shown = {name: value if isfinite(value) else None for name, value in figures._asdict().items()}
            write(json.dumps(shown | facts) + "\n")
            return
        for note in notes:
            console.print(note, markup=False)
        console.print(f"{figures.nats_per_token:.4f} nats per token, perplexity {figures.perplexity:.3f}")
        console.print(
            f"{figures.bits_per_token:.4f} bits per token, {figures.bits_per_character:.4f} bits per character"
        )
        console.print(f"{figures.tokens:,} tokens predicted")
        self._print_part(facts)

    # -- examples -----------------------------------------------------------------------------------------------------

    def _examples(self, run: Run, source: str) -> int:
        from elman.data.inputs import NumberInputs
        from elman.data.labeled_data import read_examples
        from elman.data.named import find_here
        from elman.data.targets import Numbers
        from elman.models.evaluation import evaluate_model
        from elman.models.loading import load_predictor

        model = load_predictor(self.run_folder)
        if isinstance(model.fitted_.spec.inputs, NumberInputs | Numbers):
            what = f"{self.run_folder} reads numbers, and elman eval reads only texts and labels from SOURCE"
            raise DataError(what, do="Evaluate it in Python: load_model(RUN).score(X, y).")
        source = source if source == "-" else str(find_here(source) or source)
        columns = {"text_column": self.text_column, "label_column": self.label_column}
        rows = read_examples(source, model.task, encoding=self.encoding or model.fitted_.config.encoding, **columns)
        refuse_unknown_labels(model, rows)
        with console.rich.status(f"evaluating {len(rows):,} examples"):
            figures = evaluate_model(model, rows.inputs, rows.targets)
        known = _recorded(run, "source")
        trained_on = source != "-" and isinstance(known, str) and Path(known).resolve() == Path(source).resolve()
        self._print_examples(model.task, figures, {"trained_on": trained_on})
        return 0

    def _print_examples(self, task: str, figures: Any, facts: dict[str, Any]) -> None:
        from elman.models.evaluation import ClassScores, SequenceScores

        if self.json:
            write(json.dumps(asdict(figures) | facts, ensure_ascii=False) + "\n")
            return
        what = "tags" if task == "tag" else "examples"
        if isinstance(figures, ClassScores):
            console.print(
                f"accuracy {figures.accuracy:.4f}, macro F1 {figures.macro_f1:.4f}; {figures.examples:,} {what}"
            )
            if len(figures.classes) <= MAX_CLASSES:
                _print_confusion(figures)
        elif isinstance(figures, SequenceScores):
            more = "" if figures.bleu is None else f", BLEU {figures.bleu:.1f}, chrF {figures.chrf:.1f}"
            console.print(
                f"exact match {figures.exact_match:.4f}, token accuracy {figures.token_accuracy:.4f}, words right "
                f"{figures.words_right:.4f}, edit distance {figures.edit_distance:.4f} per token{more}; "
                f"{figures.examples:,} examples"
            )
        else:
            figure = asdict(figures)
            examples = figure.pop("examples")
            scores = ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in figure.items())
            console.print(f"{scores}; {examples:,} examples")
        self._print_part(facts)

    # -- the held-out part --------------------------------------------------------------------------------------------

    def _held_out(self, run: Run) -> int:
        from elman.cli.compile_notice import print_compile_notice
        from elman.models.held_out import evaluate_held_out

        print_compile_notice("forward")
        with console.rich.status("evaluating the held-out part"):
            part, figures = evaluate_held_out(run.path, dynamic=self.dynamic)
        if hasattr(figures, "_asdict"):
            self._print_text(figures, [], {"part": part})
        else:
            self._print_examples(str(run.config.get("task")), figures, {"part": part})
        return 0

    def _print_part(self, facts: dict[str, Any]) -> None:
        if facts.get("trained_on"):
            console.print(
                "Note: the model was trained on this file. elman eval RUN evaluates the part that was held out.",
                style="yellow",
            )
        if facts.get("part") == "test":
            console.print("This is the test part, which training never read.")
        elif "part" in facts:
            console.print(
                "This is the validation part: the weights with the lowest loss on it were kept. --test-fraction holds "
                "out a part that training never reads."
            )


def _recorded(run: Run, name: str) -> object:
    """A value that config.json records about the training data."""
    data = run.config.get("data")
    return data.get(name) if isinstance(data, dict) else None


def refuse_unknown_labels(model: Any, rows: LabeledData) -> None:
    """Raise DataError for a label or tag that the model does not have, because it is not in the training data."""
    from elman.data.checks import did_you_mean

    if model.task in ("translate", "regress"):
        return
    classes = model.classes_ if model.task != "generate" else model.fitted_.spec.inputs.classes
    known = set(classes.tolist())
    for target, place in zip(rows.targets, rows.places, strict=True):
        for label in target if model.task == "tag" else [target]:
            if label not in known:
                what = "tag" if model.task == "tag" else "label"
                near = did_you_mean(str(label), map(str, known)) or None
                raise DataError(place, expected=f"a {what} that was seen in training", got=repr(label), do=near)


def _print_confusion(figures: ClassScores) -> None:
    """Print the confusion matrix: rows are true classes, columns predicted ones."""
    import numpy as np

    counts = np.array(figures.confusion)
    present = np.flatnonzero(counts.sum(axis=0) + counts.sum(axis=1))  # true or predicted classes
    confusion, names = counts[np.ix_(present, present)].tolist(), [str(figures.classes[i]) for i in present]
    name_width = max(18, *map(len, names))
    widths = [max(4, *(len(str(row[j])) for row in confusion)) for j in range(len(names))]
    heads = " ".join(f"{name[:width]:>{width}}" for name, width in zip(names, widths, strict=True))
    console.print(f"\n{'true ↓ predicted →':{name_width}} {heads}", markup=False)
    for name, row in zip(names, confusion, strict=True):
        cells = " ".join(f"{n or '·':>{width}}" for n, width in zip(row, widths, strict=True))
        console.print(f"{name:{name_width}} {cells}", markup=False)
