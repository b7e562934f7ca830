"""elman train: from a text to a model, or on with a run that was stopped."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from elman.cli.compile_notice import say_if_compiling
from elman.cli.console import console, errors
from elman.cli.mpi import LastWords
from elman.cli.progress import TrainingReport, reading
from elman.cli.summary import farewell, free_folder, only_the_budget
from elman.cli.watch import check_extra, watched
from elman.config import PRESETS, Config, DataConfig, NetworkConfig, TrainingConfig, check
from elman.errors import ArgumentError, UnknownNameError
from elman.training.events import Listener
from elman.training.run import refuse_existing

if TYPE_CHECKING:
    from elman.models.language_run import Preparation

BUDGET = ("epochs", "steps", "seconds")
RESUME = {
    "--resume",
    "--task",
    "--threads",
    "--tensorboard",
    "--watch",
    "--help",
    *(f"--{name}" for name in BUDGET),
}  # flags that may go on


@dataclass(frozen=True)
class Train:
    """Train a character, byte or word language model on a text.

    SOURCE is a file, - for standard input, or a text known by name (elman data list); several files, a folder of .txt
    files or a pattern in quotes ('books/*.txt') are one text. .gz and .zst are unpacked. Without it Pride and Prejudice
    is taken. Without a budget or a preset 15 epochs are taken. Ctrl-C finishes the step and saves; elman train --resume
    RUN goes on as if nothing had happened.

    For instance:
        elman train novel.txt --seconds 60
        elman train novel.txt --preset large --out runs/large
        elman train --resume runs/novel --epochs 30
    """

    source: tyro.conf.Positional[tuple[str, ...]] = ()  # files, folders, patterns, - or a name
    out: Path | None = None  # the run folder (default: runs/NAME, or runs/NAME-2 …)
    force: bool = False  # replace the folder if it is a run that nobody trains
    resume: Path | None = None  # go on with this run; only the budget may change (--seconds: so many more)
    task: str = "lm"  # or classify, tag, generate, translate: each has its own --help (guessed where SOURCE is clear)
    preset: str = "default"  # choices that fit together: default, large, tiny
    threads: int | None = None  # at most so many (default: all cores that the process may use)
    tensorboard: bool = False  # write TensorBoard files into the run folder
    watch: bool = False  # open a page on which to see it learn
    data: DataConfig = field(default_factory=DataConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    @staticmethod
    def chosen(words: list[str]) -> type:
        """This command, or the one for whole sequences."""
        from elman.cli.train_sequences import TrainSequences, task_of

        return Train if task_of(words) == "lm" else TrainSequences

    @staticmethod
    def default(words: list[str]) -> Train:
        """The defaults: those of the preset, if one is named; its budget gives way to one that is named."""
        flags = {word.partition("=")[0] for word in words if word.startswith("--")}
        if "--resume" in flags and (other := flags - RESUME):
            raise only_the_budget(", ".join(sorted(other)))
        given = dict(zip(words, [*words[1:], ""], strict=True)) | dict(w.split("=", 1) for w in words if "=" in w)
        preset = _preset(given.get("--preset") or "default")
        if any(f"--{name}" in given for name in BUDGET):
            preset = {name: value for name, value in preset.items() if name not in BUDGET}
        config = Config().with_options(**preset)
        return Train(data=config.data, network=config.network, training=config.training)

    def run(self) -> int:
        from elman.kernels.threads import set_threads
        from elman.training.distributed import world

        shared = None if os.environ.get("ELMAN_THREADS") else world().threads  # with the other ranks of the machine
        if (threads := shared if self.threads is None else self.threads) is not None:
            set_threads(threads)
        if self.watch:
            check_extra()
        say_if_compiling("backward")
        return self._start() if self.resume is None else self._resume(self.resume)

    def _start(self) -> int:
        from elman.data import default_source, open_corpus
        from elman.models import language_run
        from elman.training.distributed import world
        from elman.training.signals import stop_on_signals

        if "-" in self.source and world().size > 1:
            raise ArgumentError("Standard input reaches rank 0 alone", do="Save the text in a file that all can read.")
        config = check(Config(self.data, self.network, self.training))
        out = self._named_out()
        source = self.source or default_source(partial(console.print, markup=False))
        with reading() as progress:
            read = partial(
                open_corpus,
                source,
                tokens=self.data.tokens,
                encoding=self.data.encoding,
                keep_boilerplate=self.data.keep_boilerplate,
                vocabulary_size=self.data.vocabulary_size,
                min_count=self.data.min_count,
                progress=progress,
            )
            corpus = world().in_turn(read)
        prepared = language_run.prepare(corpus, config)
        out = out or free_folder(Path("runs"), corpus.name)
        self._say(prepared, out)
        with stop_on_signals(errors.print) as stopping, TrainingReport() as report, watched(self.watch) as page:
            trained = language_run.start(
                prepared, out=out, force=self.force, listeners=[report, page, *self._also(out)], stopping=stopping
            )
        return farewell(out, trained.finished)

    def _resume(self, path: Path) -> int:
        from elman.models import language_run
        from elman.training.environment import resume_note
        from elman.training.run import Run
        from elman.training.signals import stop_on_signals

        if self.source:
            raise only_the_budget(" ".join(self.source))
        budget = {name: getattr(self.training, name) for name in BUDGET}
        run = Run(path)
        if note := resume_note(run.config.get("environment")):
            errors.print(note, markup=False, style="yellow")
        report = TrainingReport(self.training.epochs)
        with stop_on_signals(errors.print) as stopping, report, watched(self.watch) as page:
            trained = language_run.resume(
                path, budget_options=budget, listeners=[report, page, *self._also(path)], stopping=stopping
            )
        return farewell(path, trained.finished)

    def _named_out(self) -> Path | None:
        """The folder asked for: refused now, not after the text has been read."""
        if self.out is not None:
            refuse_existing(self.out, force=self.force)
        return self.out

    def _also(self, out: Path) -> list[Listener]:
        from elman.training.distributed import Ranks, world

        here, also = world(), list[Listener]()
        if isinstance(here, Ranks):
            also.append(LastWords(here))
        if self.tensorboard:
            from elman.training.tensorboard import TensorBoard

            also.append(TensorBoard(out / "tensorboard"))
        return also

    def _say(self, prepared: Preparation, out: Path) -> None:
        corpus, split, network = prepared.corpus, prepared.split, self.network
        for note in corpus.notes:
            console.print(note, markup=False)
        tokens = {"char": "characters", "byte": "bytes", "word": "words"}[self.data.tokens]
        parts = f"{len(split.train):,} to train on, {len(split.validation):,} to validate"
        if len(split.test):
            parts += f", {len(split.test):,} set aside"
        console.print(f"{corpus.name}: {len(corpus.ids):,} {tokens}, {len(corpus.vocabulary)} different; {parts}.")
        if len(prepared.judged) < len(split.validation):
            console.print(f"Training is judged by the first {len(prepared.judged):,} of those; elman eval judges all.")
        if prepared.batch < self.training.batch_size:
            console.print(f"The text is short: {prepared.batch} lanes instead of {self.training.batch_size}.")
        layers = f"{network.layers} layer{'s' * (network.layers > 1)} of {network.hidden} {network.activation} units"
        console.print(f"Network: {layers}. Run folder: {out}", markup=False)


def _preset(name: str) -> dict[str, object]:
    if name not in PRESETS:
        raise UnknownNameError("--preset", expected=f"one of {', '.join(PRESETS)}", got=repr(name))
    return PRESETS[name]
