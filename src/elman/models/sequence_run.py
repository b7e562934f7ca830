"""From examples and a config to a trained model of whole sequences: in memory, a new run, or one that goes on."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from elman.config import SequenceConfig, from_json, to_json
from elman.data.examples import Examples, held_out
from elman.data.inputs import TokenInputs
from elman.data.symbols import EDGE_ID
from elman.data.targets import Labels, Written
from elman.errors import CheckpointError, DataError, RangeError, RunError
from elman.files import sha256_of
from elman.maths.activations import ActivationLike
from elman.maths.arrays import Array
from elman.maths.cells import make_cell
from elman.models.generator_sample import show
from elman.models.sequence_task import ROWS_AT_ONCE, SequenceTask, validation, without_values
from elman.models.task_spec import SHAPES, Terms
from elman.network import Dropout, EncoderDecoder, HeadNetwork, Network, Parameters, Stack
from elman.training.arrays import read_arrays, to_bytes
from elman.training.cost import allowed_share, check_cost, estimate, say_judged, step_seconds, timed
from elman.training.distributed import world
from elman.training.environment import environment, versions
from elman.training.events import Finished, Listener
from elman.training.run import Run
from elman.training.storage import as_json, read_json, write_file
from elman.training.task import generator
from elman.training.trainer import Trainer

EXAMPLES = "examples.safetensors"  # what a run learns from: encoded, so that it can go on when the file has changed
MOST_PARAMETERS = 1 << 31
FEW = 16  # examples, or parts of a batch, whose time says how long all take


@dataclass
class Fitted:
    terms: Terms
    config: SequenceConfig
    network: Network
    parameters: Parameters
    finished: Finished | None = None
    before: int = 0  # steps, of a training before this one
    judged: int | None = None  # of the held-out examples, the number that judge; None: all
    told: dict[str, Any] = field(default_factory=dict)  # by whoever fits it, beside the config: class_weight …

    @property
    def steps(self) -> int:
        return self.before + (0 if self.finished is None else self.finished.step)


def new_shape(terms: Terms, config: SequenceConfig, activation: ActivationLike | None = None) -> Network:
    c, task = config.network, terms.task
    outputs, tokens = terms.targets.width, isinstance(terms.inputs, TokenInputs)

    def stack(inputs: int, prefix: str, *, tokens: bool, bidirectional: bool, learned: bool) -> Stack:
        return Stack(
            inputs, c.hidden, c.layers, cell=make_cell(c.cell, activation or c.activation), bidirectional=bidirectional,
            embedding=c.embedding if tokens else 0, tokens=tokens, learned_state=learned, prefix=prefix,
        )  # fmt: skip

    sides, wide = 1 + c.bidirectional, max(c.hidden, c.embedding)
    first = (terms.inputs.width + outputs) * wide * 2 * sides + c.embedding * c.hidden * (1 + sides)
    size = first + c.layers * c.hidden**2 * 4 * sides + (c.layers * c.hidden) ** 2 * sides
    if size > MOST_PARAMETERS:
        raise RangeError("hidden", expected=f"at most {MOST_PARAMETERS:,} parameters", got=f"about {size:,}")
    if task in ("classify", "regress", "tag"):
        reads = stack(terms.inputs.width, "", tokens=tokens, bidirectional=c.bidirectional, learned=c.learned_state)
        loss = "squared" if task == "regress" else "cross_entropy"
        return HeadNetwork(reads, outputs, pooling="none" if task == "tag" else c.pooling, loss=loss)
    decoder = stack(outputs, "decoder.", tokens=True, bidirectional=False, learned=False)
    if task == "generate":
        return EncoderDecoder(terms.inputs.width, decoder, outputs, edge=EDGE_ID)
    source = stack(
        terms.inputs.width, "encoder.", tokens=tokens, bidirectional=c.bidirectional, learned=c.learned_state
    )
    return EncoderDecoder(source, decoder, outputs, edge=EDGE_ID)


def new_fitted(terms: Terms, config: SequenceConfig) -> Fitted:
    """A model as it is before the first step."""
    network = new_shape(terms, config)
    rng = generator(config.training.seed, "initial")
    c = config.network
    p = network.initial(rng, recurrent=c.recurrent_init, gain=c.recurrent_init_scale, dtype=np.dtype(c.dtype))
    return Fitted(terms, config, network, p)


def trained_on(config: SequenceConfig, n: int) -> Array:
    """The rows of n examples that are learned from; the others judge, and nothing may be learned from them."""
    rng = generator(config.training.seed, "validation")
    return np.flatnonzero(~held_out(n, config.data.validation_fraction, rng))


def new_task(fitted: Fitted, examples: Examples) -> SequenceTask:
    config, terms = fitted.config, fitted.terms
    train, held = examples.split(config.data.validation_fraction, generator(config.training.seed, "validation"))
    held = held.take(np.arange(len(held))[: fitted.judged])
    if not fitted.network.units(without_values(train)):
        raise DataError(
            "the part to train on",
            expected="at least one example that counts",
            got=f"{len(train)} of {len(examples)}",
            do="Give more examples or a smaller --validation-fraction.",
        )
    rarity = None
    if config.data.unk_dropout and isinstance(terms.inputs, TokenInputs):
        rarity = terms.inputs.symbols.rarity(config.data.unk_dropout)
    # knowing nothing is to say each class equally often, or the mean of all numbers, which is 0 here
    ignorance = math.log(max(terms.targets.width, 2))
    if isinstance(train.y, np.ndarray) and terms.task == "regress":
        # what a network says at the start has no bound: of the example that fares worst, and with room
        ignorance = 10 * max(1.0, float((train.y**2).max(initial=0)))
    sample = None
    if (
        isinstance(terms.inputs, Labels)
        and isinstance(terms.targets, Written)
        and isinstance(fitted.network, EncoderDecoder)
    ):
        written = terms.inputs, terms.targets.symbols, config.training.seed
        sample = partial(show, fitted.network, fitted.parameters, *written)
    c = config.network
    dropout = Dropout(c.input_dropout, c.dropout, c.recurrent_dropout)
    return SequenceTask(
        fitted.network, fitted.parameters, train, held,
        config=config.training, dropout=dropout, rarity=rarity, ignorance=ignorance, sample=sample,
    )  # fmt: skip


def start(
    fitted: Fitted,
    examples: Examples,
    *,
    source: Mapping[str, Any] | None = None,
    out: Path | None = None,
    force: bool = False,
    listeners: Sequence[Listener] = (),
    stopping: Callable[[], bool] = lambda: False,
) -> Fitted:
    """Train from the beginning; with `out` into a run folder that can be resumed."""
    here = world()
    here.agree(shared_facts(fitted, examples))
    task = new_task(fitted, examples)
    facts: dict[str, Any] = {}
    if (seconds := fitted.config.training.seconds) is not None:
        whole = len(task.held_out)
        fitted.judged = max(1, int(allowed_share(validation_seconds(task), seconds) * whole))
        task = new_task(fitted, examples)
        facts["judged"] = fitted.judged
        say_judged(len(task.held_out), whole, "examples")
    steps = budget(fitted, examples, task)
    # made before the folder: what does not fit into memory replaces no run
    trainer = Trainer(task, task.paced, steps=steps, listeners=listeners, stopping=stopping)
    if out is None or here.rank:
        fitted.finished = trainer.train()
    else:
        files = {"vocabulary.json": as_json(fitted.terms.to_json()), EXAMPLES: to_bytes(examples.arrays())}
        sha256 = hashlib.sha256(files[EXAMPLES]).hexdigest()
        facts |= {**config_json(fitted), "steps": steps, "data": {**(source or {}), "sha256": sha256}}
        with Run.create_locked(out, facts, files, force=force) as trainer.run:
            fitted.finished = trainer.train()
    return fitted


def resume(
    path: Path,
    *,
    budget_options: dict[str, Any] | None = None,
    listeners: Sequence[Listener] = (),
    stopping: Callable[[], bool] = lambda: False,
) -> Fitted:
    """Go on with a run where its newest whole checkpoint left it; only the budget may change."""
    run, here = Run(path), world()
    steps, config = run.config.get("steps"), config_of(run)
    if not isinstance(steps, int) or steps < 1:
        raise RunError(f"{run.path} is a saved model, without checkpoints", do="Only a run of elman train can go on.")
    examples, judged = examples_of(run), run.config.get("judged")
    if judged is not None and not (isinstance(judged, int) and judged > 0):
        raise CheckpointError(f"{run.path / 'config.json'} is damaged: judged {judged!r}")
    check_size(terms_of(run), config, examples)
    fitted = new_fitted(terms_of(run), config)
    fitted.told, fitted.judged = told_of(run), judged
    given = {name: value for name, value in (budget_options or {}).items() if value is not None}
    here.agree({f"--{name}": value for name, value in given.items()})
    with run.lock() if here.rank == 0 else nullcontext():
        if given:
            none = dict.fromkeys(("epochs", "steps", "seconds"))
            fitted.config = config = config.with_options(**(none | given))
            fitted.told.pop("epochs", None)  # of the budget that this one replaces
            checkpoint = here.first(run.newest() if here.rank == 0 else None)
            taken = checkpoint.step if checkpoint else 0
            more = budget(fitted, examples, new_task(fitted, examples))
            before, steps = steps, taken * ("seconds" in given) + more  # so many seconds more
        here.agree(shared_facts(fitted, examples) | {"the number of steps": steps})
        if given and here.rank == 0 and taken < steps != before:  # else nothing is left to do, or all is as it was
            changed = {"steps": steps, "config": to_json(config), "told": fitted.told}
            write_file(path / "config.json", as_json({**run.config, **changed}))
        task = new_task(fitted, examples)
        fitted.finished = Trainer(
            task, task.paced, steps=steps, run=run, listeners=listeners, stopping=stopping
        ).train()
    return fitted


def shared_facts(fitted: Fitted, examples: Examples) -> dict[str, object]:
    """What must be the same on all ranks that train together."""
    sha256 = hashlib.sha256(to_bytes(examples.arrays())).hexdigest()
    options = {f"--{name.replace('_', '-')}": value for name, value in fitted.config.options().items()}
    return {**versions(), **options, "the examples (sha256)": sha256}


def load(path: Path) -> tuple[Run, Fitted]:
    """The best model of a run, ready to use."""
    run = Run(path)
    terms, config = terms_of(run), config_of(run)
    network = new_shape(terms, config)
    dtype = np.dtype(config.network.dtype)
    arrays = run.read_model({name: (shape, dtype) for name, shape in network.shapes.items()})
    parameters = Parameters(network.shapes, dtype)
    for name, array in arrays.items():
        parameters[name][...] = array
    rows = [row.get("step") for row in run.metrics() if "event" not in row]
    taken = rows[-1] if rows else run.config.get("taken")
    return run, Fitted(
        terms, config, network, parameters,
        before=taken if isinstance(taken, int) else 0, told=told_of(run),
    )  # fmt: skip


def save(fitted: Fitted, path: Path, *, force: bool = False) -> Run:
    """A run folder without checkpoints: enough to load, use and export."""
    files = {"vocabulary.json": as_json(fitted.terms.to_json()), "model.safetensors": to_bytes(fitted.parameters)}
    return Run.create(path, {**config_json(fitted), "taken": fitted.steps}, files, force=force)


def terms_of(run: Run) -> Terms:
    if run.config.get("task") not in list(SHAPES):
        got = repr(run.config.get("task"))
        raise RunError(f"{run.path}", expected="a model of whole sequences", got=got)
    return Terms.from_json(read_json(run.path / "vocabulary.json"))


def config_of(run: Run) -> SequenceConfig:
    return from_json(run.config.get("config"))


def told_of(run: Run) -> dict[str, Any]:
    told = run.config.get("told")
    return dict(told) if isinstance(told, dict) else {}


def examples_of(run: Run) -> Examples:
    """What a run learns from, unchanged."""
    recorded = run.config.get("data")
    arrays = read_arrays(run.path / EXAMPLES)
    if not isinstance(recorded, Mapping) or recorded.get("sha256") != sha256_of(run.path / EXAMPLES):
        raise CheckpointError(f"{run.path / EXAMPLES} is not as it was written")
    terms = terms_of(run)
    return terms.check(Examples.from_arrays(arrays, classes=terms.targets.width))


def config_json(fitted: Fitted) -> dict[str, Any]:
    config = to_json(fitted.config)
    return {"task": fitted.terms.task, "config": config, "told": fitted.told, "environment": environment()}


def budget(fitted: Fitted, examples: Examples, task: SequenceTask) -> int:
    """The number of steps that the budget allows."""
    c = fitted.config.training
    if c.steps is not None:
        return c.steps
    if c.seconds is not None:
        return max(1, int(c.seconds / seconds_a_step(fitted, examples)))
    return max(1, round((c.epochs or 1) * task.steps_per_epoch))


def seconds_a_step(fitted: Fitted, examples: Examples, measured: float = 1.5) -> float:
    """Measured on a copy that is thrown away, with validation's share."""
    copy = new_fitted(fitted.terms, fitted.config)
    copy.judged = fitted.judged
    task = new_task(copy, examples)
    batch = task.batch_of(0)
    few = batch.take(slice(0, max(1, batch.rows // FEW)))

    def part() -> object:
        return copy.network.loss_and_gradients(copy.parameters, few, copy.parameters.zeros(), normalizer=1.0)

    parts = batch.rows / few.rows * fitted.config.training.accumulate
    step = step_seconds(task, fitted.config.training, part, parts, measured)
    return step + world().first(validation_seconds(task)) / task.paced.validate_every


def validation_seconds(task: SequenceTask) -> float:
    """How long a validation takes, from what a few examples take; the first time may have to compile."""
    few = task.held_out.take(np.arange(len(task.held_out))[:FEW])
    if not task.is_judged or not few.lengths().sum():
        return 0.0
    times = [timed(lambda: validation(task.network, task.parameters, few)) for _ in range(4)]
    return min(times[1:]) * float(task.held_out.lengths().sum() / few.lengths().sum())


def check_size(terms: Terms, config: SequenceConfig, examples: Examples) -> None:
    """Before the parameters are made: whether this training fits into memory, and how long it will take."""
    c, lengths = config.training, examples.lengths()
    itemsize, steps = np.dtype(config.network.dtype).itemsize, float(np.maximum(lengths, 1).mean())
    judged = (
        config.data.validation_fraction * float(lengths.sum()) / ROWS_AT_ONCE
    )  # weights are read once for many rows
    shapes, batch = new_shape(terms, config).shapes, min(c.batch_size, len(lengths))
    check_cost(estimate(shapes, c, itemsize, batch=batch, steps=steps, judged=judged), c.seconds)
