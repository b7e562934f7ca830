"""The gradient check: analytic gradients compared with central differences.

    numeric = (L(p + ε·v) - L(p - ε·v)) / 2ε      compared with      analytic = Σ d_p · v

For a small array every entry is checked (v is each unit vector in turn). For a large one v is random, several times: a
wrong entry changes Σ d_p · v each time. The arrays must be float64: in float32 the differences are smaller than the
rounding errors.

Names in brackets at the ends of comments, such as [slope], mark quoted lines: see elman/maths/__init__.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from elman.errors import DtypeError, GradientError, ShapeError
from elman.maths.arrays import Array

EVERY_ENTRY_UP_TO = 64  # entries; larger arrays are checked along DIRECTIONS random directions
DIRECTIONS = 16
EPSILON = 1e-5  # the errors from rounding (ROUNDING / ε) and from the third derivative (ε²) are about equal
ROUNDING = 1e-15  # of a loss of about 1 in float64: a few units in the last place, because it is a sum
TOLERANCE = 1e-6


class Row(NamedTuple):
    """The largest error that was found in one array.

    Attributes
    ----------
    name : str
        The name of the array.
    where : str
        The index of the entry, or the number of a random direction; "-" if every error is exactly 0.
    analytic, numeric : float
        The two derivatives.
    error : float
        Their relative difference. Tiny derivatives are compared on a larger scale than their own, because of rounding.
    """

    name: str
    where: str
    analytic: float
    numeric: float
    error: float


class GradientCheck(NamedTuple):
    """The result of `gradcheck`.

    Attributes
    ----------
    rows : list of Row
        The largest error in each array.
    tolerance : float
        The largest relative error that passes.
    """

    rows: list[Row]
    tolerance: float

    @property
    def error(self) -> float:
        """The largest relative error of all rows."""
        return float(np.max([row.error for row in self.rows], initial=0.0))  # NaN if one of them is NaN

    @property
    def passed(self) -> bool:
        """Whether every gradient is within the tolerance."""
        return all(row.error <= self.tolerance for row in self.rows)  # NaN does not pass [passed]

    def __str__(self) -> str:
        width = max(len(row.name) for row in self.rows)
        lines = [f"{'':{width}}  {'worst at':>12} {'analytic':>14} {'numeric':>14} {'relative error':>15}"]
        for name, where, analytic, numeric, error in self.rows:
            mark = "" if error <= self.tolerance else "  WRONG"
            lines.append(f"{name:{width}}  {where:>12} {analytic:14.6e} {numeric:14.6e} {error:15.1e}{mark}")
        return "\n".join(lines)

    def expect(self) -> GradientCheck:
        """Raise GradientError with the report unless every gradient is within the tolerance.

        Returns
        -------
        GradientCheck
            Itself.
        """
        if not self.passed:
            raise GradientError(f"gradients differ from central differences by more than {self.tolerance}:\n{self}")
        return self


def gradcheck(
    loss: Callable[[], float],
    arrays: Mapping[str, Array],
    gradients: Mapping[str, Array],
    *,
    rng: np.random.Generator | None = None,
    epsilon: float = EPSILON,
    tolerance: float = TOLERANCE,
) -> GradientCheck:
    """Compare gradients with central differences of a loss.

    Parameters
    ----------
    loss : function
        loss() computes the loss from the current values of the arrays.
    arrays : mapping of arrays, float64
        The arrays with respect to which the loss is differentiated; changed in place and restored.
    gradients : mapping of arrays
        The gradients to check, by the same names and of the same shapes.
    rng : numpy.random.Generator, optional
        Source of the random directions along which large arrays are checked.
    epsilon : float
        The step ε of the central differences.
    tolerance : float
        The largest relative error that passes.

    Returns
    -------
    GradientCheck
        A table; `.passed` tells whether all gradients are right, `.expect()` raises GradientError if one is wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> x = np.array([1.0, -2.0])
    >>> maths.gradcheck(lambda: float((x**3).sum()), {"x": x}, {"x": 3 * x**2}).passed
    True
    """
    rng = np.random.default_rng(0) if rng is None else rng
    rounding = ROUNDING * max(1.0, abs(loss()))
    rows = []
    for name, array in arrays.items():
        d_array = gradients[name]
        if d_array.shape != array.shape:
            raise ShapeError(f"gradient of {name}", expected=f"shape {array.shape}", got=f"shape {d_array.shape}")
        if array.dtype != np.float64:
            raise DtypeError(name, expected="float64, for precise differences", got=f"dtype {array.dtype}")
        # the error is relative to at least this: otherwise a tiny derivative would fail because of rounding errors
        floor = 1e-3 * float(np.abs(d_array[np.isfinite(d_array)]).max(initial=0)) + rounding / (epsilon * tolerance)
        worst = Row(name, "-", 0.0, 0.0, 0.0)
        for where, v in _directions(array, rng):
            numeric = _slope(loss, array, v, epsilon)
            analytic = float(d_array[v != 0] @ v[v != 0])  # a NaN in another entry must not count here
            error = abs(analytic - numeric) / max(abs(analytic), abs(numeric), floor)
            if not (error <= worst.error or np.isnan(worst.error)):  # the first NaN stays the worst
                worst = Row(name, where, analytic, numeric, error)
        rows.append(worst)
    return GradientCheck(rows, tolerance)


def _directions(array: Array, rng: np.random.Generator) -> Iterator[tuple[str, Array]]:
    if array.size <= EVERY_ENTRY_UP_TO:
        for index in np.ndindex(array.shape):
            v = np.zeros_like(array)
            v[index] = 1
            yield str(list(index)), v
    else:
        for number in range(DIRECTIONS):
            v = rng.standard_normal(array.shape)
            yield f"direction {number}", v / np.linalg.norm(v)


def _slope(loss: Callable[[], float], array: Array, v: Array, epsilon: float) -> float:
    kept = array.copy()
    array += epsilon * v
    above = loss()
    array[...] = kept - epsilon * v
    below = loss()
    array[...] = kept  # [restored]
    return (above - below) / (2 * epsilon)  # [slope]
