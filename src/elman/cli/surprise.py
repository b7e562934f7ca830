"""elman surprise: how unexpected each line or token of a file is to a model."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from elman.cli.console import errors, write
from elman.cli.flags import argument, flag
from elman.errors import ArgumentError, DataError, RangeError

if TYPE_CHECKING:
    from elman.data.vocabulary import Unknown


@dataclass(frozen=True)
class Surprise:
    """Show how unexpected each line or token of a file is: its surprise, minus the log of its probability, in nats.

    A language model reads the file as one text, or, if it was trained with --sequences lines, each line by itself; the
    end of a line then has a surprise too. Lines with a high surprise do not look like its training text. For a
    classifier or tagger FILE has labels or tags, as in training, and the surprise is theirs: examples with a high
    surprise are hard, or labeled wrongly. Each row has the mean surprise of the characters of a line (or of the labels
    of an example), the line number and the line; the most surprising come first. With --by token each row has the
    surprise of one token: a word if the model reads words, else a character; for a tagger, that of one tag.

    A model of characters gives a character outside its vocabulary probability 0: its surprise is infinite (inf), and
    the lines with such characters come first. In JSON their nats are null, and "unknown" has the characters. A model of
    words reads an unknown word as <unk>. The first token of a text has no surprise (nan, in JSON null).

    For instance:
        elman surprise runs/log app.log --top 20
        elman surprise runs/novel chapter.txt --by token
        elman surprise runs/names names.tsv --json
    """

    run_folder: Path = argument("RUN", "a run made by elman train")
    source: str = argument("FILE", "a file, - for standard input, or a name listed by elman data list")
    by: Literal["line", "token"] = flag("line", "a row for each line (or example), or for each token (lm and tag)")
    top: int | None = flag(None, "show only this many rows, the most surprising")
    in_order: bool = flag(False, "keep the order of the file; without --top, tokens are always in this order")
    encoding: str = flag("utf-8", "encoding of the file")
    unknown: Literal["count", "skip"] | None = flag(
        None, "lm: count the surprise of tokens outside the vocabulary, or leave these tokens out (default: count)"
    )
    text_column: str | None = flag(None, "name or number (from 1) of the column with the text, in a CSV or TSV file")
    label_column: str | None = flag(None, "name or number (from 1) of the column with the label, in a CSV or TSV file")
    json: bool = flag(False, "print a JSON object for each row")

    def run(self) -> int:
        from elman.cli.compile_notice import print_compile_notice
        from elman.data.named import find_here, find_source
        from elman.training.run import Run

        if self.top is not None and self.top < 1:
            raise RangeError("--top", expected="1 or more", got=self.top)
        task = Run(self.run_folder).config.get("task")
        if task != "lm" and self.unknown is not None:
            do = "Leave it out: the other tasks read unknown tokens as <unk>."
            raise ArgumentError("--unknown", expected="a language model", got=f"a run with --task {task}", do=do)
        if task == "classify" and self.by == "token":
            raise ArgumentError("--by token", expected="a run with --task lm or tag", got=f"--task {task}")
        columns = {"--text-column": self.text_column, "--label-column": self.label_column}
        if task == "lm" and (given := [name for name, column in columns.items() if column is not None]):
            raise ArgumentError(given[0], expected="a run with --task classify", got=f"--task {task}")
        print_compile_notice("forward")
        if task == "lm":
            rows = list(self._of_text(str(find_source(self.source))))
        elif task in ("classify", "tag"):
            source = self.source if self.source == "-" else str(find_here(self.source) or self.source)
            rows = list(self._of_examples(source, str(task)))
        else:
            raise ArgumentError(
                "elman surprise", expected="a run with --task lm, classify or tag", got=f"--task {task}"
            )
        if self.top is not None or (self.by == "line" and not self.in_order):
            rows.sort(key=_rank)
        for row in rows[: self.top]:
            if self.json:
                nats = row["nats"] if math.isfinite(row["nats"]) else None
                write(json.dumps(row | {"nats": nats}, ensure_ascii=False) + "\n")
            else:
                label = f"\t{row['label']}" if "label" in row else ""
                write(f"{row['nats']:.3f}\t{row['line']}\t{row['text']}{label}\n")
        return 0

    def _of_text(self, source: str) -> Iterator[dict[str, Any]]:
        import numpy as np

        from elman.data.labeled_data import lines_of
        from elman.data.words import words_of
        from elman.models import LanguageModel

        model = LanguageModel.load(self.run_folder)
        kind, lines = model.vocabulary_.kind, [f"{line}\n" for _, line in lines_of(source, self.encoding)]
        if not lines:
            raise DataError(f"{source} has no text", do="It is empty.")
        text = "".join(lines)
        unknown: Unknown = "skip" if kind == "char" or self.unknown == "skip" else "replace"
        if model.vocabulary_.end is None:
            nats = model.surprise(text, unknown=unknown)
        else:  # each line is a sequence, and its end stands in the place of the newline
            nats = np.concatenate([model.surprise(line[:-1], unknown=unknown) for line in lines])
        new: set[str] = set()  # characters outside the vocabulary, which have infinite surprise
        if kind == "char" and self.unknown != "skip":
            new = set(text).difference(model.vocabulary_.tokens, "\n")  # a newline may only separate the lines
        if new:
            nats[[character in new for character in text]] = math.inf
            _print_note(lines, new)
        if self.by == "token":
            pieces = [piece for part in words_of([text]) for piece in part] if kind == "word" else list(text)
            at, line = 0, 1
            for piece in pieces:
                cost = float(np.sum(nats[at : at + len(piece)]))
                yield {"nats": cost, "line": line, "text": _escaped(piece), **_unknown(piece, new)}
                at, line = at + len(piece), line + piece.count("\n")
            return
        at = 0
        for number, line_text in enumerate(lines, 1):
            part = nats[at : at + len(line_text)]
            at += len(line_text)
            known = part[np.isfinite(part)]  # that of the first token of a text is NaN: nothing predicts it
            mean = math.inf if np.isinf(part).any() else float(known.mean()) if len(known) else math.nan
            row = {"nats": mean, "line": number, "text": line_text[:-1], "total_nats": float(known.sum())}
            yield row | _unknown(line_text, new)

    def _of_examples(self, source: str, task: str) -> Iterator[dict[str, Any]]:
        import numpy as np

        from elman.cli.evaluate import refuse_unknown_labels
        from elman.data.labeled_data import read_examples
        from elman.models.loading import load_predictor

        model = load_predictor(self.run_folder)
        columns = {"text_column": self.text_column, "label_column": self.label_column}
        rows = read_examples(source, task, encoding=self.encoding, **columns)
        refuse_unknown_labels(model, rows)
        index = {label: i for i, label in enumerate(model.classes_.tolist())}
        probabilities = model.predict_proba(rows.inputs)
        for inputs, target, place, y_hat in zip(rows.inputs, rows.targets, rows.places, probabilities, strict=True):
            line = int(place.rpartition(" ")[2])
            labels = target if task == "tag" else [target]
            nats = [
                -float(np.log(max(row[index[label]], 1e-300)))
                for row, label in zip(np.atleast_2d(y_hat), labels, strict=True)
            ]
            if task == "tag" and self.by == "token":
                for i, (token, label) in enumerate(zip(inputs, labels, strict=True)):
                    yield {"nats": nats[i], "line": line + i, "text": token, "label": label}
            else:
                text = " ".join(inputs) if task == "tag" else inputs
                label = " ".join(labels)
                yield {"nats": float(np.mean(nats)), "line": line, "text": text, "label": label}


def _rank(row: dict[str, Any]) -> tuple[float, int]:
    """The key to sort by: the highest surprise first, then the most unknown characters; NaN last."""
    return math.inf if math.isnan(row["nats"]) else -row["nats"], -len(row.get("unknown", ""))


def _unknown(text: str, new: set[str]) -> dict[str, str]:
    """A dict with the characters of a text that are in `new`, each once; empty if there are none."""
    found = "".join(dict.fromkeys(character for character in text if character in new))
    return {"unknown": found} if found else {}


def _print_note(lines: list[str], new: set[str]) -> None:
    from elman.data.checks import few

    count = sum(not new.isdisjoint(line) for line in lines)
    errors.print(
        f"Note: {count:,} of {len(lines):,} lines have characters outside the vocabulary: {few(sorted(new))}. Their "
        "surprise is infinite; --unknown skip leaves them out.",
        markup=False,
        style="yellow",
    )


def _escaped(piece: str) -> str:
    return piece.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
