"""The checker of the lab: calls a function on three problems, then on special cases, and reports what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from elman.errors import ElmanError
from elman.lab.gaps import GAPS, Function, Gap, Values, load_solutions, problems, special_cases
from elman.lab.mistakes import Mistake
from elman.maths import Array

TOLERANCE = 1e-6  # times |entry| + |largest entry|


class Verdict(NamedTuple):
    """The result of the checker for one gap.

    Attributes
    ----------
    gap : str
        The name of the function.
    kind : str
        "right"; "wrong"; "shape": a result of another shape or type, or another number of results; "error": the
        function raised an exception, ended the process or exceeded a limit; "missing": the function is not written yet.
    message : str
        The message for the student.
    mistakes : tuple of str
        `Mistake.says` of each known mistake that gives the same results.
    printed : str
        The beginning of what the function printed.
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
    """Check a function on three problems and, if it is right there, on special cases.

    During the check the module of the function has the solutions of all other gaps, so that a mistake in one gap does
    not affect another.

    Parameters
    ----------
    gap : Gap
        What the function should compute.
    function : callable
        The student's function.
    seed : int
        Seed of the random problems.

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
    verdict = _compare(gap, function, tried)
    special = special_cases(gap, tried[0]) if verdict.right else ()
    return _compare(gap, function, [*tried, *special]) if special else verdict


def _compare(gap: Gap, function: Function, tried: Sequence[Values]) -> Verdict:
    found = [_results(gap, function, values) for values in tried]
    right = [_results(gap, gap.right(), values) for values in tried]
    return _verdict(gap, tried, found, right)


def _results(gap: Gap, function: Function, values: Values) -> list[Array]:
    """What a function returns for a problem, as one array for each name in gap.results."""
    try:
        result = gap.call(function, values)
    except Exception as error:
        error.add_note(values["case"])
        raise
    if result is None or result is Ellipsis:
        raise _WrongShape("it returns nothing", do=f"Return {' and '.join(gap.results)}.")
    if gap.name == "clip":
        return [_flat(result, values["gradients"])]
    if gap.name == "lstm_gate_gradients":
        return _blocks(_array("d_a", result), values)
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
    """All arrays of a list as one vector: clipping uses their common norm."""
    if not isinstance(result, list | tuple) or len(result) != len(gradients):
        got = f"{len(result)}" if isinstance(result, list | tuple) else type(result).__name__
        raise _WrongShape("gradients", expected=f"a list of {len(gradients)} arrays", got=got)
    arrays = [_array("gradients", value) for value in result]
    for array, gradient in zip(arrays, gradients, strict=True):
        if array.shape != gradient.shape:
            raise _WrongShape("an array of gradients", expected=f"shape {gradient.shape}", got=f"shape {array.shape}")
    return np.concatenate([array.ravel() for array in arrays])


def _blocks(d_a: Array, values: Values) -> list[Array]:
    """The part of d_a of each gate, so that each gate is checked separately."""
    if d_a.shape != values["d_a"].shape:
        hint = "It is transposed." if d_a.shape == values["d_a"].shape[::-1] else None
        raise _WrongShape("wrong shape of d_a", expected=values["d_a"].shape, got=d_a.shape, do=hint)
    return np.split(d_a, 4, axis=1)


def _equal(a: Array, b: Array) -> bool:
    size = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
    return a.shape == b.shape and np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * size, equal_nan=True)


def _verdict(gap: Gap, tried: Sequence[Values], found: Sequence[list[Array]], right: Sequence[list[Array]]) -> Verdict:
    numbers = range(len(gap.results))

    def same(a: Sequence[list[Array]], b: Sequence[list[Array]], number: int, other: int | None = None) -> bool:
        """Whether result `number` of `a` equals result `other` (by default `number`) of `b` in all problems."""
        other = number if other is None else other
        return all(_equal(some[number], wanted[other]) for some, wanted in zip(a, b, strict=True))

    wrong = [number for number in numbers if not same(found, right, number)]
    if not wrong:
        return Verdict(gap.name, "right", "right")
    sentences = []
    explained: dict[Mistake, set[int]] = {}
    for mistake in gap.mistakes:
        results = [_results(gap, gap.wrong(mistake), values) for values in tried]
        changed = [number for number in numbers if not same(results, right, number)]
        if set(changed) <= set(wrong):  # else the student would have another result wrong too: it is not this mistake
            equal = [number for number in changed if same(found, results, number)]
            # many mistakes give zeros, so zeros count only if this mistake explains all that is wrong
            zeros = {number for number in equal if not any(some[number].any() for some in results)}
            explained[mistake] = set(equal) if changed == wrong == equal else set(equal) - zeros
    named, left = [], set(wrong)
    while any(left & some for some in explained.values()):  # next: the mistake that explains most of what is left
        counts = {mistake: len(left & some) for mistake, some in explained.items()}
        mistake = max(counts, key=counts.__getitem__)
        names = [gap.results[number] for number in sorted(left & explained[mistake])]
        place = f"docs/maths.md, section {mistake.section}"
        number = min(left & explained[mistake])
        got, expected = found[0][number].shape, right[0][number].shape
        shapes = f" (expected shape {expected}, got {got})" if got != expected else ""
        sentences.append(f"your {_listed(names)} what you get if {mistake.says}{shapes}: {place}")
        named.append(mistake.says)
        left -= explained[mistake]
    for one, other in combinations(sorted(left), 2):
        if same(found, right, one, other) and same(found, right, other, one):
            sentences.append(f"your {gap.results[one]} and {gap.results[other]} are exchanged")
            left -= {one, other}
    cases, shape = [_case(gap, values) for values in tried], False
    for number in wrong:
        pairs = [(some[number], other[number]) for some, other in zip(found, right, strict=True)]
        shape = shape or any(some.shape != other.shape for some, other in pairs)
        if number in left:
            sentences.append(f"your {gap.results[number]} {_difference(pairs, cases)}")
    return Verdict(gap.name, "shape" if shape else "wrong", f"wrong: {'; '.join(sentences)}", tuple(named))


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]} are" if len(names) > 1 else f"{names[0]} is"


def _case(gap: Gap, values: Values) -> str:
    case: str = values["case"]
    return f"{case} (T = {len(values['x'])}, k = {values['k']})" if "k" in gap.arguments and "k =" not in case else case


def _difference(pairs: Sequence[tuple[Array, Array]], cases: Sequence[str]) -> str:
    """How a wrong result differs from the right one, if no known mistake gives it."""
    for found, right in pairs:
        if found.shape != right.shape:
            hint = ". It is transposed." if found.shape == right.shape[::-1] else ""
            return f"has the wrong shape: expected {right.shape}, got {found.shape}{hint}"
    for (found, _), case in zip(pairs, cases, strict=True):
        if not np.isfinite(found).all():
            return f"contains NaN or infinity {case}"
    if not any(found.any() for found, _ in pairs):
        return "is zero everywhere"
    if all(_equal(found, -right) for found, right in pairs):
        return "has the wrong sign"
    if all(found.ndim == 2 and found.shape[0] == found.shape[1] and _equal(found.T, right) for found, right in pairs):
        return "is transposed"
    sizes = [float(np.sum(right * right)) for _, right in pairs]
    if pairs[0][0].ndim and all(sizes):
        factors = [float(np.sum(found * right)) / size for (found, right), size in zip(pairs, sizes, strict=True)]
        if all(_equal(found, factor * right) for factor, (found, right) in zip(factors, pairs, strict=True)):
            shown = ", ".join(f"{factor:.3g}" if abs(factor - 1) > 0.01 else f"{factor:.9g}" for factor in factors)
            return f"has the right direction but the wrong size: {shown} times the right one ({', '.join(cases)})"
    errors = [np.linalg.norm(found - right) / (np.linalg.norm(right) or 1.0) for found, right in pairs]
    number = int(np.argmax(errors))
    found, right = pairs[number]
    worst = np.unravel_index(np.argmax(np.abs(found - right)), found.shape)
    where = f"at [{', '.join(map(str, worst))}]: " if found.ndim else ""
    digits = 6 if errors[number] > 1e-4 else 9
    values = f"{found[worst]:.{digits}g} instead of {right[worst]:.{digits}g}"
    return (
        f"differs from the right one by {errors[number]:.2g} of its norm {cases[number]}, "
        f"and no known mistake gives it (largest difference {where}{values})"
    )
