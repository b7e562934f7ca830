"""elman card: a model card for a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elman.cli.console import console, errors
from elman.cli.flags import argument, flag
from elman.config import SEQUENCE_TASKS
from elman.errors import ArgumentError


@dataclass(frozen=True)
class Card:
    """Write a model card, README.md, into a run folder: what the model is, how good it is on its held-out data, how to
    use it and, for a language model, a sample. The card has Hugging Face's format; the folder is then ready to be
    uploaded. A README.md that elman card did not write is never replaced without --force.

    For instance:
        elman card runs/pride-and-prejudice
        elman card runs/pride-and-prejudice --seed 7 --length 300
    """

    run_folder: Path = argument("RUN", "a run made by elman train")
    seed: int | None = flag(None, "lm: seed of the sample (default: 0)")
    length: int | None = flag(None, "lm: length of the sample, in tokens (default: 500)")
    temperature: float | None = flag(None, "lm: temperature of the sample (default: 0.8)")
    force: bool = flag(False, "replace a README.md that elman card did not write")

    def run(self) -> int:
        from elman.exchange.card import write_card
        from elman.training.run import Run

        sample = {"seed": self.seed, "length": self.length, "temperature": self.temperature}
        given: dict[str, Any] = {name: value for name, value in sample.items() if value is not None}
        task = Run(self.run_folder).config.get("task")
        if given and task in SEQUENCE_TASKS:
            got = f"a run with --task {task}, whose card has no sample"
            raise ArgumentError(f"--{next(iter(given))}", expected="a language model", got=got, do="Leave it out.")
        with errors.rich.status(f"evaluating {self.run_folder}"):
            written = write_card(self.run_folder, **given, force=self.force)
        console.print(f"Written: {written}.", markup=False)
        if (self.run_folder / "checkpoints").is_dir():
            console.print("Before you share the folder: checkpoints/ is needed only to continue training.")
        if (self.run_folder / "data.safetensors").exists():
            console.print("data.safetensors has the training data: leave it out unless you may share it.")
        return 0
