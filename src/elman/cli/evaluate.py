"""elman eval: measure a model on a text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Literal

from elman.cli.compile_notice import say_if_compiling
from elman.cli.console import console
from elman.cli.flags import argument, flag
from elman.config import SEQUENCE_TASKS
from elman.errors import ArgumentError


@dataclass(frozen=True)
class Evaluate:
    """Measure a model: a language model on a text, as one lane, from a zero state, every token but the first predicted;
    a model of sequences on a file in the form that it was trained on.

    For instance:
        elman eval runs/pride-and-prejudice other.txt --json
    """

    run_folder: Path = argument("RUN", "a run made by elman train")
    source: str = argument("SOURCE", "a file, a folder of texts, a pattern, - or a name")
    encoding: str | None = flag(None, "of the text (default: as in training)")
    unknown: Literal["error", "skip"] | None = flag(
        None, "characters that a language model does not know (default: error)"
    )
    json: bool = flag(False, "print the figures as JSON")

    def run(self) -> int:
        from elman.data import open_corpus
        from elman.models import LanguageModel
        from elman.models.evaluation import evaluate_text
        from elman.training.run import Run

        if (task := Run(self.run_folder).config.get("task")) in SEQUENCE_TASKS:
            from elman.cli.evaluate_sequences import evaluate_sequences

            if self.unknown is not None:
                got, do = f"a run to {task}", "It reads tokens that it does not know as unknown; leave the flag out."
                raise ArgumentError("--unknown", expected="a language model", got=got, do=do)
            return evaluate_sequences(self.run_folder, self.source, encoding=self.encoding, as_json=self.json)
        model = LanguageModel.load(self.run_folder)
        say_if_compiling("forward")
        data = model.config_.data
        corpus = open_corpus(
            self.source,
            encoding=self.encoding or data.encoding,
            keep_boilerplate=data.keep_boilerplate,
            vocabulary=model.vocabulary_,
            unknown=self.unknown or "error",
        )
        with console.rich.status(f"reading {len(corpus.ids):,} tokens"):
            figures = evaluate_text(model.network_, model.parameters_, corpus.ids, corpus.characters)
        if self.json:
            print(json.dumps({name: value if isfinite(value) else None for name, value in figures._asdict().items()}))
            return 0
        for note in corpus.notes:
            console.print(note, markup=False)
        console.print(f"{figures.nats_per_token:.4f} nats a token, perplexity {figures.perplexity:.3f}")
        console.print(f"{figures.bits_per_token:.4f} bits a token, {figures.bits_per_character:.4f} bits a character")
        console.print(f"{figures.tokens:,} tokens predicted")
        return 0
