"""elman train --task classify, tag, generate or translate: from examples in a file to a model."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import tyro

from elman.cli.compile_notice import say_if_compiling
from elman.cli.console import console, errors
from elman.cli.mpi import LastWords
from elman.cli.progress import TrainingReport
from elman.cli.summary import farewell, free_folder, only_the_budget
from elman.cli.watch import check_extra, watched
from elman.config import TASKS, SequenceConfig, SequenceDataConfig, SequenceNetworkConfig, TrainingConfig, check
from elman.errors import ArgumentError
from elman.training.events import Listener
from elman.training.run import refuse_existing

BUDGET = ("epochs", "steps", "seconds")
WINDOWS = {"window", "bptt_block", "bptt_steps"}  # of a text: a sequence is read whole
# flags without a value
ALONE = {"--force", "--tensorboard", "--watch", "--keep-boilerplate", "--bidirectional", "--no-bidirectional",
         "--learned-state", "--no-reverse-source", "--no-scale"}  # fmt: skip
Task = Literal["classify", "tag", "generate", "translate"]


@dataclass(frozen=True)
class TrainSequences:
    """Train a model of whole sequences.

    --task classify, generate: SOURCE has a text, a tab and a label in each line; or it is a folder with one file a
    label, whose blank lines are skipped, as is a README. --task tag: a token, a tab and a tag in each line, a blank
    line after each sequence. --task translate: a source, a tab and a target in each line. Without --task it is guessed
    where the file makes it clear.

    For instance:
        elman train names --task classify
        elman train words.tsv --task tag --hidden 64
        elman train --resume runs/names --epochs 30
    """

    source: tyro.conf.Positional[str | None] = None  # a file, a folder, or -
    task: Task = "classify"  # what is to be learned
    out: Path | None = None  # the run folder (default: runs/NAME, or runs/NAME-2 …)
    force: bool = False  # replace the folder if it is a run that nobody trains
    resume: Path | None = None  # go on with this run; only the budget may change (--seconds: so many more)
    threads: int | None = None  # at most so many (default: all cores that the process may use)
    tensorboard: bool = False  # write TensorBoard files into the run folder
    watch: bool = False  # open a page on which to see it learn
    data: SequenceDataConfig = field(default_factory=SequenceDataConfig)
    network: SequenceNetworkConfig = field(default_factory=SequenceNetworkConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    @staticmethod
    def default(words: list[str]) -> TrainSequences:
        """The defaults of the task; its budget gives way to one that is named."""
        flags = {word.partition("=")[0].replace("_", "-") for word in words if word.startswith("--")}
        allowed = {
            "--resume",
            "--threads",
            "--tensorboard",
            "--watch",
            "--help",
            "--task",
            *(f"--{name}" for name in BUDGET),
        }
        if "--resume" in flags and (other := flags - allowed):
            raise only_the_budget(", ".join(sorted(other)))
        if windows := sorted(flags & {"--preset", *(f"--{name.replace('_', '-')}" for name in WINDOWS)}):
            raise ArgumentError(f"{', '.join(windows)}: for language models only; a sequence is read whole")
        task = task_of(words)
        if "--resume" not in flags:
            _refuse_meaningless(task, flags)
        options = TASKS[task]
        if flags & {f"--{name}" for name in BUDGET} or "--resume" in flags:
            options = {name: value for name, value in options.items() if name not in BUDGET}
        config = SequenceConfig().with_options(**options)
        return TrainSequences(task=task, data=config.data, network=config.network, training=config.training)  # type: ignore[arg-type]

    def refused(self) -> set[str]:
        """Fields whose flags mean nothing for this task: its help is silent about them."""
        return {name.replace("-", "_") for name, tasks in MEANS.items() if self.task not in tasks} | WINDOWS

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
        from elman.data.labelled import read_rows
        from elman.data.named import find_here
        from elman.models.loading import model_class
        from elman.training.signals import stop_on_signals

        if self.source is None:
            raise ArgumentError("SOURCE is missing", do=f"Name a file: elman train FILE --task {self.task}.")
        config = check(SequenceConfig(self.data, self.network, self.training))
        if self.out is not None:
            refuse_existing(self.out, force=self.force)
        found = self.source if self.source == "-" else str(find_here(self.source) or self.source)
        with console.rich.status("reading the examples"):
            rows = read_rows(found, self.task, encoding=self.data.encoding)
            kind = model_class(self.task)  # with all that scikit-learn imports
        known = kind.defaults()
        options = {name: value for name, value in config.options().items() if name in known}
        model = kind(**options, random_state=self.training.seed)
        name = "stdin" if found == "-" else Path(found).stem
        out = self.out or free_folder(Path("runs"), name)
        X, y = (rows.right, rows.left) if self.task == "generate" else (rows.left, rows.right)
        self._say(name, X, y, out)
        with stop_on_signals(errors.print) as stopping, TrainingReport() as report, watched(self.watch) as page:
            source = {"name": name, "source": found, "examples": len(rows)}
            model.fit(
                X, y, config=config, out=out, force=self.force, source=source,
                listeners=[report, page, *self._also(out)], stopping=stopping,
            )  # fmt: skip
        return farewell(out, model.fitted_.finished, **_words(self.task))

    def _resume(self, path: Path) -> int:
        from elman.models import sequence_run
        from elman.training.environment import resume_note
        from elman.training.run import Run
        from elman.training.signals import stop_on_signals

        if self.source is not None:
            raise only_the_budget(self.source)
        budget = {name: getattr(self.training, name) for name in BUDGET}
        run = Run(path)
        if note := resume_note(run.config.get("environment")):
            errors.print(note, markup=False, style="yellow")
        report = TrainingReport(self.training.epochs)
        with stop_on_signals(errors.print) as stopping, report, watched(self.watch) as page:
            fitted = sequence_run.resume(
                path, budget_options=budget, listeners=[report, page, *self._also(path)], stopping=stopping
            )
        assert fitted.finished is not None
        return farewell(path, fitted.finished, **_words(fitted.terms.task))

    def _also(self, out: Path) -> list[Listener]:
        from elman.training.distributed import Ranks, world

        here, also = world(), list[Listener]()
        if isinstance(here, Ranks):
            also.append(LastWords(here))
        if self.tensorboard:
            from elman.training.tensorboard import TensorBoard

            also.append(TensorBoard(out / "tensorboard"))
        return also

    def _say(self, name: str, X: list[Any], y: list[Any], out: Path) -> None:
        network, held = self.network, round(self.data.validation_fraction * len(X))
        parts = f"{len(X) - held:,} to train on, {held:,} to validate"
        if self.task in ("classify", "generate"):
            parts += f"; {len(set(y if self.task == 'classify' else X))} labels"
        if self.task == "tag":
            parts += f"; {len({tag for tags in y for tag in tags})} tags"
        console.print(f"{name}: {len(X):,} examples to {self.task}, {parts}.", markup=False)
        ways = ", read from both ends" if network.bidirectional else ""
        layers = f"{network.layers} layer{'s' * (network.layers > 1)} of {network.hidden} {network.activation} units"
        console.print(f"Network: {layers}{ways}. Run folder: {out}", markup=False)


def _words(task: str) -> dict[str, str]:
    """How the end of a run speaks of this task."""
    return {"task": task, "command": "elman predict", "use": "Use it"}


# flag: the tasks for which it means something
MEANS = {
    "pooling": {"classify"},
    "reverse-source": {"translate"},
    "target-tokens": {"generate", "translate"},
    "tokens": {"classify", "translate"},  # tags have their tokens already
    "unk-dropout": {"classify", "tag", "translate"},
    "bidirectional": {"classify", "tag", "translate"},
    "learned-state": {"classify", "tag", "translate"},
    "sample-every": {"generate"},
    "standardize": set[str](),  # a file holds no numbers
}


def _refuse_meaningless(task: str, flags: set[str]) -> None:
    """What would be passed over must not look as if it had been heard."""
    for name, tasks in MEANS.items():
        if task not in tasks and (given := {f"--{name}", f"--no-{name}"} & flags):
            do = f"It is for {', '.join(sorted(tasks))}." if tasks else "It is for numbers, which come from Python."
            raise ArgumentError(f"{given.pop()} means nothing for --task {task}", do=do)


def task_of(words: list[str]) -> str:
    """The task that the words ask for: by --task, by the run that is to go on, or by the form of the source."""
    given = dict(zip(words, [*words[1:], ""], strict=True)) | dict(w.split("=", 1) for w in words if "=" in w)
    task = given.get("--task")
    if task is not None:
        if task not in ("lm", *TASKS) or task == "regress":
            raise ArgumentError("--task", expected="one of lm, classify, tag, generate, translate", got=repr(task))
        return task
    if "--resume" in given:
        from elman.training.run import Run

        run = Path(given["--resume"])
        kept = Run(run).config.get("task") if (run / "config.json").is_file() else None
        return str(kept) if kept in list(TASKS) else "lm"
    from elman.data.labelled import guess_task
    from elman.data.named import find_here

    # what is no flag and no flag's value; a pipe can be read only once
    before = ["", *words[:-1]]
    plain = [w for w, b in zip(words, before, strict=True) if not b.startswith("--") or "=" in b or b in ALONE]
    found = [path for w in plain if not w.startswith("-") and (path := find_here(w)) is not None]
    sources = [path for path in found if path.is_file() or path.is_dir()]
    return guess_task(str(sources[0])) if len(sources) == 1 else "lm"
