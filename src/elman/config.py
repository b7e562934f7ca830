"""Every choice with its default, one a line: the Python API, the flags and config.json are made from them."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from elman.errors import ArgumentError, CheckpointError, RangeError, UnknownNameError

Tokens = Literal["char", "byte", "word"]
SequenceTokens = Literal["auto", "char", "byte", "word"]
Pooling = Literal["last", "mean", "max"]
CellName = Literal["rnn", "gru", "lstm"]
Activation = Literal["tanh", "relu", "sigmoid", "identity"]
RecurrentInit = Literal["orthogonal", "identity", "glorot", "uniform"]
Optimizer = Literal["sgd", "momentum", "rmsprop", "adagrad", "adam", "adamw"]
Schedule = Literal["constant", "step", "cosine", "plateau"]
Dtype = Literal["float32", "float64"]


@dataclass(frozen=True)
class DataConfig:
    tokens: Tokens = "char"  # what a token is
    encoding: str = "utf-8"  # of the text file
    keep_boilerplate: bool = False  # keep Project Gutenberg's header and footer
    vocabulary_size: int = 20_000  # word tokens: at most this many different words
    min_count: int = 2  # word tokens: keep those seen so often
    validation_fraction: float = 0.1  # share of the text, at its end, that is held out to judge
    test_fraction: float = 0.0  # share after that which training never looks at


@dataclass(frozen=True)
class NetworkConfig:
    hidden: int = 256  # units in each recurrent layer
    layers: int = 1  # recurrent layers, one above the other
    cell: CellName = "rnn"  # kind of recurrent cell
    activation: Activation = "tanh"  # h = f(a)
    dropout: float = 0.0  # share of each layer's output that is dropped in training
    recurrent_init: RecurrentInit = "orthogonal"  # W_hh at the start
    recurrent_init_scale: float = 1.0  # scale of W_hh at the start
    input_init_scale: float = 0.3  # deviation of W_xh at the start
    dtype: Dtype = "float32"  # of every number


@dataclass(frozen=True)
class TrainingConfig:
    batch_size: int = 64  # lanes of a text, or sequences, that are read side by side
    window: int = 64  # T, steps from one update to the next
    bptt_block: int | None = (
        None  # k1, steps whose losses are backpropagated together (default: min(window, bptt_steps))
    )
    bptt_steps: int | None = None  # k2, how many steps back gradients go (default: the window)
    optimizer: Optimizer = "adam"  # how a gradient becomes a step
    learning_rate: float = 8e-3  # the highest one, after the warm-up
    schedule: Schedule = "cosine"  # how the rate changes from there
    warmup_steps: int = 100  # steps in which the rate rises from 0
    final_rate_fraction: float = 0.01  # cosine: the last rate, as a share of the highest
    decay_factor: float = 0.5  # step and plateau: what the rate is multiplied by
    decay_every: int = 1000  # step: after so many steps each time
    plateau_patience: int = 3  # plateau: after so many validations without a better one
    beta1: float = 0.9  # decay of the first moment (adam, adamw); the momentum of optimizer momentum
    beta2: float = 0.99  # decay of the second moment (adam, adamw, rmsprop)
    epsilon: float = 1e-8  # added to the root of the second moment
    weight_decay: float = 0.0  # pull of every parameter towards 0
    clip_norm: float = 1.0  # longest gradient; 0 lets all pass
    clip_value: float = 0.0  # largest entry of a gradient; 0 lets all pass
    accumulate: int = 1  # batches whose gradients make one step
    epochs: float | None = None  # budget: passes over the data
    steps: int | None = None  # budget: updates
    seconds: float | None = None  # budget: time, measured beforehand and turned into steps
    validate_every: int = 250  # steps
    patience: int | None = None  # stop after so many validations without a better one
    save_every: int = 250  # steps from one checkpoint to the next
    log_every: int = 10  # steps from one row of metrics.jsonl to the next
    sample_every: int | None = None  # steps from one sample to the next
    snapshot_every: int = 50  # steps from one point to roll back to, to the next
    retries: int = 5  # how often a diverged run may go back and try a lower rate
    seed: int = 0  # every random number follows from it

    @property
    def k1(self) -> int:
        return self.bptt_block or min(self.window, self.k2)

    @property
    def k2(self) -> int:
        return self.bptt_steps or self.window


@dataclass(frozen=True)
class SequenceDataConfig:
    tokens: SequenceTokens = "auto"  # of the strings that are read; auto: words where there are two or more
    target_tokens: SequenceTokens = "auto"  # of the strings that are written
    encoding: str = "utf-8"  # of the file
    vocabulary_size: int = 20_000  # at most this many different tokens
    min_count: int = 1  # keep those seen so often
    unk_dropout: float = 0.25  # α: in training a token seen c times is read as unknown with probability α / (α + c)
    standardize: bool = True  # numbers: each feature is brought to mean 0 and deviation 1; else it is taken as it is
    validation_fraction: float = 0.1  # share of the examples, drawn at random, that is held out to judge


@dataclass(frozen=True)
class SequenceNetworkConfig:
    hidden: int = 128  # units in each recurrent layer, and direction
    layers: int = 1  # recurrent layers, one above the other
    bidirectional: bool = False  # read from both ends
    pooling: Pooling = "last"  # classify and regress: what of the states is judged
    embedding: int = 0  # width of a token's vector; 0: a token is its one-hot row
    learned_state: bool = False  # learn the state at the start instead of taking zeros
    reverse_source: bool = True  # translate: read the source from its end
    cell: CellName = "rnn"  # kind of recurrent cell
    activation: Activation = "tanh"  # h = f(a)
    dropout: float = 0.0  # share of each layer's output that is dropped in training
    input_dropout: float = 0.0  # share of the inputs; one-hot tokens become unknown
    recurrent_dropout: float = 0.0  # share of the state that enters W_hh, the same units at all steps
    recurrent_init: RecurrentInit = "orthogonal"  # W_hh at the start
    recurrent_init_scale: float = 1.0  # scale of W_hh at the start
    dtype: Dtype = "float32"  # of every number


@dataclass(frozen=True)
class Parts:
    """A config in parts, each a dataclass; no field's name occurs twice."""

    def with_options(self, **options: Any) -> Self:
        """A copy with fields of any of its parts replaced, by their bare names."""
        parts = {}
        options = {name: _plain(value) for name, value in options.items()}
        for part in dataclasses.fields(self):
            old = getattr(self, part.name)
            names = {field.name for field in dataclasses.fields(old)}
            parts[part.name] = dataclasses.replace(old, **{n: options.pop(n) for n in list(options) if n in names})
        if options:
            raise UnknownNameError("option", expected=f"one of {', '.join(self.options())}", got=", ".join(options))
        return check(type(self)(**parts))

    def options(self) -> dict[str, Any]:
        """All fields of all parts, by their bare names."""
        parts = dataclasses.asdict(self)
        return {name: value for part in parts.values() for name, value in part.items()}


C = TypeVar("C", bound=Parts)


@dataclass(frozen=True)
class Config(Parts):
    """A language model and its training, whole."""

    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)


@dataclass(frozen=True)
class SequenceConfig(Parts):
    """A model of whole sequences and its training."""

    data: SequenceDataConfig = dataclasses.field(default_factory=SequenceDataConfig)
    network: SequenceNetworkConfig = dataclasses.field(default_factory=SequenceNetworkConfig)
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)


PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "large": {"hidden": 512, "dropout": 0.1, "learning_rate": 7.5e-3, "epochs": 18},
    "tiny": {"hidden": 64, "batch_size": 16, "window": 32, "epochs": 5},
}

_SEQUENCES = {"batch_size": 32, "learning_rate": 2e-3, "warmup_steps": 50, "epochs": 15}
TASKS: dict[str, dict[str, Any]] = {  # the defaults of each shape, where they differ from those above
    "classify": {**_SEQUENCES, "hidden": 192, "dropout": 0.3, "batch_size": 64, "learning_rate": 4e-3, "epochs": 12},
    "regress": {**_SEQUENCES},
    "tag": {**_SEQUENCES, "bidirectional": True, "embedding": 100, "dropout": 0.5, "input_dropout": 0.2,
            "recurrent_dropout": 0.2, "unk_dropout": 1.0, "learning_rate": 5e-3, "epochs": 25},
    "generate": {**_SEQUENCES},
    "translate": {**_SEQUENCES, "hidden": 256, "dropout": 0.2, "batch_size": 64, "learning_rate": 2e-3, "epochs": 10},
}  # fmt: skip

POSITIVE = {"vocabulary_size", "min_count", "hidden", "layers", "batch_size", "window", "bptt_block", "bptt_steps",
            "decay_every", "plateau_patience", "accumulate", "epochs", "steps", "seconds", "validate_every",
            "patience", "save_every", "log_every", "sample_every", "snapshot_every", "learning_rate",
            "recurrent_init_scale", "input_init_scale", "epsilon"}  # fmt: skip
FROM_ZERO = {"clip_norm", "clip_value", "warmup_steps", "weight_decay", "retries", "seed", "decay_factor",
             "final_rate_fraction", "embedding", "unk_dropout"}  # fmt: skip
BELOW_ONE = {"validation_fraction", "test_fraction", "dropout", "input_dropout", "recurrent_dropout", "beta1",
             "beta2"}  # fmt: skip
UP_TO_ONE = {"decay_factor", "final_rate_fraction"}
MOST_LAYERS = 1000
LARGEST = 2**53  # above it not every whole number is a float


def check(config: C) -> C:
    """The config itself, if every value makes sense."""
    for part in dataclasses.fields(config):
        values = getattr(config, part.name)
        hints = _hints(type(values))
        for field in dataclasses.fields(values):
            _check_value(field.name, getattr(values, field.name), hints[field.name])
    training: TrainingConfig = config.training  # type: ignore[attr-defined]
    block, reach = training.k1, training.k2
    if block > training.window:
        raise RangeError("bptt_block", expected=f"at most the window, {training.window}", got=block)
    if reach < block:
        raise RangeError("bptt_steps", expected=f"at least bptt_block, {block}", got=reach)
    network = config.network  # type: ignore[attr-defined]
    if network.cell != "rnn" and network.activation != "tanh":
        raise ArgumentError(
            "activation", expected=f"tanh: the gates of cell {network.cell} have activations of their own",
            got=repr(network.activation), do="Leave activation out, or choose cell rnn",
        )  # fmt: skip
    budgets = [name for name in ("epochs", "steps", "seconds") if getattr(training, name) is not None]
    if len(budgets) > 1:
        raise ArgumentError("budget", expected="one of epochs, steps and seconds", got=" and ".join(budgets))
    return config


_hints: Callable[[Any], dict[str, Any]] = cache(get_type_hints)


def is_whole(value: object) -> bool:
    """A whole number, Python's or NumPy's."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_real(value: object) -> bool:
    """Any number on the line."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    """NumPy's numbers, which a search over options hands in, as Python's."""
    if type(value).__name__ in ("bool", "bool_"):  # NumPy itself is not imported: the command line is light
        return bool(value)
    return int(value) if is_whole(value) else float(value) if is_real(value) else value


def _check_value(name: str, value: Any, hint: Any) -> None:
    kinds = get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,)
    if value is None and NoneType in kinds:
        return
    kind = kinds[0]
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise UnknownNameError(name, expected=f"one of {', '.join(get_args(kind))}", got=repr(value))
        return
    wanted = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[kind]
    fits = isinstance(value, int | float) if kind is float else isinstance(value, kind)
    if not fits or (isinstance(value, bool) and kind is not bool):
        raise ArgumentError(name, expected=wanted, got=repr(value))
    if kind in (bool, str):
        return
    if value != value or abs(value) > LARGEST:
        raise RangeError(name, expected=f"{wanted} up to 2^53", got=value)
    if name == "layers" and value > MOST_LAYERS:
        raise RangeError(name, expected=f"at most {MOST_LAYERS}", got=value)
    for names, bound, right in (
        (POSITIVE, "above 0", value > 0),
        (FROM_ZERO | BELOW_ONE, "0 or more", value >= 0),
        (BELOW_ONE, "below 1", value < 1),
        (UP_TO_ONE, "at most 1", value <= 1),
    ):
        if name in names and not right:
            raise RangeError(name, expected=f"{wanted} {bound}", got=value)


def to_json(config: Parts) -> dict[str, Any]:
    return dataclasses.asdict(config)


def from_json(value: object, whole: type[C] = Config) -> C:  # type: ignore[assignment]
    """The config that to_json wrote; CheckpointError for anything else."""
    if not isinstance(value, Mapping):
        raise CheckpointError("config", expected="an object", got=type(value).__name__)
    parts = {}
    for part in dataclasses.fields(whole):
        kind = _hints(whole)[part.name]
        given = value.get(part.name)
        names = {field.name for field in dataclasses.fields(kind)}
        if not isinstance(given, Mapping) or set(given) != names:
            odd = sorted(set(given) ^ names) if isinstance(given, Mapping) else type(given).__name__
            raise CheckpointError(f"config, {part.name}", expected=f"the fields {sorted(names)}", got=f"besides: {odd}")
        parts[part.name] = kind(**given)
    try:
        return check(whole(**parts))
    except CheckpointError:
        raise
    except ArgumentError as error:
        raise CheckpointError(f"config: {error}") from None
