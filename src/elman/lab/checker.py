"""The checker: try a function on three problems, and say what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from elman.errors import ElmanError
from elman.lab.gaps import GAPS, Function, Gap, Values, large_logits, load_solutions, problems
from elman.lab.mistakes import Mistake
from elman.maths import Array

TOLERANCE = 1e-6  # relative to the largest entry


class Verdict(NamedTuple):
    """What the checker says about one gap.

    Attributes
    ----------
    gap : str
        The name of the function.
    kind : str
        "right", "wrong", "shape", "error" or "missing".
    message : str
        One or several sentences for the student.
    mistakes : tuple of str
        What the known mistakes are that give the same results; empty where there are none.
    printed : str
        What the function printed.
    """

    gap: str
    kind: str
    message: str
    mistakes: tuple[str, ...] = ()
    printed: str = ""

    @property
    def right(self) -> bool:
        """Whether the function is right."""
        return self.kind == "right"

    def __str__(self) -> str:
        return f"{self.gap}: {self.message}"


class _WrongShape(ElmanError):
    """A result that cannot be compared with the right one."""


def judge(gap: Gap, function: Function, seed: int = 0) -> Verdict:
    """Try a function on the three problems of a gap.

    The function's module gets the solutions of all other gaps, so that a mistake in one does not show in another.

    Parameters
    ----------
    gap : Gap
        What the function should compute.
    function : callable
        The student's function.
    seed : int
        Draws the problems.

    Returns
    -------
    Verdict
    """
    solutions = load_solutions(gap.file)
    others = {name: solutions[name] for name in solutions if name != gap.name and name in GAPS}
    namespace = getattr(function, "__globals__", {})
    before = dict(namespace)
    namespace.update(others)
    try:
        with np.errstate(all="ignore"):
            return _try(gap, function, list(problems(gap.file, seed)))
    except NotImplementedError:
        return Verdict(gap.name, "missing", "not written yet")
    except _WrongShape as error:
        return Verdict(gap.name, "shape", str(error))
    finally:
        namespace.clear()
        namespace.update(before)


def _try(gap: Gap, function: Function, tried: list[Values]) -> Verdict:
    found = [_results(gap, function, values) for values in tried]
    right = [_results(gap, gap.right(), values) for values in tried]
    if gap.name == "softmax" and all(_equal(some[0], other[0]) for some, other in zip(found, right, strict=True)):
        tried.append(large_logits(tried[0]))
        found.append(_results(gap, function, tried[-1]))
        right.append(_results(gap, gap.right(), tried[-1]))
    _compare_shapes(gap, found, right)
    return _verdict(gap, tried, found, right)


def _results(gap: Gap, function: Function, values: Values) -> list[Array]:
    """What a function returns for a problem, as one array for each name in gap.results."""
    result = gap.call(function, values)
    if result is None or result is Ellipsis:
        raise _WrongShape("it returns nothing", do=f"Return {' and '.join(gap.results)}.")
    if gap.name == "clip":
        return [_flat(result, values["gradients"])]
    if len(gap.results) == 1:
        return [_array(gap.results[0], result)]
    if isinstance(result, dict):
        missing = [name for name in gap.results if name not in result]
        if missing:
            raise _WrongShape("the results", expected=", ".join(gap.results), got=f"no {', '.join(missing)}")
        result = [result[name] for name in gap.results]
    if not isinstance(result, tuple | list) or len(result) != len(gap.results):
        count = len(result) if isinstance(result, tuple | list) else 1
        raise _WrongShape("the number of results", expected=f"{len(gap.results)} ({', '.join(gap.results)})", got=count)
    return [_array(name, value) for name, value in zip(gap.results, result, strict=True)]


def _array(name: str, value: Any) -> Array:
    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise _WrongShape(name, expected="an array of numbers", got=type(value).__name__) from None


def _flat(result: Any, gradients: list[Array]) -> Array:
    """All arrays of a list as one vector: clipping is about all of them."""
    if not isinstance(result, list | tuple) or len(result) != len(gradients):
        raise _WrongShape("gradients", expected=f"a list of {len(gradients)} arrays", got=type(result).__name__)
    arrays = [_array("gradients", value) for value in result]
    for array, gradient in zip(arrays, gradients, strict=True):
        if array.shape != gradient.shape:
            raise _WrongShape("an array of gradients", expected=f"shape {gradient.shape}", got=f"shape {array.shape}")
    return np.concatenate([array.ravel() for array in arrays])


def _compare_shapes(gap: Gap, found: Sequence[list[Array]], right: Sequence[list[Array]]) -> None:
    for number, name in enumerate(gap.results):
        got, expected = found[0][number].shape, right[0][number].shape
        hint = "It is transposed." if got == expected[::-1] != expected else None
        for some, wanted in zip(found, right, strict=True):
            if some[number].shape != wanted[number].shape:
                raise _WrongShape(f"wrong shape of {name}", expected=expected, got=got, do=hint)


def _equal(a: Array, b: Array) -> bool:
    size = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
    return a.shape == b.shape and np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * size, equal_nan=True)


def _verdict(gap: Gap, tried: Sequence[Values], found: Sequence[list[Array]], right: Sequence[list[Array]]) -> Verdict:
    def same(number: int, results: Sequence[list[Array]]) -> bool:
        return all(_equal(some[number], other[number]) for some, other in zip(found, results, strict=True))

    wrong = [number for number in range(len(gap.results)) if not same(number, right)]
    if not wrong:
        return Verdict(gap.name, "right", "right")
    known = {mistake: [_results(gap, gap.wrong(mistake), values) for values in tried] for mistake in gap.mistakes}
    named: dict[int, Mistake] = {}
    for mistake, results in known.items():  # one mistake that explains everything comes before several
        if all(same(number, results) for number in range(len(gap.results))):
            named = dict.fromkeys(wrong, mistake)
            break
    else:
        for number in wrong:
            for mistake, results in known.items():
                if same(number, results):
                    named.setdefault(number, mistake)
    sentences = []
    for mistake in dict.fromkeys(named.values()):
        names = [gap.results[number] for number in wrong if named.get(number) is mistake]
        verb = "is" if len(names) == 1 else "are"
        shown = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
        place = f"docs/maths.md, section {mistake.section}"
        sentences.append(f"your {shown} {verb} what you get if {mistake.says}: {place}")
    for number in wrong:
        if number not in named:
            pair = [(some[number], other[number]) for some, other in zip(found, right, strict=True)]
            sentences.append(f"your {gap.results[number]} {_difference(pair)}")
    says = tuple(mistake.says for mistake in dict.fromkeys(named.values()))
    return Verdict(gap.name, "wrong", f"wrong: {'; '.join(sentences)}", says)


def _difference(pairs: Sequence[tuple[Array, Array]]) -> str:
    """How a wrong result differs from the right one, where the table knows no mistake that gives it."""
    if not all(np.isfinite(found).all() for found, _ in pairs):
        return "contains NaN or infinity"
    if all(_equal(found, -right) for found, right in pairs):
        return "has the wrong sign"
    if all(found.ndim == 2 and found.shape[0] == found.shape[1] and _equal(found.T, right) for found, right in pairs):
        return "is transposed"
    factors = [float(np.sum(found * right) / np.sum(right * right)) for found, right in pairs]
    if all(_equal(found, factor * right) for factor, (found, right) in zip(factors, pairs, strict=True)):
        shown = ", ".join(f"{factor:.3g}" for factor in factors)
        return f"has the right direction but the wrong size: {shown} times the right one in the three problems"
    found, right = pairs[0]
    error = np.linalg.norm(found - right) / np.linalg.norm(right)
    worst = np.unravel_index(np.argmax(np.abs(found - right)), found.shape)
    where = f"[{', '.join(map(str, worst))}]" if found.ndim else ""
    return (
        f"differs from the right one by {error:.2g} of its norm, and no known mistake gives it "
        f"(largest difference{f' at {where}' if where else ''}: {found[worst]:.6g} instead of {right[worst]:.6g})"
    )
