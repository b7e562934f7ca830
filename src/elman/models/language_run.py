"""From a corpus and a config to a trained language model: a new run, or one that goes on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elman.config import TASKS, Config, from_json, to_json
from elman.data import Corpus, Split, Vocabulary, corpus_from_text, fitting_batch, open_corpus, vocabulary_from_json
from elman.errors import ArgumentError, CheckpointError, DataError, EncodingError, RunError, VocabularyError
from elman.files import sha256_of
from elman.maths.arrays import Array
from elman.models.evaluation import mean_loss
from elman.models.language_task import LanguageTask, new_network, new_parameters
from elman.models.sampling import Writer
from elman.network import Batch, HeadNetwork, Parameters
from elman.training.arrays import read_arrays, to_bytes
from elman.training.cost import Cost, allowed_share, check_cost, estimate, say_judged, step_seconds, timed
from elman.training.distributed import world
from elman.training.environment import environment, versions
from elman.training.events import Finished, Listener
from elman.training.run import Run
from elman.training.storage import as_json, read_json, write_file
from elman.training.trainer import Trainer

DEFAULT_EPOCHS = 15
SAMPLE_LENGTH = 200
MOST_JUDGED = 200_000  # tokens: some seconds each time
FEW_STEPS, FEW_TOKENS = 4, 64  # whose time says how long a step and a validation take
CORPUS = "corpus.safetensors"  # the ids of a text that cannot be read again


class Trained(NamedTuple):
    network: HeadNetwork
    parameters: Parameters
    vocabulary: Vocabulary
    finished: Finished


class Preparation(NamedTuple):
    """All that training needs, made from a corpus and a config."""

    corpus: Corpus
    split: Split
    batch: int  # lanes: fewer than asked for where the text is short
    config: Config
    most_judged: int  # tokens of the held-out part

    @property
    def judged(self) -> Array:
        """What training is judged by: of a large held-out part its beginning; elman eval judges all of a text."""
        return self.split.validation[: self.most_judged]

    def facts(self) -> dict[str, object]:
        """What must be the same on all ranks that train together."""
        options = {f"--{name.replace('_', '-')}": value for name, value in self.config.options().items()}
        text = {"the text (sha256)": self.corpus.sha256, "the vocabulary's size": len(self.corpus.vocabulary)}
        return {**versions(), **options, **text}

    def task(self) -> LanguageTask:
        c = self.config
        network = new_network(c.network, len(self.corpus.vocabulary))
        parameters = new_parameters(network, c.network, c.training.seed)
        writer = Writer(network, parameters, self.corpus.vocabulary)
        return LanguageTask(
            network,
            parameters,
            self.split.train,
            self.judged,
            batch=self.batch,
            dropout=c.network.dropout,
            config=c.training,
            sample=lambda step: writer.write(length=SAMPLE_LENGTH, seed=c.training.seed, index=step),
        )


def prepare(corpus: Corpus, config: Config) -> Preparation:
    split = corpus.split(config.data.validation_fraction, config.data.test_fraction)
    if len(split.train) <= config.training.window:
        raise DataError(
            "the part to train on is shorter than a window",
            expected=f"more than {config.training.window} tokens",
            got=f"{len(split.train)} of {len(corpus.ids)}",
            do="Take a longer text (a str is a text, a Path a file), a shorter --window or less validation.",
        )
    if len(split.validation) == 1:
        raise DataError("the validation part", expected="at least two tokens", got=1, do="Take a longer text.")
    batch = fitting_batch(len(split.train), config.training.batch_size, config.training.window)
    return Preparation(corpus, split, batch, config, MOST_JUDGED)


def start(
    prepared: Preparation,
    *,
    out: Path | None = None,
    force: bool = False,
    listeners: Sequence[Listener] = (),
    stopping: Callable[[], bool] = lambda: False,
) -> Trained:
    """Train from the beginning; with `out` into a run folder that can be resumed."""
    corpus, config, here = prepared.corpus, prepared.config, world()
    here.agree(prepared.facts())
    check_cost(cost(prepared), config.training.seconds)
    task = prepared.task()
    facts = {"batch_size": prepared.batch}
    if config.training.seconds is not None:
        whole = len(prepared.judged)
        share = allowed_share(validation_seconds(task), config.training.seconds)
        prepared = prepared._replace(most_judged=max(2, int(share * whole)))
        task.validation = prepared.judged
        facts["judged"] = prepared.most_judged
        say_judged(len(prepared.judged), whole, "tokens")
    steps = budget(prepared, task)
    # made before the folder: what does not fit into memory replaces no run
    trainer = Trainer(task, config.training, steps=steps, listeners=listeners, stopping=stopping)
    if out is None or here.rank:
        finished = trainer.train()
    else:
        files = {"vocabulary.json": as_json(corpus.vocabulary.to_json())}
        written = config_json(config, corpus, steps=steps, **facts)
        if not corpus.files:  # standard input, a pipe or a text in memory: it cannot be read again
            files[CORPUS] = to_bytes({"ids": np.asarray(corpus.ids)})
            written["corpus_sha256"] = hashlib.sha256(files[CORPUS]).hexdigest()
        with Run.create_locked(out, written, files, force=force) as trainer.run:
            finished = trainer.train()
    return Trained(task.network, task.parameters, corpus.vocabulary, finished)


def resume(
    path: Path,
    *,
    budget_options: dict[str, Any] | None = None,
    listeners: Sequence[Listener] = (),
    stopping: Callable[[], bool] = lambda: False,
) -> Trained:
    """Go on with a run where its newest whole checkpoint left it; only the budget may change."""
    run, here = Run(path), world()
    prepared, steps = here.in_turn(lambda: reopen(run))
    given = {name: value for name, value in (budget_options or {}).items() if value is not None}
    asked = {f"--{name} of this command": value for name, value in given.items()}
    here.agree(prepared.facts() | {"the number of steps": steps} | asked)
    check_cost(cost(prepared), given.get("seconds"))
    task = prepared.task()
    with run.lock() if here.rank == 0 else nullcontext():
        if given:
            none = dict.fromkeys(("epochs", "steps", "seconds"))
            prepared = prepared._replace(config=prepared.config.with_options(**(none | given)))
            checkpoint = here.first(run.newest() if here.rank == 0 else None)
            taken = checkpoint.step if checkpoint else 0
            before, steps = steps, taken * ("seconds" in given) + budget(prepared, task)  # so many seconds more
            if here.rank == 0 and taken < steps != before:  # else nothing is left to do, or all is as it was
                # the rest of config.json says what the run began with, and stays
                changed = {"steps": steps, "config": to_json(prepared.config)}
                write_file(path / "config.json", as_json({**run.config, **changed}))
        config = prepared.config.training
        finished = Trainer(task, config, steps=steps, run=run, listeners=listeners, stopping=stopping).train()
    return Trained(task.network, task.parameters, prepared.corpus.vocabulary, finished)


def reopen(run: Run) -> tuple[Preparation, int]:
    """The corpus and config of a run, checked against what it was started with; and its number of steps."""
    config = config_of(run)
    steps, batch, judged = (run.config.get(name) for name in ("steps", "batch_size", "judged"))
    if steps is None and run.newest() is None:
        raise RunError(f"{run.path} is a saved model, without checkpoints", do="Only a run of elman train can go on.")
    corpus = corpus_of(run)
    prepared = prepare(corpus, config)
    if not isinstance(steps, int) or steps < 1 or batch != prepared.batch:
        raise CheckpointError(f"{run.path / 'config.json'} is damaged: steps {steps!r}, batch {batch!r}")
    if judged is not None and not (isinstance(judged, int) and judged > 1):
        raise CheckpointError(f"{run.path / 'config.json'} is damaged: judged {judged!r}")
    return prepared._replace(most_judged=judged or MOST_JUDGED), steps


def config_of(run: Run) -> Config:
    if run.config.get("task") != "lm":
        task = run.config.get("task")
        do = "elman predict uses it." if task in list(TASKS) else None
        raise RunError(f"{run.path}", expected="a language model", got=repr(task), do=do)
    return from_json(run.config.get("config"))


def vocabulary_of(run: Run) -> Vocabulary:
    return vocabulary_from_json(read_json(run.path / "vocabulary.json"))


def corpus_of(run: Run) -> Corpus:
    """The text that a run was trained on, unchanged."""
    recorded, vocabulary, data = run.config.get("corpus"), vocabulary_of(run), config_of(run).data
    if not isinstance(recorded, dict) or not all(
        isinstance(recorded.get(k), str) for k in ("name", "source", "sha256")
    ):
        raise CheckpointError(f"{run.path / 'config.json'} is damaged: it does not say what text it was trained on")
    if (run.path / CORPUS).exists():
        ids = read_arrays(run.path / CORPUS).get("ids")
        if sha256_of(run.path / CORPUS) != run.config.get("corpus_sha256"):
            raise CheckpointError(f"{run.path / CORPUS} is not as it was written")
        if ids is None or ids.ndim != 1 or ids.dtype != vocabulary.dtype or (ids >= len(vocabulary)).any():
            raise CheckpointError(f"{run.path / CORPUS} is damaged")
        recorded_characters = recorded.get("characters")
        characters = recorded_characters if isinstance(recorded_characters, int) else len(ids)
        return Corpus(ids, vocabulary, recorded["name"], recorded["source"], recorded["sha256"], characters, 0, ())
    if recorded["source"] in ("", "-"):
        raise RunError(f"{run.path} does not hold the text that it was trained on")
    files = recorded.get("files", [recorded["source"]])
    if not isinstance(files, list) or not files or not all(isinstance(file, str) for file in files):
        raise CheckpointError(f"{run.path / 'config.json'} is damaged: files of the text", expected="a list of paths")
    for file in files:
        if not os.path.exists(file):  # nor is it taken for a pattern
            raise DataError(f"there is no file {file!r}", do=f"Bring the text of {run.path} back.")
        if not os.path.isfile(file):  # a pipe or a device would be copied until the disk is full
            raise RunError(f"The text of {run.path} is {file!r}", expected="a regular file", do="Start a new run.")
    changed = RunError(
        f"The text of {run.path} has changed since the run began ({recorded['source']})",
        do="Bring the old text back, or start a new run.",
    )
    try:
        corpus = open_corpus(
            list(map(Path, files)),
            tokens=data.tokens,
            encoding=data.encoding,
            keep_boilerplate=data.keep_boilerplate,
            vocabulary_size=data.vocabulary_size,
            min_count=data.min_count,
        )
    except (EncodingError, VocabularyError):
        raise changed from None
    if corpus.sha256 != recorded["sha256"]:
        raise changed
    if corpus.vocabulary != vocabulary:
        raise CheckpointError(f"{run.path / 'vocabulary.json'} is not the vocabulary of the text")
    return corpus


def budget(prepared: Preparation, task: LanguageTask) -> int:
    """The number of steps that the budget allows."""
    c = prepared.config.training
    if c.steps is not None:
        return c.steps
    if c.seconds is not None:
        return max(1, int(c.seconds / seconds_a_step(prepared)))
    return max(1, round((c.epochs or DEFAULT_EPOCHS) * task.steps_per_epoch))


def seconds_a_step(prepared: Preparation, measured: float = 1.5) -> float:
    """Measured on a copy that is thrown away, with validation's share."""
    task, c = prepared.task(), prepared.config.training
    x, y, _ = task.stream.next()
    x, y = x[:FEW_STEPS], y[:FEW_STEPS]

    def part() -> object:
        return task.network.loss_and_gradients(
            task.parameters, Batch(x, y, state=task.carried), task.parameters.zeros(), normalizer=y.size
        )

    step = step_seconds(task, c, part, c.window / len(y) * c.accumulate, measured)
    return step + world().first(validation_seconds(task)) / c.validate_every


def validation_seconds(task: LanguageTask) -> float:
    """How long a validation takes, from what a few tokens take; the first time may have to compile."""
    few = task.validation[: FEW_TOKENS + 1]
    if len(few) < 2:
        return 0.0
    times = [timed(lambda: mean_loss(task.network, task.parameters, few)) for _ in range(4)]
    return min(times[1:]) * (len(task.validation) - 1) / (len(few) - 1)


def cost(prepared: Preparation) -> Cost:
    c, itemsize = prepared.config, np.dtype(prepared.config.network.dtype).itemsize
    shapes = new_network(c.network, len(prepared.corpus.vocabulary)).shapes
    steps, judged = c.training.window, len(prepared.judged)
    return estimate(shapes, c.training, itemsize, batch=prepared.batch, steps=steps, judged=judged)


def config_json(config: Config, corpus: Corpus | None, **facts: int) -> dict[str, Any]:
    """What config.json says, besides its format."""
    known: dict[str, Any] | None = None
    if corpus is not None:
        known = {
            "name": corpus.name,
            "source": corpus.source,
            "sha256": corpus.sha256,
            "tokens": len(corpus.ids),
            "characters": corpus.characters,
        }
        if len(corpus.files) > 1:
            known["files"] = list(corpus.files)
    return {"task": "lm", **facts, "config": to_json(config), "corpus": known, "environment": environment()}


def load(path: Path) -> tuple[Run, HeadNetwork, Parameters, Vocabulary]:
    """The best model of a run, ready to use."""
    run = Run(path)
    config, vocabulary = config_of(run), vocabulary_of(run)
    network = new_network(config.network, len(vocabulary))
    dtype = np.dtype(config.network.dtype)
    arrays = run.read_model({name: (shape, dtype) for name, shape in network.shapes.items()})
    parameters = Parameters(network.shapes, dtype)  # after the file was seen to hold as much
    for name, array in arrays.items():
        parameters[name][...] = array
    return run, network, parameters, vocabulary


def corpus_from(source: str | Path, config: Config, **options: Any) -> Corpus:
    """A str is a text, a Path is a file."""
    data = config.data
    shared = {
        "tokens": data.tokens,
        "keep_boilerplate": data.keep_boilerplate,
        "vocabulary_size": data.vocabulary_size,
        "min_count": data.min_count,
        **options,
    }
    if isinstance(source, Path):
        return open_corpus(source, encoding=data.encoding, **shared)
    if not isinstance(source, str):
        raise ArgumentError("text", expected="a str with the text, or a Path of a file", got=type(source).__name__)
    return corpus_from_text(source, **shared)
