"""elman train: from a text to a model, or on with a run that was stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from elman.cli.compiling import say_if_compiling
from elman.cli.progress import TrainingReport, reading
from elman.cli.say import console, errors
from elman.config import PRESETS, Config, DataConfig, NetworkConfig, TrainingConfig, check
from elman.errors import ArgumentError, UnknownNameError
from elman.training.events import Finished, Listener
from elman.training.run import refuse_existing

if TYPE_CHECKING:
    from elman.models.language_run import Preparation

BUDGET = ("epochs", "steps", "seconds")
RESUME = {"--resume", "--threads", "--tensorboard", "--help", *(f"--{name}" for name in BUDGET)}  # flags that may go on


@dataclass(frozen=True)
class Train:
    """Train a character, byte or word language model on a text.

    SOURCE is a file, - for standard input, or a text known by name (elman data list). Without it Pride and Prejudice
    is taken. Ctrl-C finishes the step and saves; elman train --resume RUN goes on as if nothing had happened.

    For instance:
        elman train novel.txt --seconds 60
        elman train novel.txt --preset large --out runs/large
        elman train --resume runs/novel --epochs 30
    """

    source: tyro.conf.Positional[str | None] = None  # a file, - or a name
    out: Path | None = None  # the run folder (default: runs/NAME, or runs/NAME-2 …)
    force: bool = False  # replace the folder if it exists
    resume: Path | None = None  # go on with this run; only the budget may change (--seconds: so many more)
    preset: str = "default"  # choices that fit together: default, large, tiny
    threads: int | None = None  # at most so many (default: all cores that the process may use)
    tensorboard: bool = False  # write TensorBoard files into the run folder
    data: DataConfig = field(default_factory=DataConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    @staticmethod
    def default(words: list[str]) -> Train:
        """The defaults: those of the preset, if one is named; its budget gives way to one that is named."""
        flags = {word.partition("=")[0] for word in words if word.startswith("--")}
        if "--resume" in flags and (other := flags - RESUME):
            raise _only_the_budget(", ".join(sorted(other)))
        given = dict(zip(words, [*words[1:], ""], strict=True)) | dict(w.split("=", 1) for w in words if "=" in w)
        preset = _preset(given.get("--preset") or "default")
        if any(f"--{name}" in given for name in BUDGET):
            preset = {name: value for name, value in preset.items() if name not in BUDGET}
        config = Config().with_options(**preset)
        return Train(data=config.data, network=config.network, training=config.training)

    def run(self) -> int:
        from elman.network.pool import set_threads

        if self.threads is not None:
            set_threads(self.threads)
        say_if_compiling("window")
        return self._start() if self.resume is None else self._resume(self.resume)

    def _start(self) -> int:
        from elman.data import default_source, open_corpus
        from elman.models import language_run
        from elman.training.signals import stop_on_signals

        config = check(Config(self.data, self.network, self.training))
        out = self._named_out()
        source = default_source(partial(console.print, markup=False)) if self.source is None else self.source
        with reading() as progress:
            corpus = open_corpus(
                source,
                tokens=self.data.tokens,
                encoding=self.data.encoding,
                keep_boilerplate=self.data.keep_boilerplate,
                max_words=self.data.max_words,
                min_count=self.data.min_count,
                progress=progress,
            )
        prepared = language_run.prepare(corpus, config)
        out = out or free_folder(Path("runs"), corpus.name)
        self._say(prepared, out)
        with stop_on_signals(errors.print) as stopping, TrainingReport() as report:
            trained = language_run.start(
                prepared, out=out, force=self.force, listeners=[report, *self._also(out)], stopping=stopping
            )
        return farewell(out, trained.finished)

    def _resume(self, path: Path) -> int:
        from elman.models import language_run
        from elman.training.environment import differences
        from elman.training.run import Run
        from elman.training.signals import stop_on_signals

        if self.source is not None:
            raise _only_the_budget(self.source)
        budget = {name: getattr(self.training, name) for name in BUDGET}
        run = Run(path)
        for difference in differences(run.config.get("environment")):
            errors.print(f"Note: {difference}; the result may differ in its last bits.", style="yellow")
        with stop_on_signals(errors.print) as stopping, TrainingReport() as report:
            trained = language_run.resume(
                path, budget_options=budget, listeners=[report, *self._also(path)], stopping=stopping
            )
        return farewell(path, trained.finished)

    def _named_out(self) -> Path | None:
        """The folder asked for: refused now, not after the text has been read."""
        if self.out is not None and not self.force:
            refuse_existing(self.out)
        return self.out

    def _also(self, out: Path) -> list[Listener]:
        if not self.tensorboard:
            return []
        from elman.training.tensorboard import TensorBoard

        return [TensorBoard(out / "tensorboard")]

    def _say(self, prepared: Preparation, out: Path) -> None:
        corpus, split, network = prepared.corpus, prepared.split, self.network
        for note in corpus.notes:
            console.print(note, markup=False)
        tokens = {"char": "characters", "byte": "bytes", "word": "words"}[self.data.tokens]
        parts = f"{len(split.train):,} to train on, {len(split.validation):,} to validate"
        if len(split.test):
            parts += f", {len(split.test):,} set aside"
        console.print(f"{corpus.name}: {len(corpus.ids):,} {tokens}, {len(corpus.vocabulary)} different; {parts}.")
        if prepared.batch < self.training.batch:
            console.print(f"The text is short: {prepared.batch} lanes instead of {self.training.batch}.")
        layers = f"{network.layers} layer{'s' * (network.layers > 1)} of {network.hidden} {network.activation} units"
        console.print(f"Network: {layers}. Run folder: {out}", markup=False)


def free_folder(parent: Path, name: str) -> Path:
    """runs/NAME, or the first of runs/NAME-2, runs/NAME-3 … that is not there yet."""
    path, number = parent / name, 1
    while path.exists():
        number += 1
        path = parent / f"{name}-{number}"
    return path


def farewell(path: Path, finished: Finished) -> int:
    """How it ended, and last the next command to type."""
    from shlex import quote

    where = quote(str(path))
    if finished.why == "interrupted":
        console.print(f"Stopped after step {finished.step}, everything is saved. To go on:", markup=False)
        console.print(f"elman train --resume {where}", markup=False)
        return 130
    why = {"budget": "Done", "patience": "Stopped early, validation got no better"}[finished.why]
    best = "" if finished.best_loss is None else f": {finished.best_loss:.4f} nats a token at step {finished.best_step}"
    console.print(f"{why} after {finished.step} steps in {finished.seconds:.0f} s{best}. Write with it:", markup=False)
    console.print(f"elman sample {where}", markup=False)
    return 0


def _only_the_budget(got: str) -> ArgumentError:
    return ArgumentError(
        "--resume takes everything from the run; only --epochs, --steps or --seconds may change",
        got=got,
        do="Start a new run for other choices.",
    )


def _preset(name: str) -> dict[str, object]:
    if name not in PRESETS:
        raise UnknownNameError("--preset", expected=f"one of {', '.join(PRESETS)}", got=repr(name))
    return PRESETS[name]
