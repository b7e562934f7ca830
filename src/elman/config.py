"""The table of options: every option of every task once, with its type, default, bounds, tasks, cells and help.

The flags of the command line, config.json, the search space of sweeps, what the service accepts for a training,
the arguments of the Python classes (models/options.py, which adds their types) and docs/options.md are all made from
it. After a change run `python scripts/generate`, which rewrites the last.

`resolve` returns the whole configuration for a task: the given options, and defaults for all others.

>>> resolve("classify", {"cell": "gru"}).batch_size
64
"""

# ruff: noqa: RUF009 - the defaults of the table are made by `option`
from __future__ import annotations

import dataclasses
import difflib
import math
import numbers
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from elman.errors import ArgumentError, CheckpointError, RangeError, UnknownNameError, options_as
from elman.errors import option as written  # the name of an option as the user writes it

Task = Literal["lm", "classify", "regress", "tag", "generate", "translate"]
Tokens = Literal["auto", "char", "byte", "word", "bpe"]
Sequences = Literal["none", "lines"]
Pooling = Literal["last", "mean", "max"]
CellName = Literal["rnn", "gru", "lstm"]
Attention = Literal["none", "dot", "additive"]
Activation = Literal["tanh", "relu", "sigmoid", "identity"]
RecurrentInit = Literal["orthogonal", "identity", "glorot", "uniform"]
Optimizer = Literal["sgd", "momentum", "rmsprop", "adagrad", "adam", "adamw"]
Schedule = Literal["constant", "step", "cosine", "plateau"]
Dtype = Literal["float32", "float64"]

ALL_TASKS: tuple[str, ...] = get_args(Task)
SEQUENCE_TASKS = ALL_TASKS[1:]  # whose data are examples instead of one long text
SEQUENCE_INPUT_TASKS = ("classify", "regress", "tag", "translate")  # the input of generate is a label or a vector
BUDGET = ("epochs", "steps", "seconds")  # one of them says how long to train
MAX_EPOCHS, MAX_STEPS = 30, 5000  # of a language model with a time limit; the larger of the two numbers of steps counts
SUBWORDS = 2048  # the default vocabulary_size for tokens bpe
GROUPS = {
    "data": "data and tokens",
    "network": "the network",
    "budget": "training time (give one of epochs, seconds and steps)",
    "training": "training",
    "optimizer": "the optimizer and its learning rate",
    "record": "what is measured and saved",
}
LARGEST = 2**53  # a float64 holds every whole number up to this one


class Range(NamedTuple):
    """The range in which a sweep searches an option."""

    low: float
    high: float
    log: bool = False  # uniform in the logarithm
    usual: bool = False  # a sweep searches this option unless told otherwise


@dataclass(frozen=True)
class Option:
    """All that the table has for one option besides its type and default, which are those of the field of Config."""

    help: str
    group: str = ""  # a key of GROUPS
    above: float | None = None  # lower bound, exclusive
    least: float | None = None  # lower bound, inclusive
    below: float | None = None  # upper bound, exclusive
    most: float | None = None  # upper bound, inclusive
    tasks: tuple[str, ...] = ALL_TASKS  # to which it applies
    cells: tuple[str, ...] = get_args(CellName)  # to which it applies
    sweep: Range | None = None
    first: bool = False  # whether the help shows it among the main options
    flag_tasks: tuple[str, ...] | None = None  # tasks that have the flag, if not all of `tasks`
    argument: bool = True  # whether the estimators take it as an argument; LanguageModel takes all options of its task
    service_most: float | None = None  # the largest value in a training that the service starts
    service: bool = True  # whether such a training may set it
    alias: str | None = None  # a second name for the flag
    fixed: bool = False  # part of a fitted model: partial_fit cannot change it

    def flags_of(self) -> tuple[str, ...]:
        """The tasks for which `elman train` has a flag for this option."""
        return self.tasks if self.flag_tasks is None else self.flag_tasks


def option(default: Any, help: str, **fields: Any) -> Any:
    """A row of the table: a field of Config with its Option.

    Parameters
    ----------
    default : object
        Its value unless the defaults of a task, those for the data or the user set another.
    help : str
        What it is, in a few words, without its default.
    **fields
        The other fields of `Option`.
    """
    return dataclasses.field(default=default, metadata={"option": Option(help, **fields)})


_data = partial(option, group="data", fixed=True)
_network = partial(option, group="network", fixed=True)
_budget = partial(option, group="budget")
_training = partial(option, group="training")
_optimizer = partial(option, group="optimizer")
_record = partial(option, group="record")


# fmt: off
@dataclass(frozen=True)
class Config:
    """The value of every option; `resolve` gives the defaults of a task."""

    tokens: Tokens = _data("char", "what a token is; bpe: subwords; auto: words if the texts of the examples have "
        "two or more words on average, else characters (lm: always characters; translate: subwords if tokens and "
        "target_tokens are both auto and the sources have two or more words on average and 1,000 or more "
        "different words)",
        tasks=("lm", *SEQUENCE_INPUT_TASKS), flag_tasks=("lm", "classify", "regress", "translate"), first=True)
    target_tokens: Tokens = _data("auto", "what a token of the target is, with the same values as tokens",
        tasks=("generate", "translate"))
    lowercase: bool = _data(False, "convert words to lower case; has no effect on other kinds of tokens",
        tasks=("classify", "regress"))
    sequences: Sequences = _data("none", "lines: each line of the file is a sequence of its own (a word, name or "
        "melody), learned from its beginning to its end; none: the file is one text", tasks=("lm",))
    encoding: str = _data("utf-8", "encoding of the file", argument=False, service=False, fixed=False)
    keep_boilerplate: bool = _data(False, "keep the header and footer that Project Gutenberg adds to a book",
        tasks=("lm",), service=False)
    vocabulary_size: int = _data(20_000, "maximum number of different tokens, not counting special ones such as that "
        "for unknown tokens (bpe: 2,048 unless set, or 1,000 if auto chooses it, and at least 256; byte: always 256); "
        "a language model of characters keeps all of them", above=0, service_most=20_000)
    min_count: int = _data(2, "tokens with fewer occurrences are unknown, but bytes never are (bpe: pairs with fewer "
        "are not merged; in other tasks than lm the minimum is at least 2); a language model of characters keeps all "
        "of them",
        above=0)
    unk_dropout: float = _data(0.25, "α: in training, a token that occurs c times is replaced by unknown with "
        "probability α / (α + c); bytes and subwords never are", tasks=SEQUENCE_INPUT_TASKS, least=0, fixed=False)
    standardize: bool = _data(True, "scale each input feature to mean 0 and standard deviation 1", tasks=SEQUENCE_TASKS,
        flag_tasks=())
    validation_fraction: float = _data(0.1, "fraction held out for validation during training: the end of a text "
        "(before the test part), or examples drawn at random", least=0, below=1, fixed=False)
    test_fraction: float = _data(0.0, "fraction that training never reads: the end of a text, or examples drawn at "
        "random; elman eval RUN evaluates this part, or the validation part if it is 0", least=0, below=1, fixed=False)

    hidden: int = _network(256, "number of units of each recurrent layer and direction", above=0,
        sweep=Range(32, 512, log=True, usual=True), first=True, service_most=512)
    layers: int = _network(1, "number of recurrent layers", above=0, most=1000, sweep=Range(1, 3, usual=True),
        first=True, service_most=4)
    cell: CellName = _network("rnn", "kind of recurrent cell", first=True)
    activation: Activation = _network("tanh", "activation function of the rnn cell", cells=("rnn",))
    bidirectional: bool = _network(False, "read in both directions", tasks=SEQUENCE_INPUT_TASKS)
    pooling: Pooling = _network("last", "pooling of the states over time: the last one, their mean or maximum",
        tasks=("classify", "regress"))
    embedding: int = _network(0, "size of token embeddings; 0: one-hot tokens", least=0, service_most=512)
    learned_state: bool = _network(False, "learn the initial state instead of starting from zeros",
        tasks=SEQUENCE_INPUT_TASKS)
    attention: Attention = _network("none", "attention of the decoder over the outputs k of the encoder, with a query "
        "q = h @ W_q of K entries from the decoder's state h; dot: scaled dot product, q · k / √K; additive: "
        "tanh(q + k @ W_k) @ w_a (Bahdanau)", tasks=("translate",))
    dropout: float = _network(0.0, "dropout on the output of each layer except the last layer of a translator's "
        "encoder", least=0, below=1, sweep=Range(0.0, 0.5, usual=True), first=True, fixed=False)
    input_dropout: float = _network(0.0, "dropout on the inputs; a dropped one-hot token is read as unknown; the "
        "one-hot tokens of a decoder are never dropped", least=0, below=1, tasks=SEQUENCE_TASKS, sweep=Range(0.0, 0.5),
        fixed=False)
    recurrent_dropout: float = _network(0.0, "dropout on the state that enters W_hh, with one mask for all steps",
        least=0, below=1, sweep=Range(0.0, 0.5), fixed=False)
    recurrent_init: RecurrentInit = _network("orthogonal", "initialization of W_hh")
    recurrent_init_scale: float = _network(1.0, "scale (gain) of the initial W_hh", above=0, sweep=Range(0.5, 1.5))
    input_init_scale: float = _network(0.3, "standard deviation of the initial token vectors: the "
        "embedding, or W_xh if tokens are one-hot", above=0,
        sweep=Range(0.03, 1.0, log=True))
    forget_bias: float = _network(1.0, "initial bias of the forget gate of an lstm", cells=("lstm",),
        sweep=Range(0.0, 3.0))
    dtype: Dtype = _network("float32", "floating-point type of the parameters and of all computation")

    epochs: float | None = _budget(None, "passes over the training data", above=0, first=True)
    steps: int | None = _budget(None, "number of parameter updates", above=0)
    seconds: float | None = _budget(None, "approximate training time; a short measurement converts it to a number of "
        "steps; a language model ends earlier if more passes over its text would not improve it", above=0, first=True,
        service_most=600)

    batch_size: int = _training(64, "number of sequences, or of parallel streams of a text, in one batch", above=0,
        sweep=Range(16, 256, log=True, usual=True), first=True, service_most=256)
    window: int = _training(64, "sequence length of a batch (T), in tokens; its final state, detached, is the initial "
        "state of the next batch", above=0, tasks=("lm",), sweep=Range(16, 256, log=True, usual=True), service_most=512)
    bptt_block: int | None = _training(None, "truncated BPTT: steps of a block, whose losses are backpropagated "
        "together (k1; default: the smaller of T and k2)", above=0, tasks=("lm",), sweep=Range(1, 64, log=True))
    bptt_steps: int | None = _training(None, "truncated BPTT: number of steps, counted back from the end of a block, "
        "over which the losses of the block are backpropagated, never past the start of the batch (k2; default: T); "
        "bptt_truncate = n of many courses is bptt_block 1 and bptt_steps n + 1", above=0, tasks=("lm",),
        sweep=Range(1, 256, log=True))
    accumulate: int = _training(1, "batches per update (gradient accumulation); the loss is the mean over all of them",
        above=0, sweep=Range(1, 4), service_most=16)  # the service stops only between steps: none must take minutes
    clip_norm: float = _training(1.0, "maximum norm of the gradient of all parameters together; 0 disables clipping",
        least=0, sweep=Range(0.1, 10.0, log=True))
    clip_value: float = _training(0.0, "maximum absolute value of a gradient's entries; 0 disables clipping", least=0,
        sweep=Range(0.01, 10.0, log=True))
    patience: int = _training(0, "stop after this many validations without improvement; 0: never", least=0)
    retries: int = _training(5, "how many times a diverged run may return to a snapshot and lower the learning rate",
        least=0)
    seed: int = _training(0, "seed of all random numbers", least=0, argument=False, sweep=Range(0, 9), first=True)

    optimizer: Optimizer = _optimizer("adam", "optimizer")
    learning_rate: float = _optimizer(8e-3, "maximum learning rate, reached after the warm-up", above=0,
        sweep=Range(5e-4, 3e-2, log=True, usual=True), first=True, alias="lr")
    schedule: Schedule = _optimizer("cosine", "how the learning rate falls after the warm-up")
    warmup_steps: int = _optimizer(100, "steps over which the learning rate rises from 0", least=0,
        sweep=Range(0, 500))
    final_rate_fraction: float = _optimizer(0.01, "cosine schedule: final learning rate as a fraction of the maximum",
        least=0, most=1, sweep=Range(1e-3, 1.0, log=True))
    decay_factor: float = _optimizer(0.5, "step and plateau schedules: factor that multiplies the learning rate",
        least=0, most=1, sweep=Range(0.1, 0.9))
    decay_every: int = _optimizer(1000, "step schedule: steps between two reductions of the learning rate, counted "
        "from the first step", above=0,
        sweep=Range(100, 5000, log=True))
    plateau_patience: int = _optimizer(3, "plateau schedule: validations without improvement before a reduction",
        above=0, sweep=Range(1, 10))
    beta1: float = _optimizer(0.9, "decay of the first moment (adam, adamw); momentum coefficient (momentum)",
        least=0, below=1, sweep=Range(0.5, 0.99))
    beta2: float = _optimizer(0.99, "decay of the second moment (adam, adamw, rmsprop)", least=0, below=1,
        sweep=Range(0.9, 0.9999))
    epsilon: float = _optimizer(1e-8, "added to the denominator of the update (adam, adamw, rmsprop, adagrad)", above=0,
        sweep=Range(1e-10, 1e-5, log=True))
    weight_decay: float = _optimizer(0.0, "L2 penalty: this number times the parameters is added to the gradient; "
        "adamw: decoupled weight decay", least=0, sweep=Range(1e-6, 1e-1, log=True))

    validate_every: int = _record(250, "steps between two validations; unless another value is set, a language model "
        "validates at least once in ten epochs, and the other tasks at least once per epoch", above=0)
    save_every: int = _record(250, "steps between two checkpoints", above=0, argument=False)
    log_every: int = _record(10, "steps between two rows of metrics.jsonl", above=0, argument=False)
    sample_every: int | None = _record(None, "steps between two samples printed during training", above=0,
        argument=False, tasks=("lm", "generate"))
    snapshot_every: int = _record(50, "steps between two snapshots to which a diverged run returns", above=0,
        argument=False)
    # fmt: on

    @property
    def k1(self) -> int:
        """Steps whose losses are backpropagated together."""
        return self.bptt_block or min(self.window, self.k2)

    @property
    def k2(self) -> int:
        """The maximum number of steps that a loss is backpropagated over."""
        return self.bptt_steps or self.window

    def with_options(self, **options: Any) -> Config:
        """A checked copy with some options replaced.

        >>> Config().with_options(hidden=32).hidden
        32
        """
        return check(dataclasses.replace(self, **_known(options)))

    def options(self) -> dict[str, Any]:
        """All options with their values.

        >>> Config().options()["hidden"]
        256
        """
        return {name: getattr(self, name) for name in OPTIONS}


OPTIONS: dict[str, Option] = {field.name: field.metadata["option"] for field in dataclasses.fields(Config)}

# -- defaults by task and data ----------------------------------------------------------------------------------------

PATIENCE, TEXT_PATIENCE = 4, 8  # validations; the second of a text, unless validate_every is set
_EXAMPLES: dict[str, Any] = {
    "tokens": "auto", "min_count": 1, "hidden": 128, "batch_size": 32, "learning_rate": 2e-3, "warmup_steps": 50,
    "epochs": 15, "input_init_scale": 0.1, "patience": PATIENCE,
}  # fmt: skip
TASK_DEFAULTS: dict[str, dict[str, Any]] = {  # where they differ from Config's
    # token vectors and a W_xh that all tokens share learn faster than a row of W_xh for each token
    "lm": {"embedding": 128},
    "classify": {**_EXAMPLES, "hidden": 192, "dropout": 0.3, "batch_size": 64, "learning_rate": 4e-3, "epochs": 12},
    "regress": {**_EXAMPLES},
    "tag": {**_EXAMPLES, "cell": "gru", "bidirectional": True, "embedding": 100, "dropout": 0.5, "input_dropout": 0.2,
            "recurrent_dropout": 0.2, "unk_dropout": 1.0, "learning_rate": 5e-3, "epochs": 25},
    "generate": {**_EXAMPLES},
    "translate": {**_EXAMPLES, "hidden": 256, "cell": "gru", "bidirectional": True, "attention": "dot",
                  "embedding": 128, "dropout": 0.2, "batch_size": 64, "learning_rate": 3e-3, "epochs": 10},
}  # fmt: skip
DEFAULT_EPOCHS = 15.0  # of a language model
PRESETS: dict[str, dict[str, Any]] = {  # of a language model: size, dropout and learning rate follow from a time
    "fast": {"seconds": 30.0},
    "default": {"seconds": 300.0},
    "best": {"seconds": 3000.0},
    # a one-hot token, one tanh layer, W_xh, W_hh, b_h, W_hy, b_y and nothing else: h = 0 at the start of each pass,
    # gradient descent with clipping at a constant rate
    "textbook": {"cell": "rnn", "activation": "tanh", "embedding": 0, "hidden": 128, "layers": 1, "dropout": 0.0,
                 "recurrent_dropout": 0.0, "weight_decay": 0.0, "batch_size": 16, "optimizer": "sgd",
                 "schedule": "constant", "warmup_steps": 0, "clip_norm": 1.0, "clip_value": 0.0,
                 "patience": 0},
}  # fmt: skip


class DataForm(NamedTuple):
    """The properties of the data that defaults depend on."""

    kind: str  # char, byte, word, bpe, list (of tokens) or numbers
    examples: int  # the number of examples, or of sequences; 1 for a text
    # the tokens of a text; of examples the mean number of words between spaces (word), of characters (char, byte, bpe)
    # or of steps (list, numbers)
    length: float
    classes: int = 0  # number of different labels, or 0
    words: int = 0  # number of different words in a translator's sources
    # of training a language model on this machine, in tokens per second times recurrent weights; 0: not measured
    speed: float = 0.0

    def __str__(self) -> str:
        """In words: `words, 2,700 examples, 2 classes`."""
        what = {"char": "characters", "byte": "bytes", "word": "words", "bpe": "subwords", "list": "tokens"}
        classes = f", {self.classes} classes" if self.classes else ""
        return f"{what.get(self.kind, self.kind)}, {self.examples:,} examples{classes}"


WORDS = ("word", "list", "bpe")  # kinds of tokens with a large vocabulary
_CLASSIFY_BY_FORM = ("lowercase", "hidden", "cell", "bidirectional", "pooling", "embedding", "dropout", "input_dropout",
           "unk_dropout", "batch_size", "optimizer", "learning_rate", "weight_decay")  # fmt: skip
# The options whose default depends on the data; in Python their default is None. The default of a translator's tokens
# and target_tokens is "auto", which also depends on the data.
BY_FORM = {
    "classify": _CLASSIFY_BY_FORM,
    "regress": _CLASSIFY_BY_FORM,
    "tag": ("cell", "learning_rate"),
    "generate": ("learning_rate",),
    "translate": ("vocabulary_size", "dropout", "input_dropout", "epochs", "learning_rate"),
    "lm": ("hidden", "layers", "dropout", "recurrent_dropout", "batch_size", "learning_rate", "window",
           "validation_fraction", "epochs", "patience"),
}
# The default learning rate of each optimizer, as a multiple of Adam's, for a vanilla and a gated cell: the steps of sgd
# have the size of the gradient, those of the others are scaled in some way (docs/options.md has the measurements).
RATES = {"sgd": (125, 500), "momentum": (12.5, 62.5), "adagrad": (6.25, 6.25)}
FEW_EXAMPLES = 1000  # fewer are read in smaller batches
MANY_WORDS = 1000  # different words of a translator's sources: with as many, most are rare, and subwords are better
SHORT_TEXT = 200_000  # tokens; a shorter text is read in smaller batches
MANY_SEQUENCES = 2000
MIN_TOKENS, MIN_SEQUENCES = 400, 100  # with fewer, a tenth is too little to judge a model: all are trained on
MIN_STEPS = 300  # of a language model by default: a short text is read more often
SIZES = {  # of a language model with a time limit: units: (dropout of a vanilla cell, of a gated cell, learning rate)
    512: (0.25, 0.5, 3e-3),
    384: (0.15, 0.4, 4e-3),
    256: (0.05, 0.2, 5e-3),
    192: (0.0, 0.1, 6e-3),
    128: (0.0, 0.0, 8e-3),
    96: (0.0, 0.0, 8e-3),
}
LONG_TEXT = 400_000  # tokens
# of more tokens, a vanilla cell has two layers if there is time for them; a gated cell has for a long text only
TWO_LAYERS = 60_000
MOST_GATED = 30  # useful passes of a gated cell, which learns more from each than a vanilla one
# that the time limit must allow, and for a larger network an epoch for so many units
MIN_EPOCHS, UNITS_PER_EPOCH = 6, 32
MAX_WEIGHTS, MAX_SHORT = 2, 256  # recurrent weights for each token of a long text; units for a short text


def _by_form(task: str, cell: str, form: DataForm | None) -> dict[str, Any]:
    """Defaults that depend on the form of the data: docs/options.md explains them."""
    if form is None or task == "lm":
        return {}
    found: dict[str, Any] = {}
    if task == "translate" and form.words >= MANY_WORDS:
        found |= {"tokens": "bpe", "target_tokens": "bpe", "vocabulary_size": 1000, "dropout": 0.4,
                  "input_dropout": 0.3, "epochs": 20}  # fmt: skip
    if task not in ("classify", "regress"):
        return found
    if form.kind in WORDS:
        # most words are rare: embeddings need fewer weights than one-hot tokens, and dropout prevents overfitting
        found |= {"lowercase": True, "cell": "gru", "hidden": 64, "bidirectional": True, "pooling": "max",
                  "embedding": 100, "dropout": 0.3, "input_dropout": 0.5, "optimizer": "adamw", "weight_decay": 0.2,
                  "unk_dropout": 8.0, "batch_size": 64, "learning_rate": 8e-3}  # fmt: skip
    else:
        found |= {"cell": "gru"}
    if form.examples < FEW_EXAMPLES:
        found["batch_size"] = 16  # more updates in an epoch
    return found


def is_tiny(form: DataForm) -> bool:
    """Whether a text is too short to hold out a part of it."""
    return form.length < MIN_TOKENS or 1 < form.examples < MIN_SEQUENCES


def useful_epochs(form: DataForm, cell: str, updates: float) -> float:
    """How many passes over a text improve a model; more would only overfit. An epoch has this many updates.

    >>> novels = [DataForm("char", 1, length) for length in (8e3, 2e4, 1e5, 3e5)]
    >>> [round(useful_epochs(novel, "rnn", updates=100)) for novel in novels]
    [100, 61, 25, 14]
    """
    least, epochs = MIN_STEPS / updates, 25 * math.exp(0.55 * math.log(1e5 / max(form.length, 1.0)))
    return least if is_tiny(form) else max(least, epochs if cell == "rnn" else min(epochs, MOST_GATED))


def _by_text(form: DataForm, cell: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults of a language model by the length of its text, or of its sequences, and the time for training.

    A text that is too short to hold out a part of it is learned by heart: nothing is dropped. Of a short text the more
    is dropped, the shorter it is and the more often it is read.

    >>> _by_text(DataForm("char", 1, 100_000.0, speed=3e10), "gru", {"seconds": 20.0})["recurrent_dropout"]
    0.2
    """
    tokens, gates = max(form.length, 1.0), {"rnn": 1, "gru": 3}.get(cell, 4)
    batch = 16 if tokens < SHORT_TEXT and form.examples < MANY_SEQUENCES else 64  # more updates in an epoch
    held_out = {"validation_fraction": 0.0} if is_tiny(form) else {}
    shares = {"validation_fraction": 0.1, "test_fraction": 0.0} | held_out | dict(chosen)
    trained = tokens * (1 - shares["validation_fraction"] - shares["test_fraction"])
    window = max(1, min(64, int(trained) - 1))
    updates = max(1.0, max(trained / window, form.examples) / batch)  # in an epoch
    useful = useful_epochs(form, cell, updates)
    epochs: float = max(DEFAULT_EPOCHS, round(useful))
    found: dict[str, Any] = {"batch_size": batch, "window": window, "epochs": epochs, **held_out}
    usual = Config.validate_every
    found["patience"] = TEXT_PATIENCE if chosen.get("validate_every", usual) == usual else 0
    if held_out:
        return found
    if chosen.get("epochs") or chosen.get("steps"):
        epochs = chosen.get("epochs") or chosen["steps"] / updates
    if chosen.get("seconds") and form.speed:
        rates = form.speed * chosen["seconds"] / tokens / gates  # epochs, times the square of the units
        two = tokens >= LONG_TEXT or (tokens > TWO_LAYERS and gates == 1 and rates >= 3 * MAX_SHORT**2 * useful)
        epochs, by_size = _by_size(tokens, gates, rates, chosen.get("hidden"), chosen.get("layers", 2 if two else 1))
        found |= by_size
    if tokens < LONG_TEXT:
        share, short = min(1.0, epochs / useful), 1e5 / tokens
        if gates == 1:
            outputs, state = min(0.4, 0.75 * max(0.0, 0.13 * short - 0.1)), min(0.4, 0.13 * short)
        else:
            outputs, state = min(0.5, 0.3 * math.sqrt(short)), min(0.5, 0.2 * math.sqrt(short))
        found |= {"dropout": round(share * outputs, 2), "recurrent_dropout": round(share * state, 2)}
    return found


def _by_size(
    tokens: float, gates: int, rates: float, hidden: int | None, layers: int
) -> tuple[float, dict[str, Any]]:
    """The largest network that trains long enough in time: its epochs, and its size, dropout and learning rate.

    It has at most MAX_WEIGHTS recurrent weights for each token of a long text, counting the weights between its layers,
    and at most MAX_SHORT units for a short text; if no size is small enough, it is the smallest. If `hidden` is given,
    it determines dropout and learning rate.
    """
    deep = 2 * layers - 1

    def fits(size: int) -> bool:
        small = gates * size**2 * deep <= MAX_WEIGHTS * tokens if tokens >= LONG_TEXT else size <= MAX_SHORT
        return small and rates / (size**2 * deep) >= max(MIN_EPOCHS, size / UNITS_PER_EPOCH)

    size = next((size for size in SIZES if (fits(size) if hidden is None else size <= hidden)), min(SIZES))
    vanilla, gated, rate = SIZES[size]
    found = {"hidden": size, "layers": layers, "dropout": vanilla if gates == 1 else gated, "learning_rate": rate}
    return rates / ((hidden or size) ** 2 * deep), found


def described(task: str, config: Config) -> str:
    """The most important options whose defaults depend on the data, in one line.

    >>> described("classify", resolve("classify"))
    'rnn, 192 units, last pooling, dropout 0.3, learning rate 0.004'
    """
    names, c = BY_FORM.get(task, ()), config
    texts = {
        "vocabulary_size": f"{c.vocabulary_size:,} subwords" if "bpe" in (c.tokens, c.target_tokens) else "",
        "cell": c.cell,
        "hidden": f"{c.hidden} units",
        "layers": f"{c.layers} layers" if c.layers > 1 else "",
        "bidirectional": "two directions" if c.bidirectional else "",
        "pooling": f"{c.pooling} pooling",
        "embedding": f"embedding {c.embedding}" if c.embedding else "",
        "dropout": f"dropout {c.dropout:g}" if c.dropout else "",
        "recurrent_dropout": f"recurrent dropout {c.recurrent_dropout:g}" if c.recurrent_dropout else "",
        "input_dropout": f"input dropout {c.input_dropout:g}" if c.input_dropout else "",
        "learning_rate": f"learning rate {c.learning_rate:g}",
        "weight_decay": f"weight decay {c.weight_decay:g}" if c.weight_decay else "",
    }
    return ", ".join(text for name, text in texts.items() if name in names and text)


Rule = Callable[[str, str, DataForm | None], dict[str, Any]]
RULES: tuple[Rule, ...] = (  # defaults by task, cell and form of data; later rules override earlier ones
    lambda task, cell, form: TASK_DEFAULTS.get(task, {}),
    _by_form,
)


def defaults(task: str, cell: str = "rnn", form: DataForm | None = None) -> dict[str, Any]:
    """The defaults of a task, for a cell and a form of data.

    >>> defaults("tag")["bidirectional"]
    True
    """
    found = Config().options() | {"epochs": DEFAULT_EPOCHS}
    for rule in RULES:
        found |= rule(task, cell, form)
    return found


def resolve(
    task: str = "lm",
    options: Mapping[str, Any] | None = None,
    *,
    form: DataForm | None = None,
    preset: str | None = None,
) -> Config:
    """The whole configuration: the given options, else the preset's values, else the defaults for task and data.

    Parameters
    ----------
    task : str
        One of lm, classify, regress, tag, generate and translate.
    options : mapping, optional
        Values by name. None stands for the default.
    form : DataForm, optional
        The properties of the data that defaults depend on.
    preset : {"fast", "default", "best", "textbook"}, optional
        For a language model: half a minute, five minutes or 50 minutes; or the plain network of textbooks.

    Returns
    -------
    Config
        Checked, with a value for every option. One of epochs, steps and seconds is set.

    Examples
    --------
    >>> config = resolve("classify", {"steps": 100})
    >>> config.hidden, config.epochs, config.steps
    (192, None, 100)
    """
    if task not in ALL_TASKS:
        raise UnknownNameError(written("task"), expected=f"one of {', '.join(ALL_TASKS)}", got=repr(task))
    if preset is not None and preset not in PRESETS:
        raise UnknownNameError(written("preset"), expected=f"one of {', '.join(PRESETS)}", got=repr(preset))
    given = {name: value for name, value in _known(options or {}).items() if value is not None}
    for name in given:
        if task not in OPTIONS[name].tasks:
            allowed = in_words(OPTIONS[name].tasks)
            raise ArgumentError(f"{written(name)} does not apply to task {task}", do=f"It is for {allowed}.")
    found = defaults(task, str(given.get("cell", "rnn")), form)
    if "cell" not in given:
        for name, value in given.items():
            cells = OPTIONS[name].cells
            if found["cell"] not in cells and value != getattr(Config, name):
                found["cell"] = cells[0]  # a given option that only this cell has selects the cell
    chosen = (PRESETS[preset] if task == "lm" and preset is not None else {}) | given
    if set(BUDGET) & set(given):
        chosen = {name: value for name, value in chosen.items() if name not in BUDGET or name in given}
    if set(BUDGET) & set(chosen):
        found |= dict.fromkeys(BUDGET)
    if task == "lm" and form is not None:
        by_text = _by_text(form, str(given.get("cell", found["cell"])), chosen)
        found |= {name: value for name, value in by_text.items() if found[name] is not None or name not in BUDGET}
    every = found | chosen
    found["learning_rate"] *= rate_scale(str(every["optimizer"]), str(every["cell"]))
    if task == "lm" and chosen.get("tokens") == "auto":
        chosen["tokens"] = "char"
    if task == "translate" and found["tokens"] == "bpe":
        kinds = ("tokens", "target_tokens")
        if all(chosen.get(name, "auto") == "auto" for name in kinds):
            chosen = {name: value for name, value in chosen.items() if name not in kinds}
        else:  # another kind of token was chosen
            plain = defaults(task)
            found |= {name: plain[name] for name in (*kinds, "vocabulary_size")}
    if "bpe" in (chosen.get("tokens"), chosen.get("target_tokens")) and "vocabulary_size" not in given:
        chosen["vocabulary_size"] = SUBWORDS
    return check(Config(**found | chosen))


def rate_scale(optimizer: str, cell: str) -> float:
    """The default learning rate of an optimizer, as a multiple of Adam's.

    >>> rate_scale("sgd", "lstm"), rate_scale("rmsprop", "rnn")
    (500, 1)
    """
    return RATES.get(optimizer, (1, 1))[cell != "rnn"]


def rate_for(config: Config, optimizer: str, cell: str | None = None) -> float:
    """The learning rate of a config, rescaled for another optimizer or cell."""
    return config.learning_rate * rate_scale(optimizer, cell or config.cell) / rate_scale(config.optimizer, config.cell)


def in_words(tasks: Sequence[str]) -> str:
    """Some of the tasks, in words.

    >>> in_words(OPTIONS["pooling"].tasks)
    'classify and regress'
    """
    if len(others := [task for task in ALL_TASKS if task not in tasks]) == 1:
        return f"all tasks but {others[0]}"
    return " and ".join([", ".join(tasks[:-1]), tasks[-1]]) if tasks[1:] else tasks[0]


OTHER_NAMES = {  # of PyTorch, scikit-learn and widely read code, where they are not similar to the name here
    "bptt_truncate": "bptt_steps",  # bptt_truncate = n is bptt_block = 1 and bptt_steps = n + 1: docs/maths.md, 8
    "truncate": "bptt_steps",
    "seq_length": "window",
    "seq_len": "window",
    "block_size": "window",
    "units": "hidden",
    "nonlinearity": "activation",
    "lr": "learning_rate",
    "eta": "learning_rate",
    "max_norm": "clip_norm",
    "max_grad_norm": "clip_norm",
    "grad_clip": "clip_norm",
    "random_state": "seed",
}


def suggestion(name: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant: the one for another text's `name`, or one that begins with it or is similar.

    >>> suggestion("second", ["sigmoid", "seed", "seconds"])
    'seconds'
    """
    known, same = sorted(names, key=len), OTHER_NAMES.get(name.replace("-", "_"))
    starts = [other for other in known if other.replace("-", "_") == same]
    starts += [other for other in known if other.startswith(name)] if len(name) > 2 else []
    return next(iter(starts or difflib.get_close_matches(name, known, 1, 0.7)), None)


# -- checks -----------------------------------------------------------------------------------------------------------


def check(config: Config) -> Config:
    """Return the config if every value is valid; else raise ArgumentError."""
    for name in OPTIONS:
        check_value(name, getattr(config, name))
    if config.k1 > config.window:
        raise RangeError(written("bptt_block"), expected=f"at most the window, {config.window}", got=config.k1)
    if config.k2 < config.k1:
        expected = f"at least {written('bptt_block')}, {config.k1}"
        raise RangeError(written("bptt_steps"), expected=expected, got=config.k2)
    for name, option in OPTIONS.items():
        value, default = getattr(config, name), getattr(Config, name, None)
        if config.cell in get_args(CellName) and config.cell not in option.cells and value != default:
            raise ArgumentError(
                f"{written(name)} does not apply to cell {config.cell}",
                got=repr(value),
                do=f"Leave it out, or choose cell {' or '.join(option.cells)}.",
            )
    check_budget([name for name in BUDGET if getattr(config, name) is not None])
    return config


def check_budget(given: Iterable[str]) -> None:
    """Raise ArgumentError if more than one of the options that say how long to train is given."""
    names = [written(name) for name in BUDGET]
    if len(budgets := [written(name) for name in BUDGET if name in given]) > 1:
        expected = f"one of {names[0]}, {names[1]} and {names[2]}"
        raise ArgumentError("training time", expected=expected, got=" and ".join(budgets))


def kind_of(name: str) -> tuple[Any, bool]:
    """The type of an option, without None, and whether it may be None.

    >>> kind_of("steps")
    (<class 'int'>, True)
    """
    hint = _hints()[name]
    kinds = get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,)
    return kinds[0], NoneType in kinds


def choices_of(name: str) -> tuple[str, ...]:
    """The names that an option can have as its value; empty if its values are numbers or text.

    >>> choices_of("cell")
    ('rnn', 'gru', 'lstm')
    """
    kind, _ = kind_of(name)
    return get_args(kind) if get_origin(kind) is Literal else ()


@cache
def _hints() -> dict[str, Any]:
    return get_type_hints(Config)


def bounds(name: str) -> str:
    """The bounds of an option's value, in words.

    >>> bounds("dropout")
    'at least 0 and below 1'
    """
    option = OPTIONS[name]
    limits = {"above": option.above, "at least": option.least, "below": option.below, "at most": option.most}
    return " and ".join(f"{word} {limit:g}" for word, limit in limits.items() if limit is not None)


def check_value(name: str, value: Any) -> None:
    """Raise ArgumentError unless an option may have this value."""
    kind, optional = kind_of(name)
    if value is None and optional:
        return
    if choices := choices_of(name):
        if value not in choices:
            raise UnknownNameError(written(name), expected=f"one of {', '.join(choices)}", got=repr(value))
        return
    wanted = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[kind]
    fits = isinstance(value, int | float) if kind is float else isinstance(value, kind)
    if not fits or (isinstance(value, bool) and kind is not bool):
        raise ArgumentError(written(name), expected=wanted, got=repr(value))
    if kind not in (bool, str):
        _check_bounds(name, value, wanted)


def _check_bounds(name: str, value: float, wanted: str) -> None:
    option = OPTIONS[name]
    bounds = [
        (text.format(bound), holds(value, bound))
        for bound, text, holds in (
            (option.above, "above {:g}", operator.gt),
            (option.least, "of {:g} or more", operator.ge),
            (option.below, "below {:g}", operator.lt),
            (option.most, "of at most {:g}", operator.le),
        )
        if bound is not None
    ]
    if value != value or abs(value) == math.inf:
        all_bounds = " and ".join(text for text, _ in bounds)
        raise RangeError(written(name), expected=f"a finite number {all_bounds}".rstrip(), got=value)
    for text, holds in bounds:
        if not holds:
            raise RangeError(written(name), expected=f"{wanted} {text}", got=value)
    if abs(value) > LARGEST:
        raise RangeError(written(name), expected=f"{wanted} up to 2^53", got=value)


def is_whole(value: object) -> bool:
    """Whether a value is a whole number, Python's or NumPy's."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_real(value: object) -> bool:
    """Whether a value is a real number, Python's or NumPy's."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _known(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with NumPy's numbers (GridSearchCV passes them) as Python's; an unknown name is an error."""
    for name in options:
        if name not in OPTIONS:
            near = suggestion(name, OPTIONS)
            expected = None if near else f"one of {', '.join(OPTIONS)}"
            do = f"Did you mean {near}?" if near else None
            raise UnknownNameError("option", expected=expected, got=name, do=do)
    return {name: _plain(value) for name, value in options.items()}


def _plain(value: Any) -> Any:
    if type(value).__name__ in ("bool", "bool_"):  # NumPy itself is not imported: it would slow down the command line
        return bool(value)
    return int(value) if is_whole(value) else float(value) if is_real(value) else value


# -- config.json ------------------------------------------------------------------------------------------------------


def to_json(config: Config) -> dict[str, Any]:
    """The entry "config" of config.json: every option with its value."""
    return config.options()


def from_json(value: object) -> Config:
    """The config that to_json wrote; CheckpointError for anything else."""
    if not isinstance(value, Mapping):
        raise CheckpointError("config", expected="an object", got=type(value).__name__)
    missing = [name for name in OPTIONS if name not in value]
    unknown = [str(name) for name in value if name not in OPTIONS]
    if missing or unknown:
        parts = [f"{what}: {', '.join(names)}" for what, names in (("missing", missing), ("unknown", unknown)) if names]
        raise CheckpointError("config", expected="the options of this version", got="; ".join(parts)[:200])
    try:
        with options_as("python"):  # names as they are in the file
            return check(Config(**value))
    except ArgumentError as error:
        raise CheckpointError(f"config: {error}") from None


# -- the service ------------------------------------------------------------------------------------------------------


def check_for_service(options: Mapping[str, Any], task: str = "lm") -> Config:
    """The configuration of a training that the service starts; ArgumentError if a client may not request it.

    Options about files and numbers above `Option.service_most` are errors.
    """
    for name in _known(options):
        if not OPTIONS[name].service:
            raise ArgumentError(f"{written(name)} is about files, and the service reads none")
    config = resolve(task, options)
    for name, option in OPTIONS.items():
        value, most = getattr(config, name), option.service_most
        if most is not None and value is not None and value > most:
            expected = f"at most {most:g} in a training that the service starts"
            raise RangeError(written(name), expected=expected, got=value)
    return config
