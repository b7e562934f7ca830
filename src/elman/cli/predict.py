"""elman predict: predictions of a trained model for new sequences."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elman.cli.compile_notice import print_compile_notice
from elman.cli.console import errors, write
from elman.cli.flags import argument, flag
from elman.errors import ArgumentError, DataError, RunError


@dataclass(frozen=True)
class Predict:
    """Predict with a trained model: a class, a number, a tag for each token, a translation, or a sequence for a label.

    classify, regress and translate read a text from each line of SOURCE, or the texts in a column of a CSV or TSV file;
    generate reads a label from each line. tag reads a token from each line, with a blank line after each sequence, or a
    sequence from each line, with spaces between its tokens. A model of numbers reads JSON from each line: [1, 2, 3] or
    [[1, 2], [3, 4]]. What follows a tab in a line, or is in other columns, such as labels, is ignored. Without SOURCE,
    or with -, standard input is read.

    For instance:
        elman predict runs/names surnames.txt --json
        elman predict runs/reviews new.csv --text-column review
        elman predict runs/names - --proba
    """

    run_folder: Path = argument("RUN", "a run made by elman train --task …")
    source: str = argument("SOURCE", "a file, or - for standard input", "-")
    json: bool = flag(False, "print a JSON object for each input")
    proba: bool = flag(
        False,
        "classify: print the five most probable classes with their probabilities (--json: all classes); tag: print the "
        "probability of each predicted tag (--json: of all tags)",
    )
    beam: int = flag(1, "translate and generate: width of the beam search; 1: greedy decoding")
    temperature: float | None = flag(
        None, "generate: 0 takes the most probable token, above 0 samples (default: 0, or 0.8 if --count is above 1)"
    )
    count: int = flag(1, "generate: number of samples for each label")
    seed: int = flag(0, "generate: seed of the random numbers")
    text_column: str | None = flag(None, "name or number (from 1) of the column with the texts, in a CSV or TSV file")
    encoding: str = flag("utf-8", "encoding of SOURCE")

    def run(self) -> int:
        from elman.data.inputs import NumberInputs
        from elman.models.loading import load_predictor
        from elman.models.sampling import check_beam
        from elman.training.run import Run

        if Run(self.run_folder).config.get("task") == "lm":
            raise RunError(
                f"{self.run_folder} is a language model", do=f"elman sample {self.run_folder} samples from it."
            )
        model = load_predictor(self.run_folder)
        task = model.task
        if self.proba and task not in ("classify", "tag"):
            raise ArgumentError("--proba", expected="a run with --task classify or tag", got=f"--task {task}")
        if self.temperature is not None and not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ArgumentError("--temperature", expected="0 or more", got=self.temperature)
        if self.count < 1:
            raise ArgumentError("--count", expected="1 or more", got=self.count)
        for name, given in (("--temperature", self.temperature), ("--seed", self.seed), ("--count", self.count - 1)):
            if given and task != "generate":
                raise ArgumentError(name, expected="a run with --task generate", got=f"--task {task}")
        if self.text_column is not None and task not in ("classify", "regress", "translate"):
            raise ArgumentError(
                "--text-column", expected="a run with --task classify, regress or translate", got=f"--task {task}"
            )
        if self.text_column is not None and isinstance(model.fitted_.spec.inputs, NumberInputs):
            got = f"{self.run_folder}, which reads numbers"
            raise ArgumentError("--text-column", expected="a model of texts", got=got, do="Leave it out.")
        check_beam(self.beam)
        if self.beam > 1 and task not in ("generate", "translate"):
            raise ArgumentError("--beam", expected="a run with --task translate or generate", got=f"--task {task}")
        if self.beam > 1 and (self.temperature or self.count > 1):
            raise ArgumentError(
                "--beam searches for the most probable sequence, --temperature and --count sample", do="Choose one."
            )
        items = [item for item in self._items(model) for _ in range(self.count)]
        if not items:
            what = f"{'standard input' if self.source == '-' else self.source} has no input"
            raise DataError(what, expected="at least one line that is not blank", do="See elman predict --help.")
        print_compile_notice("forward")
        if note := _note_on_unknown(model, items):
            errors.print(note, markup=False, style="yellow")
        lines = _tagged(model, items, self) if task == "tag" else _predicted(model, items, self)
        for line in lines:
            write(f"{line}\n")
        sys.stdout.flush()
        return 0

    def _items(self, model: Any) -> list[Any]:
        from elman.data.inputs import NumberInputs, TokenInputs
        from elman.data.labeled_data import is_blank, lines_of, read_texts
        from elman.data.named import find_here
        from elman.data.targets import Numbers

        source = self.source if self.source == "-" else str(find_here(self.source) or self.source)
        if isinstance(model.fitted_.spec.inputs, TokenInputs) and model.task in ("classify", "regress", "translate"):
            texts, notes = read_texts(source, encoding=self.encoding, text_column=self.text_column)
            for note in notes:
                errors.print(note, markup=False)
            return texts
        whole = list(lines_of(source, self.encoding))
        lines = [(number, line.partition("\t")[0]) for number, line in whole]
        if isinstance(model.fitted_.spec.inputs, NumberInputs | Numbers):
            return [_numbers(f"{source}, line {number}", line) for number, line in lines if line.strip()]
        if model.task == "tag":
            spaced = any(" " in token for token in model.fitted_.spec.inputs.symbols.tokens)
            blocks: list[list[str]] = [[]]
            for (number, line), (_, row) in zip(lines, whole, strict=True):
                if len(line.split()) > 1 and "\t" not in row and not spaced:
                    blocks += [line.split(), []]  # a whole sequence
                elif line.strip():
                    blocks[-1].append(line)
                elif not is_blank(row):
                    raise DataError(f"{source}, line {number}", expected="a token", got="none before the tab")
                elif blocks[-1]:
                    blocks.append([])
            return [block for block in blocks if block]
        return [line.strip() for _, line in lines if line.strip()]  # the labels to generate for


def _numbers(place: str, line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        raise DataError(place, expected="numbers as JSON, such as [1, 2.5, 3]", got=repr(line[:40])) from None


def _note_on_unknown(model: Any, items: list[Any]) -> str:
    """A note on the tokens that are not in the vocabulary; empty if there are none."""
    from elman.data.checks import few
    from elman.data.inputs import TokenInputs
    from elman.data.symbols import UNKNOWN_ID

    inputs = model.fitted_.spec.inputs
    if not isinstance(inputs, TokenInputs):
        return ""
    unknown: dict[str, None] = {}  # each once, in the order of the inputs
    count = 0
    for item in items:
        ids = inputs.symbols.encode(item)
        tokens = inputs.symbols.tokenize(item)
        new = [token.strip() or token for token, i in zip(tokens, ids, strict=True) if i == UNKNOWN_ID]
        unknown.update(dict.fromkeys(new))
        count += bool(new)
    if not count:
        return ""
    note = f"Note: {count:,} of {len(items):,} inputs have tokens that are not in the vocabulary: "
    return f"{note}{few(unknown)}."


def _predicted(model: Any, items: list[Any], command: Predict) -> list[str]:
    """A line of output for each input."""
    if command.proba:
        y_hat = model.predict_proba(items)
        names = model.classes_.tolist()
        ranked = [[(names[i], float(row[i])) for i in row.argsort()[::-1]] for row in y_hat]
        if command.json:
            return [
                json.dumps({"input": item, "prediction": row[0][0], "proba": dict(row)}, ensure_ascii=False)
                for item, row in zip(items, ranked, strict=True)
            ]
        return ["\t".join(f"{label} {p:.3f}" for label, p in row[:5]) for row in ranked]
    if model.task == "generate":
        temperature = (0.8 if command.count > 1 else 0.0) if command.temperature is None else command.temperature
        found = (
            model.sample(items, temperature=temperature, seed=command.seed)
            if temperature > 0
            else model.predict(items, beam=command.beam)
        )
    else:
        found = model.predict(items, **({"beam": command.beam} if model.task == "translate" else {}))
    found = [one.tolist() if hasattr(one, "tolist") else one for one in found]
    if command.json:
        pairs = zip(items, found, strict=True)
        return [json.dumps({"input": item, "prediction": one}, ensure_ascii=False) for item, one in pairs]
    return [" ".join(map(str, one)) if isinstance(one, list) else str(one) for one in found]


def _tagged(model: Any, items: list[Any], command: Predict) -> list[str]:
    """For each sequence a line for each token with its tag, and a blank line; with --json one line."""
    lines: list[str] = []
    for item, y_hat in zip(items, model.predict_proba(items), strict=True):
        best = y_hat.argmax(axis=1)
        tags = model.classes_[best].tolist()
        probabilities = [float(row[i]) for row, i in zip(y_hat, best, strict=True)]
        if command.json:
            facts: dict[str, Any] = {"input": item, "prediction": tags}
            if command.proba:
                facts["proba"] = [dict(zip(model.classes_.tolist(), row.tolist(), strict=True)) for row in y_hat]
            lines.append(json.dumps(facts, ensure_ascii=False))
            continue
        for token, tag, p in zip(item, tags, probabilities, strict=True):
            lines.append(f"{token}\t{tag}" + (f"\t{p:.3f}" if command.proba else ""))
        lines.append("")
    return lines
