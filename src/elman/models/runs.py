"""Starts, resumes, loads and saves runs of any task.

A setup holds everything that training needs, made from data and a config: TextSetup for a text, ExampleSetup for
examples. `start` and `resume` work with either of them.
"""

from __future__ import annotations

import hashlib
import math
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from elman.config import (
    BUDGET,
    DEFAULT_EPOCHS,
    LARGEST,
    LONG_TEXT,
    MAX_EPOCHS,
    MAX_STEPS,
    Config,
    DataForm,
    defaults,
    from_json,
    is_real,
    resolve,
    to_json,
    useful_epochs,
)
from elman.data import Corpus, Split, corpus_from_text, fitting_batch, open_corpus
from elman.data.examples import Examples, held_out
from elman.data.inputs import TokenInputs
from elman.data.streams import edges_of, sequences_of
from elman.data.targets import Labels, TokenTargets
from elman.errors import (
    ArgumentError,
    CheckpointError,
    DataError,
    ElmanError,
    EncodingError,
    RunError,
    VocabularyError,
    option,
)
from elman.files import sha256_of
from elman.maths.arrays import Array
from elman.maths.cells import make_cell
from elman.models.batches import MAX_ROWS, lengths_and_weights
from elman.models.fine_tuning import MAX_OLD_TOKENS, Origin, copy_weights
from elman.models.fitted import FittedModel, build_network, new_model
from elman.models.sampling import TextSampler, sample_labels
from elman.models.task_spec import ALL_TASKS, TaskSpec
from elman.models.tasks import ExampleTask, NetworkTask, TextTask
from elman.network import EncoderDecoder, Parameters
from elman.training.arrays import read_arrays, to_bytes
from elman.training.cost import Cost, allowed_share, check_cost, estimate, step_seconds, warn_if_shortened
from elman.training.distributed import world
from elman.training.environment import environment, versions
from elman.training.events import Listener
from elman.training.metrics import History, kept_rows, to_line
from elman.training.run import Run
from elman.training.storage import as_json, read_json, write_file
from elman.training.task import generator
from elman.training.trainer import Trainer

SAMPLE_LENGTH = 200  # tokens
SPEED_SECONDS = 0.2  # for which the speed is measured
MAX_PATH = 4096  # characters: a longer str cannot be the name of a file
MAX_VALIDATION_TOKENS = 200_000  # in a validation during training, so that it takes only seconds
START = "start.safetensors"  # the initial weights of a run, if they come from a trained model
DATA = "data.safetensors"  # the encoded data of a run, if its source cannot be read again or may change


@dataclass(frozen=True)
class TrainingSetup(ABC):
    """Data, how it is split, and a config."""

    spec: TaskSpec
    config: Config
    initial: Array | None = field(default=None, kw_only=True)  # flat initial parameters; random unless given
    origin: Origin | None = field(default=None, kw_only=True)  # the model that they come from

    unit = "examples"  # what validation_size counts

    @property
    @abstractmethod
    def validation_size(self) -> int:
        """The number of tokens or examples for validation."""

    @abstractmethod
    def with_validation_size(self, size: int) -> Self:
        """A copy with at most this many tokens or examples for validation, but enough for one loss."""

    @abstractmethod
    def new_task(self, model: FittedModel) -> NetworkTask:
        """This model with these data, as the trainer sees it."""

    @abstractmethod
    def cost(self) -> Cost:
        """Memory and time, estimated before anything is allocated."""

    @abstractmethod
    def fingerprint(self) -> dict[str, object]:
        """A description of the data by which ranks check that they all have the same."""

    @abstractmethod
    def record(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The entry of config.json about the data, and the files with the data itself."""

    def extra_record(self) -> dict[str, int]:
        """Entries of config.json besides options, steps and data."""
        return {}

    def most_steps(self, task: NetworkTask) -> float:
        """The most steps that a training with a time limit takes."""
        return math.inf

    @abstractmethod
    def held_out(self) -> Array | Examples:
        """The validation data."""

    def new_model(self) -> FittedModel:
        model = new_model(self.spec, self.config)
        if self.initial is not None:
            model.parameters.buffer[:] = self.initial
        return model

    def started_from(self, origin: Origin) -> Self:
        """A copy that starts from the weights of a trained model."""
        model = new_model(self.spec, self.config)
        copy_weights(origin.model, model, origin.merged)
        return replace(self, initial=model.parameters.buffer, origin=origin)

    def shared_values(self) -> dict[str, object]:
        """Values that must be the same on all ranks."""
        options = {f"--{name.replace('_', '-')}": value for name, value in self.config.options().items()}
        return {**versions(), **options, **self.fingerprint()}


# -- a text -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TextSetup(TrainingSetup):
    """A text to train a language model on."""

    config: Config
    corpus: Corpus
    split: Split
    batch: int  # rows of a batch: fewer than batch_size if the text is short
    max_validation: int

    unit = "tokens"

    @property
    def validation(self) -> Array:
        """The first max_validation tokens of the validation part; elman eval uses all of it."""
        ids, end = self.split.validation, self.corpus.vocabulary.end
        if end is None or not len(ids):
            return ids[: self.max_validation]
        edges = edges_of(ids, end)  # whole sequences, at least one
        last = max(1, int(np.searchsorted(edges, self.max_validation)) - 1)
        return ids[: edges[last] + 1]

    @property
    def validation_size(self) -> int:
        return len(self.validation)

    def held_out(self) -> Array:
        return self.validation

    def with_validation_size(self, size: int) -> Self:
        return replace(self, max_validation=max(2, size))

    def most_steps(self, task: NetworkTask) -> float:
        """The useful passes, unless the rate is constant: a rate that falls must have fallen by then."""
        form, per_epoch = text_form(self.corpus), task.steps_per_epoch
        if self.config.schedule == "constant":
            return math.inf
        if form.length < LONG_TEXT:
            return math.ceil(useful_epochs(form, self.config.cell, per_epoch) * per_epoch)
        return max(MAX_STEPS, round(MAX_EPOCHS * per_epoch))

    def new_task(self, model: FittedModel) -> TextTask:
        sampler, seed = (
            TextSampler(model.head_network, model.parameters, self.corpus.vocabulary),
            self.config.seed,
        )
        return TextTask(
            model,
            self.split.train,
            self.validation,
            batch=self.batch,
            sample=lambda step: sampler.write(length=SAMPLE_LENGTH, seed=seed, index=step),
        )

    def cost(self) -> Cost:
        c, validated = self.config, len(self.validation)
        return _estimate(self.spec, c, batch=self.batch, steps=c.window, validated=validated)

    def fingerprint(self) -> dict[str, object]:
        return {"the text (sha256)": self.corpus.sha256, "the vocabulary's size": len(self.corpus.vocabulary)}

    def extra_record(self) -> dict[str, int]:
        return {"batch_size": self.batch}

    def record(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        # the text of standard input, a pipe or a str cannot be read again
        return _with_data(corpus_record(self.corpus), {} if self.corpus.files else {"ids": np.asarray(self.corpus.ids)})


def text_setup(corpus: Corpus, config: Config) -> TextSetup:
    """Split a text and check its size."""
    if len(corpus.ids) < 2:
        raise DataError("the text", expected="at least two tokens", got=len(corpus.ids), do="Take a longer text.")
    split, spec = split_corpus(corpus, config), TaskSpec.language_model(corpus.vocabulary)
    if corpus.vocabulary.end is not None:
        batch = min(config.batch_size, len(edges_of(split.train, corpus.vocabulary.end)) - 1)
        return TextSetup(spec, config, corpus, split, batch, MAX_VALIDATION_TOKENS)
    if len(split.train) <= config.window:
        raise DataError(
            "the part to train on is too short for a window",
            expected=f"more than {config.window} tokens",
            got=f"{len(split.train)} of {len(corpus.ids)}",
            do=f"Use a longer text, a shorter {option('window')} or a smaller {option('validation_fraction')}.",
        )
    if len(split.validation) == 1:
        raise DataError("the validation part", expected="at least two tokens", got=1, do="Take a longer text.")
    batch = fitting_batch(len(split.train), config.batch_size, config.window)
    return TextSetup(spec, config, corpus, split, batch, MAX_VALIDATION_TOKENS)


def split_corpus(corpus: Corpus, config: Config) -> Split:
    """The parts of a text; of sequences, whole ones drawn at random, equal ones all in the same part."""
    ids, end = corpus.ids, corpus.vocabulary.end
    if end is None:
        return corpus.split(config.validation_fraction, config.test_fraction)
    checksums = [zlib.crc32(one.tobytes()) for one in sequences_of(ids, end)]
    lengths, (_, groups) = np.diff(edges_of(ids, end)), np.unique(checksums, return_inverse=True)
    rows, parts = RowSplit.draw(len(groups), config, groups), list[Array]()
    for part in (rows.train, rows.validation, rows.test):
        chosen = np.repeat(np.isin(np.arange(len(groups)), part), lengths)  # of each token but the first
        parts.append(np.append(ids[: min(1, len(part))], ids[1:][chosen]))
    if not len(parts[0]):
        raise DataError("the part to train on", expected="at least one sequence", got="none", do="Give more of them.")
    return Split(*parts)


def text_form(corpus: Corpus, config: Config | None = None) -> DataForm:
    """The properties of a text that the defaults of a language model depend on; the speed if the config limits time."""
    end = corpus.vocabulary.end
    sequences = 1 if end is None else len(edges_of(corpus.ids, end)) - 1
    form = DataForm(corpus.vocabulary.kind, sequences, float(len(corpus.ids)))
    return form._replace(speed=_speed(corpus, config, form)) if config and config.seconds else form


def _speed(corpus: Corpus, config: Config, form: DataForm) -> float:
    """The speed of a network of 256 units, in tokens per second times recurrent weights."""
    usual, others = defaults("lm"), ("hidden", "layers", "accumulate", *BUDGET)
    given = {name: v for name, v in config.options().items() if v != usual[name] and name not in others}
    options = resolve("lm", given, form=form)
    setup = text_setup(corpus, options)
    task, weights = setup.new_task(setup.new_model()), options.hidden**2 * make_cell(options.cell).gates
    return task.tokens_per_step * weights / seconds_per_step(setup, SPEED_SECONDS)


def open_text(source: object, config: Config, **options: Any) -> Corpus:
    """The text in a str, or in the file of a Path, or a list of sequences."""
    if isinstance(source, str) and _names_a_file(source):
        what, do = f"{source!r} is the name of a file or folder, and a str is read as a text", "Give a Path"
        raise DataError(what, do=f"{do}: Path({source!r}).")
    shared = {
        "tokens": config.tokens,
        "keep_boilerplate": config.keep_boilerplate,
        "vocabulary_size": config.vocabulary_size,
        "min_count": config.min_count,
        "sequences": config.sequences == "lines",
        **options,
    }
    if isinstance(source, Path):
        return open_corpus(source, encoding=config.encoding, **shared)
    if isinstance(source, bytes | Mapping | Set) or not isinstance(source, Iterable):
        expected = "a str with the text, a Path of a file, or a list of str, one for each sequence"
        raise ArgumentError("text", expected=expected, got=type(source).__name__)
    return corpus_from_text(source if isinstance(source, str) else list(source), **shared)


def _names_a_file(text: str) -> bool:
    """Whether a text is the path of a file or folder, with a suffix or a separator, and so not meant as a text."""
    if len(text) > MAX_PATH or "\n" in text or "\0" in text:
        return False
    return bool(Path(text).suffix or os.path.dirname(text)) and os.path.exists(text)


def corpus_record(corpus: Corpus) -> dict[str, Any]:
    """The entry of config.json about a text."""
    record = {
        "name": corpus.name,
        "source": corpus.source,
        "sha256": corpus.sha256,
        "tokens": len(corpus.ids),
        "characters": corpus.characters,
    }
    return {**record, "files": list(corpus.files)} if len(corpus.files) > 1 else record


def read_corpus(run: Run) -> Corpus:
    """The text that a run was trained on; RunError if it has changed."""
    recorded, vocabulary, config = run.config.get("data"), read_spec(run, "lm").vocabulary, read_config(run)
    if not isinstance(recorded, dict) or not all(
        isinstance(recorded.get(k), str) for k in ("name", "source", "sha256")
    ):
        raise CheckpointError(f"{run.path / 'config.json'} is damaged: it does not name the text of the training")
    if (run.path / DATA).exists():
        ids = _read_data(run).get("ids")
        if ids is None or ids.ndim != 1 or ids.dtype != vocabulary.dtype or (ids >= len(vocabulary)).any():
            raise CheckpointError(f"{run.path / DATA} is damaged")
        recorded_characters = recorded.get("characters")
        characters = recorded_characters if isinstance(recorded_characters, int) else len(ids)
        return Corpus(ids, vocabulary, recorded["name"], recorded["source"], recorded["sha256"], characters, 0, ())
    if recorded["source"] in ("", "-"):
        raise RunError(f"{run.path} does not contain the text that it was trained on")
    files = recorded.get("files", [recorded["source"]])
    if not isinstance(files, list) or not files or not all(isinstance(file, str) for file in files):
        raise CheckpointError(f"{run.path / 'config.json'} is damaged: files of the text", expected="a list of paths")
    for file in files:
        if not os.path.exists(file):  # checked here, because open_corpus would read the name as a pattern
            raise DataError(f"there is no file {file!r}", do=f"Restore the text of {run.path}.")
        if not os.path.isfile(file):  # a pipe or a device would be copied until the disk is full
            raise RunError(f"The text of {run.path} is {file!r}", expected="a regular file", do="Start a new run.")
    changed = RunError(
        f"The text of {run.path} has changed since the run began ({recorded['source']})",
        do="Restore the old text, or start a new run.",
    )
    try:
        corpus = open_corpus(
            list(map(Path, files)),
            tokens=config.tokens,
            encoding=config.encoding,
            keep_boilerplate=config.keep_boilerplate,
            vocabulary_size=config.vocabulary_size,
            min_count=config.min_count,
            sequences=vocabulary.end is not None,
            # the vocabulary of a fine-tuned run may also have the tokens of the old text
            vocabulary=None if run.config.get("start") is None else vocabulary,
        )
    except (EncodingError, VocabularyError):
        raise changed from None
    if corpus.sha256 != recorded["sha256"]:
        raise changed
    if corpus.vocabulary != vocabulary:
        raise CheckpointError(f"{run.path / 'vocabulary.json'} is not the vocabulary of the text")
    return corpus


# -- examples ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowSplit:
    """The row numbers of the examples of each part; training never reads the test part."""

    train: Array
    validation: Array
    test: Array = field(default_factory=lambda: np.arange(0))

    @classmethod
    def draw(cls, n: int, config: Config, groups: Array | None = None) -> RowSplit:
        """A random split, drawn first: vocabularies, means and standard deviations come from the training rows only.

        All rows of a group are in the same part: groups (n,) has the number of the group of each row, from 0.
        """
        count = n if groups is None else int(groups.max(initial=-1)) + 1
        held = held_out(count, config.validation_fraction, generator(config.seed, "validation"))
        rest, validation = np.flatnonzero(~held), np.flatnonzero(held)
        share = min(1.0, config.test_fraction * count / max(1, len(rest)))
        tested = held_out(len(rest), share, generator(config.seed, "test"))
        parts = rest[~tested], validation, rest[tested]
        return cls(*(part if groups is None else np.flatnonzero(np.isin(groups, part)) for part in parts))

    @classmethod
    def all_train(cls, n: int) -> RowSplit:
        return cls(np.arange(n), np.arange(0))


@dataclass(frozen=True)
class ExampleSetup(TrainingSetup):
    """Examples to train a model of sequences on."""

    config: Config
    examples: Examples
    split: RowSplit
    source: Mapping[str, Any] = field(default_factory=dict)  # what config.json says about the examples
    estimator_params: Mapping[str, Any] = field(default_factory=dict)  # as in FittedModel

    @property
    def validation_size(self) -> int:
        return len(self.split.validation)

    def held_out(self) -> Examples:
        return self.examples.take(self.split.validation)

    def with_validation_size(self, size: int) -> Self:
        return replace(self, split=replace(self.split, validation=self.split.validation[: max(1, size)]))

    def new_model(self) -> FittedModel:
        model = super().new_model()
        model.estimator_params = dict(self.estimator_params)
        return model

    def new_task(self, model: FittedModel) -> ExampleTask:
        config, spec, network = self.config, self.spec, model.network
        train, validation = (self.examples.take(rows) for rows in (self.split.train, self.split.validation))
        if not network.loss_count(lengths_and_weights(train)):
            raise DataError(
                "the part to train on",
                expected="at least one example with a loss",
                got=f"none among {len(train)} of {len(self.examples)} examples",
                do="Give more examples, or smaller validation and test fractions.",
            )
        rates = None
        if config.unk_dropout and isinstance(spec.inputs, TokenInputs):
            rates = spec.inputs.symbols.unknown_probability(config.unk_dropout)
        baseline = math.log(max(spec.n_outputs, 2))  # the loss of a uniform prediction
        if isinstance(train.y, np.ndarray) and spec.task == "regress":
            # ten times the largest loss of the mean, which is 0 after standardizing: initial outputs have no bound
            baseline = 10 * max(1.0, float((train.y**2).max(initial=0)))
        sample = None
        if (
            isinstance(spec.inputs, Labels)
            and isinstance(spec.targets, TokenTargets)
            and isinstance(network, EncoderDecoder)
        ):
            sample = partial(sample_labels, network, model.parameters, spec.inputs, spec.targets.symbols, config.seed)
        return ExampleTask(model, train, validation, unknown_rates=rates, baseline_loss=baseline, sample=sample)

    def cost(self) -> Cost:
        c, lengths = self.config, self.examples.lengths()
        steps = float(np.maximum(lengths, 1).mean())
        validated = c.validation_fraction * float(lengths.sum()) / MAX_ROWS  # weights are read once for many rows
        return _estimate(self.spec, c, batch=min(c.batch_size, len(lengths)), steps=steps, validated=validated)

    def fingerprint(self) -> dict[str, object]:
        return {"the examples (sha256)": hashlib.sha256(to_bytes(self.examples.arrays())).hexdigest()}

    def record(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        return _with_data(self.source, self.examples.arrays())  # stored, because the file may change


def read_examples(run: Run) -> Examples:
    """The examples that a run was trained on."""
    spec = read_spec(run)
    return spec.check(Examples.from_arrays(_read_data(run), classes=spec.n_outputs))


# -- starting and resuming --------------------------------------------------------------------------------------------


def start(
    setup: TrainingSetup,
    *,
    out: Path | None = None,
    force: bool = False,
    listeners: Sequence[Listener] = (),
    stopping: Callable[[], bool] = lambda: False,
) -> FittedModel:
    """Train from the beginning; with `out`, in a run folder that can be resumed."""
    config, here, extra = setup.config, world(), setup.extra_record()
    if here.size > 1:
        here.agree(setup.shared_values())
    check_cost(setup.cost(), config.seconds)
    model = setup.new_model()
    new_data = setup.held_out()  # before a time limit shortens it
    before = setup.origin.losses(model, new_data, trained=False) if setup.origin else {}
    task = setup.new_task(model)
    if config.seconds is not None:
        full_size = setup.validation_size
        share = allowed_share(task.validation_seconds(), config.seconds)
        setup = setup.with_validation_size(int(share * full_size))
        task = setup.new_task(model)
        extra["validation_size"] = setup.validation_size
        warn_if_shortened(setup.validation_size, full_size, setup.unit)
    steps = step_budget(setup, task)
    model.limit = _limit(setup, task, steps)
    all_listeners: list[Listener] = [History(model.history), *listeners]
    fine_tuned = setup.initial is not None
    # It allocates its arrays before the folder is created: a training that does not fit into memory must not replace
    # an existing run.
    trainer = Trainer(
        task, task.trainer_config, steps=steps, validate_start=fine_tuned, listeners=all_listeners, stopping=stopping
    )
    if out is None or here.rank:
        model.finished = trainer.train()
    else:
        data, files = setup.record()
        files["vocabulary.json"] = as_json(setup.spec.to_json())
        written = _config_json(model, data) | extra | {"steps": steps}
        if setup.initial is not None:
            files[START] = to_bytes(model.parameters)
            written["start"] = {"run": setup.origin.name if setup.origin else "", "losses": before}
        with Run.create_locked(out, written, files, force=force) as trainer.run:
            model.finished = trainer.train()
    if setup.origin:
        after = setup.origin.losses(model, new_data, trained=True)
        model.fine_tuning = {name: (before[name], after[name]) for name in ("old", "new")}
    return model


def resume(
    path: Path,
    *,
    budget_options: Mapping[str, Any] | None = None,
    listeners: Sequence[Listener] = (),
    stopping: Callable[[], bool] = lambda: False,
) -> FittedModel:
    """Continue a run from its newest complete checkpoint; only the budget may change."""
    run, here = Run(path), world()
    setup, steps = here.leader_first(lambda: reopen(run))
    given = {name: value for name, value in (budget_options or {}).items() if value is not None}
    if here.size > 1:
        asked = {f"--{name} of this command": value for name, value in given.items()}
        here.agree(setup.shared_values() | {"the number of steps": steps} | asked)
    check_cost(setup.cost(), given.get("seconds"))
    model = setup.new_model()
    with run.lock() if here.rank == 0 else nullcontext():
        if given:
            model.config = setup.config.with_options(**(dict.fromkeys(BUDGET) | given))
            model.estimator_params.pop("epochs", None)  # part of the old budget
            setup = replace(setup, config=model.config)
            checkpoint = here.broadcast(run.newest() if here.rank == 0 else None)
            taken = checkpoint.step if checkpoint else 0
            task = setup.new_task(model)
            before, steps = steps, step_budget(setup, task)
            if "seconds" in given:  # they are additional time, the others totals
                steps = int(min(taken + steps, setup.most_steps(task)))
            if checkpoint and "seconds" in given:
                model.config = _with_time_spent(model.config, checkpoint.metadata.get("seconds"))
            if here.rank == 0 and taken < steps != before:  # else the run is finished, or nothing changes
                # the rest of config.json describes how the run began and is not changed
                changed = {"steps": steps, "config": to_json(model.config), "estimator": model.estimator_params}
                write_file(path / "config.json", as_json({**run.config, **changed}))
        task = setup.new_task(model)
        model.limit = _limit(setup, task, steps)
        fine_tuned = setup.initial is not None
        trainer = Trainer(
            task,
            task.trainer_config,
            steps=steps,
            run=run,
            validate_start=fine_tuned,
            listeners=listeners,
            stopping=stopping,
        )
        model.finished = trainer.train()
    model.history = kept_rows(run.metrics())
    return model


def _with_time_spent(config: Config, spent: Any) -> Config:
    """The config with the time of the whole training in place of the additional time."""
    if config.seconds is None or not is_real(spent) or not 0 <= spent < LARGEST:  # the trainer reports the damage
        return config
    return config.with_options(seconds=math.ceil(10 * (spent + config.seconds)) / 10)


def reopen(run: Run) -> tuple[TrainingSetup, int]:
    """The data and config of a run, checked against what it was started with, and its number of steps."""
    steps, size = run.config.get("steps"), run.config.get("validation_size")
    if steps is None and run.newest() is None:
        do = "Only a run of elman train, or of fit with out=, can be resumed."
        raise RunError(f"{run.path} is a saved model, without checkpoints", do=do)
    setup = open_setup(run)
    damaged = f"{run.path / 'config.json'} is damaged"
    for name, value in setup.extra_record().items():
        if (got := run.config.get(name)) != value:
            raise CheckpointError(f"{damaged}: {name}", expected=value, got=repr(got))
    if not isinstance(steps, int) or steps < 1:
        raise CheckpointError(f"{damaged}: steps", expected="a whole number above 0", got=repr(steps))
    if size is not None and not (isinstance(size, int) and size > 0):
        raise CheckpointError(f"{damaged}: validation_size", expected="a whole number above 0", got=repr(size))
    return setup if size is None else setup.with_validation_size(size), steps


def open_setup(run: Run) -> TrainingSetup:
    """The data of a run, split as in training."""
    spec, config = read_spec(run), read_config(run)
    if spec.task == "lm":
        return open_text_setup(run)
    initial = _read_start(run, spec, config)
    examples, record = read_examples(run), run.config.get("data")
    split, source = RowSplit.draw(len(examples), config, examples.groups), record if isinstance(record, dict) else {}
    return ExampleSetup(spec, config, examples, split, source, _estimator_params(run), initial=initial)


def open_text_setup(run: Run) -> TextSetup:
    """The text of a run of a language model, split as in training."""
    setup = text_setup(read_corpus(run), read_config(run))
    return replace(setup, initial=_read_start(run, setup.spec, setup.config))


def _read_start(run: Run, spec: TaskSpec, config: Config) -> Array | None:
    """The parameters that a run started from, if they come from a trained model."""
    if run.config.get("start") is None:
        return None
    network, dtype = build_network(spec, config), np.dtype(config.dtype)
    arrays = read_arrays(run.path / START, {name: (shape, dtype) for name, shape in network.shapes.items()})
    return np.concatenate([arrays[name].reshape(-1) for name in network.shapes])


def old_data(path: Path) -> Array | Examples | None:
    """Validation data of a run, to measure what fine-tuning forgets; None if there are none or they cannot be read."""
    try:
        setup = open_setup(Run(path))
    except ElmanError:
        return None
    found = setup.held_out()
    if isinstance(found, Examples):
        return found if len(found) else None
    return np.asarray(found[:MAX_OLD_TOKENS])


def step_budget(setup: TrainingSetup, task: NetworkTask) -> int:
    """The number of steps that the budget allows."""
    c = setup.config
    if c.steps is not None:
        return c.steps
    if c.seconds is not None:
        return max(1, int(min(c.seconds / seconds_per_step(setup), setup.most_steps(task))))
    return max(1, round((c.epochs or DEFAULT_EPOCHS) * task.steps_per_epoch))


def _limit(setup: TrainingSetup, task: NetworkTask, steps: int) -> str:
    """What ends a training before its time, in words; empty if nothing does."""
    if setup.config.seconds is None or steps < setup.most_steps(task):
        return ""
    return f"{steps / task.steps_per_epoch:.0f} passes over a text of this length are enough"


def seconds_per_step(setup: TrainingSetup, measured: float = 1.5) -> float:
    """The time of a step, measured for `measured` seconds, with its share of the time of validations."""
    task, c = setup.new_task(setup.new_model()), setup.config
    part, parts = task.small_step()
    step = step_seconds(task, c, part, parts * c.accumulate, measured)
    return step + world().broadcast(task.validation_seconds()) / task.trainer_config.validate_every


def _estimate(spec: TaskSpec, config: Config, **sizes: float) -> Cost:
    itemsize = np.dtype(config.dtype).itemsize
    return estimate(build_network(spec, config).shapes, config, itemsize, **sizes)  # type: ignore[arg-type]


# -- loading and saving -----------------------------------------------------------------------------------------------


def load(path: Path, task: str | None = None) -> tuple[Run, FittedModel]:
    """The best model of a run; RunError if it has another task than the given one."""
    run = Run(path)
    spec, config = read_spec(run, task), read_config(run)
    network = build_network(spec, config)
    dtype = np.dtype(config.dtype)
    arrays = run.read_model({name: (shape, dtype) for name, shape in network.shapes.items()})
    parameters = Parameters(network.shapes, dtype)  # allocated only after the size of the file was checked
    for name, array in arrays.items():
        parameters[name][...] = array
    history, params = kept_rows(run.metrics()), _estimator_params(run)
    taken = run.config.get("taken", history[-1]["step"] if history else 0)
    before = taken if isinstance(taken, int) else 0
    return run, FittedModel(spec, config, network, parameters, None, before, params, history)


def save(model: FittedModel, path: Path, data: Mapping[str, Any] | None = None, *, force: bool = False) -> Run:
    """Write a run folder without checkpoints: enough to load, use and export the model. Nothing is pickled."""
    files = {
        "vocabulary.json": as_json(model.spec.to_json()),
        "model.safetensors": to_bytes(model.parameters),
        "metrics.jsonl": b"".join(map(to_line, model.history)),
    }
    return Run.create(path, _config_json(model, data) | {"taken": model.steps}, files, force=force)


def read_spec(run: Run, task: str | None = None) -> TaskSpec:
    """The inputs and targets of a run; RunError if it has another task than the given one."""
    known = run.config.get("task")
    if known not in list(ALL_TASKS) or task not in (None, known):
        do = "Use elman predict." if task == "lm" and known in list(ALL_TASKS) else None
        expected = _in_words(task) if task else f"a run with one of the tasks {', '.join(ALL_TASKS)}"
        raise RunError(f"{run.path}", expected=expected, got=_in_words(known), do=do)
    return TaskSpec.from_json(str(known), read_json(run.path / "vocabulary.json"))


def _in_words(task: object) -> str:
    return "a language model" if task == "lm" else f"a model to {task}" if task in list(ALL_TASKS) else repr(task)


def read_config(run: Run) -> Config:
    return from_json(run.config.get("config"))


def _estimator_params(run: Run) -> dict[str, Any]:
    params = run.config.get("estimator")
    return dict(params) if isinstance(params, dict) else {}


def _config_json(model: FittedModel, data: Mapping[str, Any] | None) -> dict[str, Any]:
    """The entries of config.json that every model has."""
    return {
        "task": model.spec.task,
        "config": to_json(model.config),
        "estimator": model.estimator_params,
        "data": data,
        "environment": environment(),
    }


def _with_data(record: Mapping[str, Any], arrays: dict[str, Array]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The record of the data with the hash of its arrays, and the file of the arrays, if there are any."""
    if not arrays:
        return dict(record), {}
    content = to_bytes(arrays)
    return {**record, "stored_sha256": hashlib.sha256(content).hexdigest()}, {DATA: content}


def _read_data(run: Run) -> dict[str, Array]:
    arrays, recorded = read_arrays(run.path / DATA), run.config.get("data")
    if not isinstance(recorded, Mapping) or recorded.get("stored_sha256") != sha256_of(run.path / DATA):
        raise CheckpointError(f"{run.path / DATA} was changed after it was written")
    return arrays
