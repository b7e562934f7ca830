"""elman train: train a model on a text or on examples, or continue a run."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from elman.cli.flags import argument, flag
from elman.config import (
    ALL_TASKS,
    BUDGET,
    OPTIONS,
    Config,
    DataForm,
    Task,
    check_budget,
    check_value,
    described,
    in_words,
    resolve,
)
from elman.errors import ArgumentError

if TYPE_CHECKING:
    from elman.data import Split
    from elman.data.labeled_data import LabeledData
    from elman.models.runs import ExampleSetup, RowSplit, TextSetup
    from elman.training.events import Listener

Preset = Literal["fast", "default", "best", "textbook"]  # the keys of PRESETS


@dataclass(frozen=True)
class Train:
    """Train a model on a text or on examples, or continue a run.

    A language model (--task lm) learns a text: SOURCE is a file, - for standard input, or a name listed by elman data
    list; several files, the .txt files of a folder or a pattern in quotes ('books/*.txt') are read as one text. .gz
    files are decompressed, and so are .zst files after pip install 'elman[zstd]'. Without SOURCE the text is Pride and
    Prejudice or, if that cannot be downloaded, Python's documentation.

    The other tasks learn from examples in one file. Each line has a text, a tab and a label (--task classify), a text,
    a tab and a number (regress), a source, a tab and a target (translate), or a token, a tab and a tag, with a blank
    line after each sequence (tag). --task generate reads the lines of classify, but the label is the input and the text
    is the output. All but tag also read a CSV or TSV file. classify and generate also read a folder with one file per
    label: each line is a text, and the name of the file, without its suffix, is the label.

    Without --task and --from the task is guessed. A file with one tab in each line is tag if it has blank lines between
    sequences of tokens. Any other such file, a CSV file, or a TSV file with more columns is regress if all labels are
    numbers, or classify if these are at most 20 different whole numbers; classify if there are one or two labels, or
    fewer than 1,000 with four or more examples each on average; else translate. A folder is classify if all its files,
    two or more, have the same suffix (not .gz or .zst), at least half of them have short lines (under 60 characters on
    average) and few blank ones, and none is clearly a text. Everything else is lm, or an error if it could be several
    things. generate is never guessed.

    --from RUN fine-tunes: the task, the network except its dropout, and the kind of tokens are those of RUN. Tokens and
    labels of SOURCE that RUN lacks are added with random weights; those of RUN that SOURCE lacks are kept, or removed
    by --drop-unused.

    Ctrl-C finishes the step and saves; elman train --resume RUN continues, with the same result as without the
    interruption. With --resume, --epochs and --steps are new totals, --seconds is additional time, and --threads,
    --tensorboard and --watch may be given; everything else is as before. The learning-rate schedule is recomputed for
    the new number of steps: after a finished cosine schedule the rate rises again.

    For instance:
        elman train novel.txt --seconds 60
        elman train names --task classify --cell gru
        elman train reviews.csv --text-column review --label-column sentiment --test-fraction 0.1
        elman train --resume runs/novel --epochs 30
        elman train letters.txt --from runs/novel
    """

    takes_options: ClassVar[bool] = True

    source: tuple[str, ...] = argument(
        "SOURCE", "files, folders, patterns, - for standard input, or a name listed by elman data list", ()
    )
    task: Task | None = flag(
        None, "the task (default: with --from RUN that of RUN, else guessed from SOURCE; lm for a text)"
    )
    out: Path | None = flag(
        None,
        "the run folder (default: runs/NAME, where NAME is the name of SOURCE without its suffix, or runs/NAME-2 … if "
        "this exists)",
    )
    force: bool = flag(False, "replace the folder of --out if it is a run, unless a process is training it")
    start: Path | None = flag(
        None,
        "start from the weights of this run, at a quarter of its learning rate unless --lr is given",
        name="from",
    )
    drop_unused: bool = flag(False, "with --from: remove the tokens and labels of the run that SOURCE lacks")
    resume: Path | None = flag(
        None, "continue this run; --epochs and --steps are new totals, --seconds is additional time"
    )
    text_column: str | None = flag(
        None, "name or number (from 1) of the column with the text or source, in a CSV or TSV file"
    )
    label_column: str | None = flag(
        None, "name or number (from 1) of the column with the label, number or target, in a CSV or TSV file"
    )
    preset: Preset | None = flag(
        None,
        "the same as --seconds 30 (fast), 300 (default) or 3000 (best), or textbook: one-hot tokens, one tanh layer "
        "and plain gradient descent; options that are given override it (default: no preset; the training time is then "
        "that of --epochs, or of --steps or --seconds if given) [lm]",
    )
    threads: int | None = flag(
        None, "number of threads (default: $ELMAN_THREADS, else all cores, which the MPI ranks of a machine share)"
    )
    tensorboard: bool = flag(False, "write TensorBoard files into the run folder (pip install 'elman[tensorboard]')")
    watch: bool = flag(False, "open a web page that shows the training progress live (pip install 'elman[serve]')")
    options: dict[str, Any] = field(default_factory=dict)

    def run(self) -> int:
        from elman.cli.compile_notice import print_compile_notice
        from elman.cli.watch import check_extra
        from elman.kernels.threads import set_threads
        from elman.training.distributed import world

        check_options(self.options)
        # the ranks of one machine share its cores
        shared = None if os.environ.get("ELMAN_THREADS") else world().threads
        if (threads := shared if self.threads is None else self.threads) is not None:
            set_threads(threads)
        if self.watch:
            check_extra()
        if self.resume is not None:
            self._check_resume()
            print_compile_notice("backward")
            return self._continue(self.resume)
        columns = {"text_column": self.text_column, "label_column": self.label_column}
        chosen = {name: column for name, column in columns.items() if column is not None}
        if self.drop_unused and self.start is None:
            raise ArgumentError("--drop-unused needs --from RUN")
        task = self.task or self._task_of_start() or guess(self.source, **chosen)
        if task == "lm" and chosen:
            raise ArgumentError(f"--{next(iter(chosen)).replace('_', '-')} does not apply to --task lm")
        config = checked_config(task, self.options, self.preset)
        print_compile_notice("backward")
        return self._train_text(config) if task == "lm" else self._train_examples(task, config, chosen)

    def _task_of_start(self) -> Task | None:
        from elman.training.run import Run

        task = None if self.start is None else Run(self.start).config.get("task")
        return cast(Task, task) if task in ALL_TASKS else None

    # -- a new run ----------------------------------------------------------------------------------------------------

    def _train_text(self, config: Config) -> int:
        from elman.cli.console import console
        from elman.cli.progress import reading
        from elman.cli.summary import free_folder
        from elman.data import default_source, open_corpus
        from elman.models import runs
        from elman.training.distributed import world

        if "-" in self.source and world().size > 1:
            raise ArgumentError("Only rank 0 can read standard input", do="Save the text where all ranks can read it.")
        out = self._out_folder()
        source = self.source or default_source(partial(console.print, markup=False))
        start, options = None, self.options
        if self.start is not None:
            from elman.models import LanguageModel, fine_tuning

            start = LanguageModel.load(self.start)
            options = fine_tuning.options_of(start.fitted_, "lm", options, self.preset)
            config = resolve("lm", options, preset=self.preset)
        with reading() as progress:
            read = partial(open_corpus, source, **reading_options(config), progress=progress)
            corpus = world().leader_first(read)
        config = resolve("lm", options, form=runs.text_form(corpus, config), preset=self.preset)
        if start is None:
            prepared = runs.text_setup(corpus, config)
        else:
            prepared = start.continued(corpus, config, read, drop_unused=self.drop_unused)
        out = out or free_folder(Path("runs"), corpus.name)
        _describe_text(prepared, out)

        def train(listeners: list[Listener], stopping: Callable[[], bool]) -> Any:
            return runs.start(prepared, out=out, force=self.force, listeners=listeners, stopping=stopping)

        return self._train_and_report(out, "lm", train)

    def _train_examples(self, task: str, config: Config, columns: dict[str, str]) -> int:
        from elman.cli.console import console
        from elman.cli.summary import free_folder
        from elman.data.labeled_data import read_examples
        from elman.data.named import find_here
        from elman.models import runs
        from elman.models.loading import model_class

        if len(self.source) != 1:
            got = ", ".join(self.source) or "none"
            raise ArgumentError("SOURCE", expected=f"one file or folder of examples to {task}", got=got)
        out = self._out_folder()
        found = self.source[0] if self.source[0] == "-" else str(find_here(self.source[0]) or self.source[0])
        with console.rich.status("reading the examples"):
            rows = read_examples(
                found,
                task,
                encoding=config.encoding,
                text_column=columns.get("text_column"),
                label_column=columns.get("label_column"),
            )
            kind = model_class(task)  # imports scikit-learn
        known = {name: value for name, value in self.options.items() if name in kind.defaults()}
        model = kind(**known, random_state=config.seed)
        name = "stdin" if found == "-" else Path(found).stem
        out = out or free_folder(Path("runs"), name)
        X, y = (rows.targets, rows.inputs) if task == "generate" else (rows.inputs, rows.targets)
        source = {"name": name, "source": found, "examples": len(rows)}
        with console.rich.status("encoding the examples"):
            start = None if self.start is None else kind.load(self.start)
            setup = model.make_setup(
                X, y, options=self.options, source=source, start=start, drop_unused=self.drop_unused
            )
        _describe_examples(name, rows, setup, out)

        def train(listeners: list[Listener], stopping: Callable[[], bool]) -> Any:
            return runs.start(setup, out=out, force=self.force, listeners=listeners, stopping=stopping)

        return self._train_and_report(out, task, train)

    def _out_folder(self) -> Path | None:
        """--out, checked before the data are read; None if it is not given."""
        from elman.training.run import refuse_existing

        if self.out is not None:
            refuse_existing(self.out, force=self.force)
        return self.out

    # -- a run that continues -----------------------------------------------------------------------------------------

    def _check_resume(self) -> None:
        given = [f"--{name.replace('_', '-')}" for name in self.options if name not in BUDGET]
        given += ["--out"] * (self.out is not None) + ["--force"] * self.force + list(self.source)
        given += ["--preset"] * (self.preset is not None) + ["--text-column"] * (self.text_column is not None)
        given += ["--label-column"] * (self.label_column is not None) + ["--from"] * (self.start is not None)
        given += ["--drop-unused"] * self.drop_unused
        if given:
            raise ArgumentError(
                "--resume takes everything from the run; only --epochs, --steps or --seconds may change",
                got=", ".join(sorted(given)),
                do="Start a new run for other options.",
            )

    def _continue(self, path: Path) -> int:
        from elman.cli.console import errors
        from elman.models import runs
        from elman.training.environment import resume_note
        from elman.training.run import Run

        run = Run(path)
        task = run.config.get("task")
        if self.task is not None and self.task != task:
            raise ArgumentError("--task", expected=f"{task}, as {path} has it", got=self.task)
        if note := resume_note(run.config.get("environment")):
            errors.print(note, markup=False, style="yellow")

        def train(listeners: list[Listener], stopping: Callable[[], bool]) -> Any:
            return runs.resume(path, budget_options=self.options, listeners=listeners, stopping=stopping)

        return self._train_and_report(path, str(task), train)

    def _train_and_report(
        self, out: Path, task: str, train: Callable[[list[Listener], Callable[[], bool]], Any]
    ) -> int:
        """Train, show the progress, and print how the training ended; returns the exit code."""
        from elman.cli.console import console, errors
        from elman.cli.progress import TrainingReport
        from elman.cli.summary import report_end
        from elman.cli.watch import watched
        from elman.training.signals import stop_on_signals

        epochs = self.options.get("epochs") if self.resume else None
        with (
            stop_on_signals(errors.print) as stopping,
            TrainingReport(epochs) as report,
            watched(self.watch) as page,
        ):
            trained = train([report, page, *self._listeners(out)], stopping)
        assert trained.finished is not None
        for name, (before, after) in (trained.fine_tuning or {}).items():
            if before is not None and after is not None:
                console.print(f"Loss on the {name} data: {before:.4f} before, {after:.4f} after.", markup=False)
            elif name == "old":
                console.print(
                    "Loss on the old data is not known: they cannot be read, or contain removed tokens or labels."
                )
        return report_end(out, trained.finished, task=task, limit=trained.limit)

    def _listeners(self, out: Path) -> list[Listener]:
        from elman.cli.mpi import LostRankNotice
        from elman.training.distributed import Ranks, world

        ranks, listeners = world(), list[Any]()
        if isinstance(ranks, Ranks):
            listeners.append(LostRankNotice(ranks))
        if self.tensorboard:
            from elman.training.tensorboard import TensorBoard

            listeners.append(TensorBoard(out / "tensorboard"))
        return listeners


# -- options ----------------------------------------------------------------------------------------------------------


def check_options(options: dict[str, Any]) -> None:
    """Check the options as far as this is possible before a file is opened: each alone, and the training time."""
    for name, value in options.items():
        check_value(name, value)
    check_budget(options)


def checked_config(task: str, options: dict[str, Any], preset: str | None = None) -> Config:
    """The configuration for a task; ArgumentError for a flag or preset that does not apply to it."""
    for name in options:
        given = f"--{name.replace('_', '-')}"
        if task not in OPTIONS[name].tasks:
            raise ArgumentError(
                f"{given} does not apply to --task {task}", do=f"It is for {in_words(OPTIONS[name].flags_of())}."
            )
        if task not in OPTIONS[name].flags_of():
            raise ArgumentError(f"{given} does not apply to --task {task} from a file", do="It exists only in Python.")
    if task != "lm" and preset is not None:
        raise ArgumentError(f"--preset does not apply to --task {task}", do="It is for lm.")
    return resolve(task, options, preset=preset)


def guess(source: tuple[str, ...], *, text_column: str | None = None, label_column: str | None = None) -> str:
    """The task that fits a source: lm for a text, else the task that its examples are for."""
    from elman.data.labeled_data import guess_task
    from elman.data.named import find_here

    if len(source) != 1 or source[0] == "-":
        return "lm"
    found = find_here(source[0])
    if found is None or not (found.is_file() or found.is_dir()):
        return "lm"
    return guess_task(str(found), text_column=text_column, label_column=label_column)


def reading_options(config: Config) -> dict[str, Any]:
    """The options that say how a text is read."""
    names = ("tokens", "encoding", "keep_boilerplate", "vocabulary_size", "min_count")
    return {name: getattr(config, name) for name in names} | {"sequences": config.sequences == "lines"}


# -- messages ---------------------------------------------------------------------------------------------------------


def _parts_of(split: Split | RowSplit) -> str:
    parts = f"{len(split.train):,} to train on, {len(split.validation):,} to validate"
    if len(split.test):
        parts += f", {len(split.test):,} to test"
    return parts


def _describe_text(prepared: TextSetup, out: Path) -> None:
    from elman.cli.console import console
    from elman.models import runs

    corpus, split, config = prepared.corpus, prepared.split, prepared.config
    for note in corpus.notes:
        console.print(note, markup=False)
    tokens = {"char": "characters", "byte": "bytes", "word": "words"}.get(config.tokens, "tokens")
    many = "" if corpus.vocabulary.end is None else f"{runs.text_form(corpus).examples:,} sequences, with their ends "
    different, parts = len(corpus.vocabulary), _parts_of(split)
    console.print(f"{corpus.name}: {many}{len(corpus.ids):,} {tokens}, {different} different; {parts}.")
    if not len(split.validation):
        console.print("Nothing is held out for validation, so the last model is kept.")
    if prepared.validation_size < len(split.validation):
        console.print(
            f"Training validates on the first {prepared.validation_size:,} of these {len(split.validation):,} "
            f"{tokens}; elman eval reads all."
        )
    if prepared.batch < config.batch_size:
        console.print(f"The text is short: batch size {prepared.batch} instead of {config.batch_size}.")
    if config.seconds is not None:
        console.print(
            f"{config.seconds:g} s for {len(split.train):,} {tokens}: {described('lm', config)}.", markup=False
        )
    console.print(f"Network: {network_of(config)}. Run folder: {out}", markup=False)


def _describe_examples(name: str, rows: LabeledData, setup: ExampleSetup, out: Path) -> None:
    from elman.cli.console import console

    for note in rows.notes:
        console.print(note, markup=False)
    split, config, task = setup.split, setup.config, setup.spec.task
    parts = _parts_of(split)
    if task in ("classify", "generate"):
        parts += f"; {len(set(rows.targets))} labels"
    if task == "tag":
        parts += f"; {len({tag for tags in rows.targets for tag in tags})} tags"
    console.print(f"{name}: {len(rows):,} examples to {task}, {parts}.", markup=False)
    if chosen := described(task, config):
        console.print(f"Options for {DataForm(**setup.source['form'])}: {chosen}; see docs/options.md.", markup=False)
    console.print(f"Network: {network_of(config)}. Run folder: {out}", markup=False)


def network_of(config: Config) -> str:
    """A short description of the network."""
    units = config.activation if config.cell == "rnn" else config.cell.upper()
    both = ", bidirectional" if config.bidirectional else ""
    return f"{config.layers} layer{'s' * (config.layers > 1)} of {config.hidden} {units} units{both}"
