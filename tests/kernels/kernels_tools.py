"""Shared by the tests of the kernels: trials of any shape and layout, guarded arrays, other processes."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from elman.kernels import recurrence
from elman.maths import truncation
from elman.maths.cells import rnn

ROOT = Path(__file__).resolve().parents[2]
FLOATS = (np.float32, np.float64)
HIDDEN = (1, 31, 32, 33, 47, 48, 49, 100, 130)  # around the width of every panel: 8, 16 or 32 columns
LAYOUTS = ("C", "F", "every second", "middle")
IDS = (np.int64, np.int32, np.uint8, np.uint16, np.intp)
# float64: 1e-10 leaves room for sums in another order. float32: an entry of a product is a chain of at most K + 1
# rounded additions and one of a gradient adds T·B of them; with at most 130 + 85 here, each off by 2^-24 of the
# largest partial sum, and up to five steps that may double what came in, 2e-4 of the largest entry is a tight
# bound.
TOLERANCE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 2e-4}


# the functions of maths with the compiled time loop
rnn_forward = partial(rnn.rnn_forward, forward=recurrence.cell_forward)
rnn_backward = partial(rnn.rnn_backward, backward=recurrence.cell_backward)
truncated_backward = partial(truncation.truncated_backward, backward=recurrence.cell_backward)


def assert_close(ours: Any, theirs: Any, dtype: Any, what: str = "") -> None:
    """Within the tolerance of the dtype, relative to the largest entry."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape, what
    size = max(1.0, float(np.abs(theirs).max(initial=0)))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE[np.dtype(dtype)] * size, err_msg=what)


def same_bits(a: Any, b: Any) -> bool:
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def laid_out(array: np.ndarray, layout: str) -> np.ndarray:
    """The same numbers in another memory layout; the gaps between them hold NaN, or a large id."""
    if layout == "C" or not array.ndim:
        return array
    if layout == "F":
        return np.asfortranarray(array)
    wide = array.shape[-1] * 2 + 3
    other = np.nan if array.dtype.kind == "f" else np.iinfo(array.dtype).max
    buffer = np.full((*array.shape[:-1], wide), other, array.dtype)
    view = buffer[..., 1 : 1 + 2 * array.shape[-1] : 2] if layout == "every second" else buffer[..., 2 : wide - 1]
    view = view[..., : array.shape[-1]]
    view[...] = array
    return view


@dataclass
class Trial:
    """The arguments of one call of rnn_forward, and a direct gradient on every state."""

    x: np.ndarray
    h0: np.ndarray | None
    W_xh: np.ndarray
    W_hh: np.ndarray
    b_h: np.ndarray
    d_h_direct: np.ndarray
    options: dict[str, Any]

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.x, self.h0, self.W_xh, self.W_hh, self.b_h

    @property
    def exact(self) -> Trial:
        """The same numbers in float64."""
        return self._map(lambda a: a.astype(np.float64) if a.dtype.kind == "f" else a)

    def laid_out(self, layout: str) -> Trial:
        return self._map(lambda a: laid_out(a, layout))

    def _map(self, change: Callable[[np.ndarray], np.ndarray]) -> Trial:
        def each(value: Any) -> Any:
            return change(value) if isinstance(value, np.ndarray) else value

        parts = {name: each(value) for name, value in vars(self).items()}
        return replace(self, **parts | {"options": {name: each(value) for name, value in self.options.items()}})


def make(
    seed: int, T: int, B: int, X: int, H: int, dtype: Any = np.float64, *, activation: str = "tanh", ids: Any = None,
    ragged: bool = False, reverse: bool = False, masked: bool = False, initial: bool = True,
) -> Trial:  # fmt: skip
    rng = np.random.default_rng(seed)

    def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
        return (rng.standard_normal(shape) * scale).astype(dtype)

    return Trial(
        x=normal(T, B, X) if ids is None else rng.integers(X, size=(T, B)).astype(ids),
        h0=normal(B, H) if initial else None,
        W_xh=normal(X, H, scale=0.7 / np.sqrt(1 if ids else X)),
        W_hh=normal(H, H, scale=0.8 / np.sqrt(H)),
        b_h=normal(H, scale=0.3),
        d_h_direct=normal(T, B, H),
        options={
            "activation": activation,
            "lengths": rng.integers(0, T + 1, size=B) if ragged else None,
            "reverse": reverse,
            "h_mask": (rng.integers(2, size=(B, H)) * 2).astype(dtype) if masked else None,
        },
    )


@st.composite
def trials(draw: st.DrawFn) -> Trial:
    flag = st.booleans()
    trial = make(
        draw(st.integers(0, 2**32)), draw(st.sampled_from((1, 2, 3, 5))),
        draw(st.sampled_from((1, 2, 3, 5, 6, 7, 11, 13, 14, 15, 17))), draw(st.sampled_from((1, 3, 5, 37, 65))),
        draw(st.sampled_from(HIDDEN)), draw(st.sampled_from(FLOATS)),
        activation=draw(st.sampled_from(("tanh", "relu", "sigmoid", "identity"))),
        ids=draw(st.sampled_from((None, *IDS))), ragged=draw(flag), reverse=draw(flag), masked=draw(flag),
        initial=draw(flag),
    )  # fmt: skip
    return trial.laid_out(draw(st.sampled_from(LAYOUTS)))


# as floats: signaling NaN, which any arithmetic changes, even an addition of 0
CANARY = {"f4": 0x7F80BEEF, "f8": 0x7FF0DEADBEEFBEEF, "i8": 0x7FF0DEADBEEFBEEF}


class Guard:
    """A kernel whose arrays all lie between canaries, unaligned, and whose scratch arrays are full of NaN.

    No check of Numba's covers an intrinsic: what it writes beside an array shows in the canaries, what it reads beside
    an array, or from scratch before it was written, makes results NaN.
    """

    PAD = 67  # elements on each side: more than the widest tile, and odd

    def __init__(self, kernel: Any, scratch: str = "") -> None:
        self.kernel, self.calls = kernel, 0
        self.names = list(inspect.signature(kernel.py_func).parameters)
        self.scratch = set(scratch.split())
        assert self.scratch <= set(self.names), "the kernel's parameters have other names now"

    def __call__(self, *args: Any) -> Any:
        inside, checks = [], []
        for name, arg in zip(self.names, args, strict=True):
            if not isinstance(arg, np.ndarray):
                inside.append(arg)
                continue
            # an array within another one, as a vanilla cell's pre-activations are within its states, stays there
            outer = next(((a, v) for _, a, _, v in checks if arg.size and np.shares_memory(a, arg)), None)
            if outer is not None:
                start = (arg.ctypes.data - outer[0].ctypes.data) // arg.itemsize
                inside.append(outer[1].reshape(-1)[start : start + arg.size].reshape(arg.shape))
                continue
            kind = arg.dtype.str[1:]
            whole = np.full(arg.size + 2 * self.PAD, CANARY[kind], f"u{kind[1:]}")
            view = whole.view(arg.dtype)[self.PAD : self.PAD + arg.size].reshape(arg.shape)
            if name not in self.scratch:
                view[...] = arg
            inside.append(view)
            checks.append((name, arg, whole, view))
        result = self.kernel(*inside)
        for name, arg, whole, view in checks:
            canary = CANARY[arg.dtype.str[1:]]
            sides = np.concatenate([whole[: self.PAD], whole[self.PAD + arg.size :]])
            assert (sides == canary).all(), f"written outside of {name}"
            if arg.flags.writeable:
                arg[...] = view
        self.calls += 1
        return result


def python(code: str, *arguments: object, timeout: float = 280, **environment: object) -> subprocess.CompletedProcess:
    """Run code in a new Python process; None removes a variable from the environment."""
    changed = {**os.environ, **{name: str(value) for name, value in environment.items()}}
    for name, value in environment.items():
        if value is None:
            del changed[name]
    if "PYTHONPATH" in environment and "PYTHONPATH" in os.environ:
        changed["PYTHONPATH"] += os.pathsep + os.environ["PYTHONPATH"]  # scripts/mutate puts its mutant there
    command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=changed, capture_output=True, text=True, timeout=timeout, check=False, cwd=ROOT)


def output_of(code: str, *arguments: object, **environment: object) -> str:
    done = python(code, *arguments, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()
