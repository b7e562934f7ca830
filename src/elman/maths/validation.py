"""Checks of the arguments of public functions, so that the functions themselves contain only equations.

The shape of an array is a text with the symbols of the formulas:

    T B X              an array (T, B, X); a symbol means the same number in all arguments of a call
    T+1 B H            one step more than T
    … Y                any leading axes, the same in all arguments
    T B :X             an array (T, B) of integer ids below X; for lengths, B :T, of integers up to T
    T B X | T B :X     either

An argument with several arrays has a dict (arrays by name, as p) or, for `out`, a type of gradients such as
RNNGradients, whose field d_W_xh must have the shape that is given for W_xh. An optional argument that is None is not
checked.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

import numpy as np

from elman.errors import ArgumentError, DtypeError, NotFiniteError, RangeError, ShapeError
from elman.maths.activations import get_activation
from elman.maths.arrays import Array

P = ParamSpec("P")
R = TypeVar("R")
OPTIONAL = ("h0", "s0", "d_s_last", "lengths", "h_mask", "weights", "out")  # arguments that may be None
_WHOLE = (int, np.integer)
_NUMBER = (float, np.floating, *_WHOLE)


def checked(function: Callable[P, R], *also: Callable[[dict[str, Any]], None], **shapes: Any) -> Callable[P, R]:
    """The function with a check of its arguments.

    Their shapes, dtypes and values are checked, then all arguments by the functions in `also`.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if "k1" in signature.parameters and kwargs.pop("reverse", False):
            raise ArgumentError("reverse", expected="False: only layers that read forward can be truncated", got=True)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{function.__name__}: {error}", do=f"Its arguments are {signature}") from None
        _Call(bound.arguments).check(shapes)
        for check in also:
            check(bound.arguments)
        return function(*bound.args, **bound.kwargs)

    return wrapper


class _Call:
    """The arguments of one call, and the sizes that the symbols stand for in it."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.arguments = arguments
        self.sizes: dict[str, tuple[Any, str]] = {}  # symbol: its value, the argument that set it
        self.dtype: tuple[Any, str] | None = None

    def check(self, shapes: dict[str, Any]) -> None:
        ids = {}
        for name, shape in shapes.items():
            value = self.arguments.get(name)
            if value is None and (name in OPTIONAL or name not in self.arguments):
                continue
            if isinstance(shape, dict):  # arrays by name
                self._parts(name, value, shape)
                continue
            if isinstance(shape, type):
                self._gradients(value, shape, shapes)
                continue
            if name == "out" and not (isinstance(value, np.ndarray) and value.flags.writeable):
                raise ArgumentError(name, expected="an array that can be written to", got=_type_name(value))
            array = self.arguments[name] = value if isinstance(value, np.ndarray) else self._convert(name, value)
            if bound := self._array(name, array, shape):
                ids[name] = (array, bound)
        for name, (array, bound) in ids.items():
            self._range(name, array, self.sizes[bound][0])
        self._scalars()

    def _parts(self, name: str, value: Any, shapes: dict[str, str]) -> None:
        if not isinstance(value, Mapping):
            raise ArgumentError(name, expected="a mapping of arrays by name", got=_type_name(value))
        for part, shape in shapes.items():
            if not isinstance(value.get(part), np.ndarray):
                raise ArgumentError(f"{name}[{part!r}]", expected="an array", got=_type_name(value.get(part)))
            self._array(part, value[part], shape)

    def _gradients(self, out: Any, kind: type[Any], shapes: dict[str, Any]) -> None:
        """Check each array of the gradients that a backward pass adds to; d_x may be None."""
        if not isinstance(out, kind):
            raise ArgumentError("out", expected=kind.__name__, got=_type_name(out))
        for field, part in zip(kind._fields, out, strict=True):
            if part is None and field == "d_x":
                continue
            if not (isinstance(part, np.ndarray) and part.flags.writeable):
                raise ArgumentError(f"out.{field}", expected="an array that can be written to", got=_type_name(part))
            self._array(f"out.{field}", part, shapes[field.removeprefix("d_")].split("|")[0])

    @staticmethod
    def _convert(name: str, value: Any) -> Array:
        try:
            array = np.asarray(value)
        except (TypeError, ValueError):
            array = np.asarray(None)
        if array.dtype.kind not in "biuf":
            raise DtypeError(name, expected="an array of numbers", got=type(value).__name__)
        return array

    def _array(self, name: str, array: Array, shape: str) -> str | None:
        """Check one array; if it has ids, return the symbol of their upper bound."""
        kinds = [alternative.split() for alternative in shape.split("|")]
        fitting = [symbols for symbols in kinds if self._rank_fits(symbols, array.ndim)]
        if not fitting:
            raise ShapeError(name, expected=self._described(kinds, name), got=f"shape {array.shape}")
        if "…" in self.sizes:  # known leading axes determine the rank
            axes = len(self.sizes["…"][0]) - 1
            exact = [s for s in fitting if "…" not in s or axes + len([n for n in s if n[0] != ":"]) == array.ndim]
            fitting = exact or fitting
        whole = array.dtype.kind in "iu"  # if the rank does not decide, whole numbers are ids
        symbols = next((kind for kind in fitting if whole == any(s.startswith(":") for s in kind)), fitting[0])
        limit = next((s[1:] for s in symbols if s.startswith(":")), None)
        self._sizes(name, array, [s for s in symbols if not s.startswith(":")])
        if limit is not None:
            if not whole:
                raise DtypeError(name, expected=self._described(kinds, name), got=f"dtype {array.dtype}")
            return limit
        if array.dtype.kind != "f":
            raise DtypeError(name, expected="floating-point numbers", got=f"dtype {array.dtype}")
        if self.dtype is None:
            self.dtype = (array.dtype, name)
        elif array.dtype != self.dtype[0]:
            raise DtypeError(
                name, expected=f"dtype {self.dtype[0]}, as {self.dtype[1]} has", got=f"dtype {array.dtype}"
            )
        # NaN in a parameter means divergence and is allowed; NaN in an input is a mistake
        if not name.startswith(("W", "b_", "out")) and np.isnan(array).any():
            where = tuple(int(i) for i in np.argwhere(np.isnan(array))[0])
            raise NotFiniteError(name, expected="numbers", got=f"NaN at {where}")
        return None

    @staticmethod
    def _rank_fits(symbols: list[str], rank: int) -> bool:
        named = [s for s in symbols if not s.startswith(":")]
        return rank >= len(named) - 1 if "…" in named else rank == len(named)

    def _sizes(self, name: str, array: Array, symbols: list[str]) -> None:
        got: list[Any] = list(array.shape)
        if "…" in symbols:
            extra = array.ndim - len(symbols) + 1
            got = [array.shape[:extra], *array.shape[extra:]]
        for symbol, size in zip(symbols, got, strict=True):
            symbol, plus = (symbol[:-2], 1) if symbol.endswith("+1") else (symbol, 0)
            size = size - plus if plus else size
            known, source = self.sizes.setdefault(symbol, (size, name))
            if size == 0 or known != size:
                why = f"{symbol} = {known} from {source}" if known != size else f"{symbol} at least 1"
                raise ShapeError(name, expected=f"({', '.join(symbols)}) with {why}", got=f"shape {array.shape}")

    @staticmethod
    def _described(kinds: list[list[str]], name: str) -> str:
        texts, integers = [], "integers" if name == "lengths" else "integer ids"
        for symbols in kinds:
            named = ", ".join(s for s in symbols if not s.startswith(":"))
            texts.append(f"({named})" + (f" of {integers}" if any(s.startswith(":") for s in symbols) else ""))
        return " or ".join(texts)

    @staticmethod
    def _range(name: str, array: Array, limit: int) -> None:
        top = limit if name == "lengths" else limit - 1
        bad = np.argwhere((array < 0) | (array > top))
        if len(bad):
            where = tuple(int(i) for i in bad[0])
            raise RangeError(name, expected=f"integers from 0 to {top}", got=f"{array[where]} at {where}")

    def _scalars(self) -> None:
        arguments = self.arguments
        if "activation" in arguments:
            get_activation(arguments["activation"])
        for name, least in (("k1", 1), ("k2", arguments.get("k1", 1))):
            value = arguments.get(name, least)
            if not isinstance(value, _WHOLE) or isinstance(value, bool) or value < least:
                bound = "1 or more" if name == "k1" else f"at least k1, which is {least}"
                raise RangeError(name, expected=f"a whole number, {bound}", got=repr(value))
        normalizer = arguments.get("normalizer")
        if normalizer is not None and not (isinstance(normalizer, _NUMBER) and 0 < normalizer < np.inf):
            raise RangeError("normalizer", expected="a number above 0", got=repr(normalizer))


def _type_name(value: object) -> str:
    read_only = isinstance(value, np.ndarray) and not value.flags.writeable
    return f"{'a read-only ' if read_only else ''}{type(value).__name__}"


def cell_parameters(arguments: dict[str, Any]) -> None:
    """Check that the parameters and the state have the shapes of the cell."""
    cell, p = arguments["cell"], arguments["p"]
    for name, shape in cell.shapes(len(p["W_xh"]), len(p["W_hh"])).items():
        if name not in p and "trace" not in arguments:  # a backward pass needs only the weights
            raise ArgumentError(f"p[{name!r}]", expected=f"an array {shape} for cell {cell.name}", got="nothing")
        if name in p and p[name].shape != shape:
            raise ShapeError(f"p[{name!r}]", expected=f"{shape} for cell {cell.name}", got=f"shape {p[name].shape}")
    for name in ("s0", "d_s_last"):
        state = arguments.get(name)
        if state is not None and len(state) != cell.parts:
            expected = f"({cell.parts}, B, H), which is {' and '.join(cell.state_names)}, for cell {cell.name}"
            raise ShapeError(name, expected=expected, got=f"shape {state.shape}")


def distributions(arguments: dict[str, Any]) -> None:
    """Check that targets of a cross-entropy which are not ids are distributions, as d_o = y_hat - y needs."""
    o, y = arguments["o"], arguments["y"]
    if y.ndim == o.ndim and not ((y >= 0).all() and np.allclose(y.sum(axis=-1), 1, atol=1e-4)):
        raise RangeError(
            "y",
            expected="distributions: numbers of 0 or more that add up to 1 along the last axis",
            got="negative numbers" if (y < 0).any() else "other sums",
        )


def named_arrays(arguments: dict[str, Any]) -> None:
    """Check the arguments of clip_by_norm and sgd_step: arrays of numbers by name, those of both mappings alike."""
    d = arguments["gradients"]
    p = arguments.get("parameters", d)
    for argument, arrays in (("gradients", d), ("parameters", p)):
        if not isinstance(arrays, Mapping) or not arrays:
            raise ArgumentError(argument, expected="a mapping of arrays by name", got=_type_name(arrays))
        for name, array in arrays.items():
            if getattr(array, "dtype", np.dtype(bool)).kind != "f":
                got = getattr(array, "dtype", type(array).__name__)
                raise DtypeError(f"{argument}[{name!r}]", expected="an array of floating-point numbers", got=got)
    for name, array in p.items():
        if name not in d or d[name].shape != array.shape:
            got = f"shape {d[name].shape}" if name in d else "nothing"
            raise ShapeError(f"gradients[{name!r}]", expected=f"shape {array.shape} of the parameter", got=got)
    for name in {"limit", "rate"} & set(arguments):
        if not isinstance(arguments[name], _NUMBER) or not arguments[name] > 0:
            raise RangeError(name, expected="a number above 0", got=repr(arguments[name]))
