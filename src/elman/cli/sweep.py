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
from elman.training.progress_line import ProgressLine

if TYPE_CHECKING:
    from elman.models.sweep import Sweep as Trials

SHOWN = 10  # trials in the table at the end


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
    storage: str | None = flag(
        None,
        "URL of the database that records all trials; several machines need a server, such as "
        "postgresql://user:password@host/name (default: the file trials.db in the folder of the sweep)",
    )
    preset: Preset | None = flag(None, "the same as --seconds 30 (fast), 300 (default) or 3000 (best), or textbook")
    threads: int | None = flag(None, "number of threads (default: $ELMAN_THREADS, else all cores)")
    options: dict[str, Any] = field(default_factory=dict)

    def run(self) -> int:
        from elman.config import resolve
        from elman.data import default_source, open_corpus
        from elman.kernels.threads import set_threads
        from elman.models.runs import text_form
        from elman.models.sweep import Sweep as Trials  # raises MissingExtraError before anything is read
        from elman.models.sweep_space import space
        from elman.training.distributed import world
        from elman.training.signals import stop_on_signals

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
        say = partial(console.print, markup=False)
        source = self.source or (default_source(say),)
        with reading() as progress:
            corpus = open_corpus(source, progress=progress, **reading_options(config))
        for note in corpus.notes:
            say(note)
        config = resolve("lm", self.options, form=text_form(corpus), preset=self.preset)
        out = self.out or Path("sweeps") / corpus.name
        sweep = Trials(out, corpus, config, dimensions, storage=self.storage)
        say(f"{corpus.name}: {len(corpus.ids):,} tokens, {len(corpus.vocabulary)} different.")
        say(f"Searching {'; '.join(map(str, dimensions))}.")
        before = sweep.finished()
        begin = f"Continuing after {before} trial{'s' * (before > 1)}" if before else f"{self.trials} trials"
        say(f"{begin} in {out}. Each can be repeated with the command shown.")
        with stop_on_signals(errors.print) as stopping, ProgressLine() as line:
            done = sweep.run(self.trials, TrialReport(sweep, source, line), stopping)
        return report_end(sweep, done)

    def _refuse_examples(self) -> None:
        task = "lm"
        with suppress(DataError):  # a file that may be a text or examples is read as a text
            task = guess(self.source)
        if task != "lm":
            raise ArgumentError(
                f"{self.source[0]} looks like examples to {task}, and a sweep is for language models",
                do="In Python, scikit-learn's GridSearchCV searches the options of SequenceClassifier and the others.",
            )


class TrialReport:
    """A listener that prints a line when a trial begins and when it ends, with its progress in between."""

    def __init__(self, sweep: Trials, source: tuple[str, ...], line: ProgressLine) -> None:
        self.sweep, self.source, self.line = sweep, source, line

    def __call__(self, event: Any) -> None:
        from optuna import Trial
        from optuna.trial import FrozenTrial

        if isinstance(event, Trial):
            command = f"{join(['elman', 'train', *self.source])} {event.user_attrs['flags']}"
            console.print(f"trial {event.number}: {command}", markup=False)
        elif isinstance(event, FrozenTrial):
            self.line.clear()
            seconds = event.duration.total_seconds() if event.duration else 0
            result = event.user_attrs.get("why", "stopped early: most trials were better")
            if event.state.name == "COMPLETE":
                best = ", the best so far" * (self.sweep.ranking()[0].number == event.number)
                result = f"{event.value:.4f} nats per token{best}"
            console.print(f"trial {event.number}: {result} ({seconds:.0f} s)", markup=False)
        else:
            self.line(event)


def report_end(sweep: Trials, done: bool) -> int:
    """Print the best trials, where all of them are, and the next command to type; returns the exit code."""
    from elman.models.sweep import DEFAULTS

    say = partial(console.print, markup=False)
    ranking = sweep.ranking()
    if ranking:
        say(table(sweep))
    say(f"All trials, for Optuna: load_study(study_name={sweep.name!r}, storage={sweep.url.render_as_string()!r})")
    if not done:
        say("Stopped. The same command continues; the interrupted trial starts again.")
        return 130
    if running := sweep.running():
        say(f"{running} trial{'s are' if running > 1 else ' is'} still running in other processes.")
    if not ranking:
        say("No trial was trained to its end: give a larger budget, or search other options.")
        return 1
    best = ranking[0]
    for first in ranking:
        if first.user_attrs.get(DEFAULTS):
            better = first.value - best.value
            result = f"{better:.4f} nats per token better than" if better > 0 else "no better than"
            say(f"The best, trial {best.number}, is {result} the defaults, which are trial {first.number}.")
    if sweep.run_folder(best.number).is_dir():
        say("Sample from the best model:")
        say(f"elman sample {quote(str(sweep.run_folder(best.number)))}")
    else:
        say("The best model is on another machine; the command of its trial repeats it here.")
    return 0


def table(sweep: Trials) -> Any:
    """A table of the best trials; its last line is the importance of each option."""
    from rich.box import SIMPLE
    from rich.table import Table

    importance = sweep.importance()
    ranking = sweep.ranking()
    rows = Table(box=SIMPLE, padding=(0, 0, 0, 1), show_footer=bool(importance))  # 80 columns are enough
    rows.caption = f"and {len(ranking) - SHOWN} more" if len(ranking) > SHOWN else None
    rows.add_column("trial", "importance:" if importance else "", justify="right")
    rows.add_column("nats", justify="right")
    for dimension in sweep.dimensions:
        head = "lr" if dimension.name == "learning_rate" else dimension.name
        share = importance.get(dimension.name)
        rows.add_column(head, "–" if share is None else f"{share:.0%}", justify="right", overflow="fold")
    rows.add_column("s", justify="right")
    for trial in ranking[:SHOWN]:
        values = [trial.params[dimension.name] for dimension in sweep.dimensions]
        shown = [f"{value:.3g}" if isinstance(value, float) else str(value) for value in values]
        rows.add_row(str(trial.number), f"{trial.value:.4f}", *shown, f"{trial.duration.total_seconds():.0f}")
    return rows
