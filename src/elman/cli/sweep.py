"""elman sweep: search for the best options for a text, by many short training runs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Any, ClassVar

from elman.cli.compile_notice import print_compile_notice
from elman.cli.console import console, errors
from elman.cli.flags import argument, flag
from elman.cli.progress import reading
from elman.cli.train import Preset, check_options, checked_config, guess, reading_options
from elman.errors import ArgumentError, DataError, RangeError
from elman.training.events import Stepped

if TYPE_CHECKING:
    from elman.data import Corpus
    from elman.models.sweep import Sweep as Trials


@dataclass(frozen=True)
class Sweep:
    """Search for the best options for a text: many short training runs, compared by validation loss.

    A trial is one training run. The budget (--seconds, --epochs or --steps) is that of each trial; trials that do worse
    than most are stopped early. The first trial has the default options, except for options whose default is outside
    the range that is searched. Options that are given as flags are the same for all trials. --search names the options
    to search: a name alone for its default range or all its values, name=low..high or name=a,b,c. Run the same command
    again to continue after Ctrl-C or a crash; run it several times at once to share the work. The run of the best trial
    is kept; those of the others are deleted.

    For instance:
        elman sweep novel.txt --trials 20 --seconds 60
        elman sweep novel.txt --search lr hidden=64..256 optimizer=adam,adamw --epochs 3
    """

    takes_options: ClassVar[bool] = True
    only_task: ClassVar[str] = "lm"

    source: tuple[str, ...] = argument("SOURCE", "files, folders, patterns or a name, as for elman train", ())
    trials: int = flag(20, "number of trials of all processes together")
    search: tuple[str, ...] = flag(
        (),
        "options to search (default: those of hidden, layers, dropout, batch_size, window and learning_rate that no "
        "flag sets)",
    )
    out: Path | None = flag(None, "folder of the sweep (default: sweeps/NAME)")
    storage: Path | None = flag(None, "file that records all trials (default: journal.log in the folder of the sweep)")
    preset: Preset | None = flag(None, "the same as --seconds 30 (fast), 300 (default) or 3000 (best), or textbook")
    threads: int | None = flag(None, "number of threads (default: $ELMAN_THREADS, else all cores)")
    options: dict[str, Any] = field(default_factory=dict)

    def run(self) -> int:
        from elman.config import resolve
        from elman.kernels.threads import set_threads
        from elman.models.runs import text_form
        from elman.models.sweep import Sweep as Trials
        from elman.models.sweep_space import space
        from elman.models.sweep_study import optuna
        from elman.training.distributed import world
        from elman.training.signals import stop_on_signals

        optuna()  # raises MissingExtraError before anything is read
        if world().size > 1:
            do = "Start elman sweep several times instead: the processes share the work."
            raise ArgumentError("A sweep cannot run under mpirun", do=do)
        check_options(self.options)
        if self.trials < 1:
            raise RangeError("--trials", expected="1 or more", got=self.trials)
        if "-" in self.source:
            why = "it reads the text again when it continues"
            raise ArgumentError(f"A sweep cannot read standard input: {why}", do="Save the text in a file.")
        self._refuse_examples()
        if self.threads is not None:
            set_threads(self.threads)
        config = checked_config("lm", self.options, self.preset)
        dimensions = space(self.search, self.options, config)
        print_compile_notice("backward")
        corpus = self._corpus()
        config = resolve("lm", self.options, form=text_form(corpus), preset=self.preset)
        out = self.out or Path("sweeps") / corpus.name
        sweep = Trials(out, corpus, config, dimensions, storage=self.storage)
        before = len(sweep.study.finished())
        console.print(f"{corpus.name}: {len(corpus.ids):,} tokens, {len(corpus.vocabulary)} different.", markup=False)
        console.print(f"Searching {'; '.join(map(str, dimensions))}.", markup=False)
        begin = f"Continuing after {before} trial{'s' * (before > 1)}" if before else f"{self.trials} trials"
        console.print(f"{begin} in {out}. Each can be repeated with the command shown.", markup=False)
        with stop_on_signals(errors.print) as stopping, TrialReport(self._source()) as report:
            try:
                done = sweep.run(self.trials, report, stopping)
            except KeyboardInterrupt:  # before the first step
                done = False
        return report_end(sweep, out, done)

    def _refuse_examples(self) -> None:
        task = "lm"
        with suppress(DataError):  # a file that may be a text or examples is read as a text
            task = guess(self.source)
        if task != "lm":
            raise ArgumentError(
                f"{self.source[0]} looks like examples to {task}, and a sweep is for language models",
                do="In Python, scikit-learn's GridSearchCV searches the options of SequenceClassifier and the others.",
            )

    def _source(self) -> tuple[str, ...]:
        from elman.data import default_source

        return self.source or (default_source(lambda text: None),)

    def _corpus(self) -> Corpus:
        from elman.data import default_source, open_corpus

        source = self.source or default_source(partial(console.print, markup=False))
        options = reading_options(checked_config("lm", self.options, self.preset))
        with reading() as progress:
            corpus = open_corpus(source, progress=progress, **options)
        for note in corpus.notes:
            console.print(note, markup=False)
        return corpus


class TrialReport:
    """A listener that prints a line when a trial begins and when it ends, with a progress bar in between."""

    def __init__(self, source: tuple[str, ...]) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self.source = source
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[figures]}"),
            console=console.rich,
            transient=True,
            disable=not console.is_terminal,
        )
        self.job = self.bar.add_task("", total=None, figures="")

    def __enter__(self) -> TrialReport:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def __call__(self, event: Any) -> None:
        from elman.models.sweep import TrialEnded, TrialStarted, flags

        if isinstance(event, TrialStarted):
            command = join(["elman", "train", *self.source, *flags(event.config)])
            console.print(f"trial {event.number}: {command}", markup=False)
            steps = event.config.steps
            self.bar.reset(self.job, total=steps, description=f"trial {event.number}", figures="")
        elif isinstance(event, Stepped) and event.logged:
            figures = (
                f"loss {event.loss:.4f}" if event.validation_loss is None else f"validation {event.validation_loss:.4f}"
            )
            self.bar.update(self.job, completed=event.step, figures=figures)
        elif isinstance(event, TrialEnded):
            ends = {
                "done": f"{event.loss or 0:.4f} nats per token",
                "pruned": "stopped early: most trials were better",
                "diverged": f"diverged: {event.note}",
                "impossible": f"impossible: {event.note}",
            }
            best = ", the best so far" * event.best
            console.print(f"trial {event.number}: {ends[event.why]}{best} ({event.seconds:.0f} s)", markup=False)


def report_end(sweep: Trials, out: Path, done: bool) -> int:
    """Print the table, write the report and print the next command to type; returns the exit code."""
    finished = sweep.study.finished()
    if finished:
        console.print(table(finished))
        page = write_report(sweep, out)
        console.print(f"Figures: {page}", markup=False)
    if not done:
        console.print("Stopped. The same command continues; the interrupted trial starts again.", markup=False)
        return 130
    if running := sweep.study.running():
        console.print(f"{len(running)} trials are still running in other processes.", markup=False)
    best = sweep.best_run()
    if best is None:
        console.print("No trial was trained to its end: give a larger budget, or search other options.")
        return 1
    first, last = sweep.study.with_defaults(), sweep.study.best()
    if first is not None and last is not None:
        better = first.value - last.value
        result = (
            f"{better:.4f} nats per token better than the defaults" if better > 0 else "no better than the defaults"
        )
        console.print(f"The best, trial {last.number}, is {result}, which are trial {first.number}.", markup=False)
    console.print("Sample from the best model:", markup=False)
    console.print(f"elman sample {quote(str(best))}", markup=False)
    return 0


def table(finished: list[Any], most: int = 20) -> Any:
    """A table of finished trials, which come with the best first; at most `most` of them."""
    from rich.box import SIMPLE
    from rich.table import Table

    from elman.models.sweep_study import loss_of

    names = list(finished[0].params)
    heads = ["lr" if name == "learning_rate" else name for name in names]
    rows = Table("trial", "nats", *heads, "s", "", box=SIMPLE, padding=(0, 0, 0, 1))  # 80 columns are enough
    for column in rows.columns:
        column.justify, column.overflow = "right", "fold"
    for trial in finished[:most]:
        values = [f"{v:.3g}" if isinstance(v, float) else str(v) for v in (trial.params.get(name) for name in names)]
        why = trial.user_attrs.get("why", "")
        loss = loss_of(trial)
        shown = f"{loss:.4f}" if loss < float("inf") else "–"
        seconds = f"{trial.user_attrs.get('seconds', 0):.0f}"
        rows.add_row(str(trial.number), shown, *values, seconds, "" if why == "done" else why)
    if len(finished) > most:
        rows.caption = f"and {len(finished) - most} more"
    return rows


def write_report(sweep: Trials, out: Path) -> Path:
    from elman.look.sweep_report import sweep_html
    from elman.training.storage import write_file

    with console.rich.status("drawing figures"):
        page = sweep_html(out.resolve().name, sweep.study.study, sweep.study.finished())
        write_file(out / "report.html", page.encode())
    return out / "report.html"
