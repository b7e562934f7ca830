"""The arguments of the models: the options of elman.config that their task has, and a few of their own.

The table in elman.config is the only place that says what an option is. `Options` adds what a type checker and an
editor must see before anything runs: all options with their types. At run time each class takes its own ones only.
"""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

from elman.config import (
    BUDGET,
    BY_FORM,
    OPTIONS,
    Activation,
    Attention,
    CellName,
    Dtype,
    Optimizer,
    Pooling,
    RecurrentInit,
    Schedule,
    Sequences,
    Tokens,
    bounds,
    choices_of,
    defaults,
    kind_of,
    suggestion,
)

OWN = {  # arguments that are no options: their type and meaning
    "class_weight": (
        'dict or "balanced", optional',
        'Weight of each class; "balanced" weights classes by the inverse of their frequency.',
    ),
    "preset": (
        '{"fast", "default", "best", "textbook"}, optional',
        "Half a minute, five minutes or 50 minutes, or the plain network of textbooks (docs/options.md); options "
        "with other values than their defaults override it.",
    ),
    "random_state": ("int, RandomState instance or None, default=None", "Seed of all random numbers; None draws one."),
}
CELLS = choices_of("cell")
Model = TypeVar("Model")
_optional: Any = None  # a type checker takes it for a default


@dataclass_transform(kw_only_default=True)
def _typed(kind: type[Model]) -> type[Model]:
    """For type checkers, a class whose constructor takes its annotated attributes; at run time it has none of them."""
    for name in kind.__annotations__:
        delattr(kind, name)
    return kind


@_typed
class Options:
    """Every argument of every model, by name; each class takes those of its task."""

    tokens: Tokens = _optional
    target_tokens: Tokens = _optional
    lowercase: bool | None = _optional
    sequences: Sequences = _optional
    encoding: str = _optional
    keep_boilerplate: bool = _optional
    vocabulary_size: int | None = _optional
    min_count: int = _optional
    unk_dropout: float | None = _optional
    standardize: bool = _optional
    validation_fraction: float | None = _optional
    test_fraction: float = _optional
    hidden: int | None = _optional
    layers: int | None = _optional
    cell: CellName | None = _optional
    activation: Activation = _optional
    bidirectional: bool | None = _optional
    pooling: Pooling | None = _optional
    embedding: int | None = _optional
    learned_state: bool = _optional
    attention: Attention = _optional
    dropout: float | None = _optional
    input_dropout: float | None = _optional
    recurrent_dropout: float | None = _optional
    recurrent_init: RecurrentInit = _optional
    recurrent_init_scale: float = _optional
    input_init_scale: float = _optional
    forget_bias: float = _optional
    dtype: Dtype = _optional
    epochs: float | None = _optional
    steps: int | None = _optional
    seconds: float | None = _optional
    batch_size: int | None = _optional
    window: int | None = _optional
    bptt_block: int | None = _optional
    bptt_steps: int | None = _optional
    accumulate: int = _optional
    clip_norm: float = _optional
    clip_value: float = _optional
    patience: int | None = _optional
    retries: int = _optional
    seed: int = _optional
    optimizer: Optimizer | None = _optional
    learning_rate: float | None = _optional
    schedule: Schedule = _optional
    warmup_steps: int = _optional
    final_rate_fraction: float = _optional
    decay_factor: float = _optional
    decay_every: int = _optional
    plateau_patience: int = _optional
    beta1: float = _optional
    beta2: float = _optional
    epsilon: float = _optional
    weight_decay: float | None = _optional
    validate_every: int = _optional
    save_every: int = _optional
    log_every: int = _optional
    sample_every: int | None = _optional
    snapshot_every: int = _optional
    class_weight: dict[Any, float] | str | None = _optional
    preset: str | None = _optional
    random_state: Any = _optional


def arguments(task: str) -> dict[str, Any]:
    """The options that the class of a task takes, with their defaults; None: they depend on data or budget."""
    found = defaults(task) | dict.fromkeys((*BUDGET, *BY_FORM.get(task, ())))
    if task != "lm":
        found["validation_fraction"] = 0.0  # fit trains on all examples unless told otherwise
    return {
        name: found[name]
        for name, option in OPTIONS.items()
        if task in option.tasks and (option.argument or task == "lm")
    }


def takes_options(task: str, *own: str) -> Callable[[type[Model]], type[Model]]:
    """A class decorator: the constructor takes and stores the options of a task, and these other arguments."""
    known = arguments(task) | dict.fromkeys(own)

    def __init__(self: Any, *args: Any, **options: Any) -> None:
        kind = type(self).__name__
        if args:
            raise TypeError(f"{kind} takes its options by name. For instance: {kind}(hidden=64)")
        for name in options:
            if name not in known:
                near = suggestion(name, known)
                do = f"Did you mean {near}?" if near else f"help({kind}.__init__) lists them."
                raise TypeError(f"{kind} has no option {name!r}. {do}")
        self.__dict__.update(known | options)

    def decorate(kind: type[Model]) -> type[Model]:
        shown = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value) for name, value in known.items()
        ]
        this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        __init__.__qualname__ = f"{kind.__name__}.__init__"
        __init__.__signature__ = inspect.Signature([this, *shown])  # type: ignore[attr-defined]
        __init__.__doc__ = _documentation(kind.__name__, task, known)
        kind.__init__ = __init__  # type: ignore[method-assign]
        return kind

    return decorate


def _documentation(kind: str, task: str, known: dict[str, Any]) -> str:
    lines = [f"The options of `{kind}`.", "", "Parameters", "----------"]
    for name, default in known.items():
        what, text = OWN[name] if name in OWN else (_described_type(name, default), _described(name, task))
        lines += [f"{name} : {what}", *textwrap.wrap(text, 104, initial_indent="    ", subsequent_indent="    ")]
    return "\n".join(lines)


def _described_type(name: str, default: Any) -> str:
    """The type of a parameter in the style of numpydoc."""
    choices = choices_of(name)
    text = f"{{{', '.join(map(json.dumps, choices))}}}" if choices else kind_of(name)[0].__name__
    shown = json.dumps(default) if isinstance(default, str) else repr(default)
    return f"{text} or None, default=None" if default is None else f"{text}, default={shown}"


def _described(name: str, task: str) -> str:
    """What an option is, with its bounds, and what None stands for."""
    option = OPTIONS[name]
    text = f"{sentence(option.help)} {sentence(bounds(name))}".strip()
    if name == "epochs":
        by_data = " or by the data" if name in BY_FORM.get(task, ()) else ""
        text += f" None: {defaults(task)['epochs']:g}{by_data}, unless steps or seconds is given."
    elif name in BY_FORM.get(task, ()):
        text += " None: depends on the data (docs/options.md)."
    return text if option.cells == CELLS else f"{text} For cell {' and '.join(option.cells)}."


def sentence(text: str) -> str:
    """A text with a capital letter and a period, unless it is empty."""
    return text and f"{text[0].upper()}{text[1:]}."
