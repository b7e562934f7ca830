"""The spectra behind a gradient's fate: of W_hh, of the step Jacobians along a text, and the Lyapunov exponents.

They belong to one layer of a trace. In a stack the exponents of the
whole are those of its layers together: a layer acts on those above it and never on those below, so the Jacobian of all
states is block triangular.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from elman.errors import RangeError
from elman.look.flow import Progress
from elman.look.traces import LayerTrace
from elman.maths.activations import ActivationLike, get_activation
from elman.maths.arrays import Array
from elman.network.pool import run

FLAT = 0.1  # of the steepest slope: a unit flatter than this is saturated


@dataclass(frozen=True, eq=False)
class Spectrum:
    singular: Array  # (…, H) the largest first
    eigenvalues: Array  # (…, H) complex, the largest first

    @property
    def radius(self) -> Array:
        """The modulus of the largest eigenvalue."""
        return np.abs(self.eigenvalues[..., 0])


def spectrum(W: Array) -> Spectrum:
    """Of one square matrix: W_hh, or a step Jacobian."""
    W = np.asarray(W, np.float64)
    eigenvalues = np.linalg.eigvals(W).astype(np.complex128)
    return Spectrum(np.linalg.svd(W, compute_uv=False), eigenvalues[np.argsort(-np.abs(eigenvalues), kind="stable")])


@dataclass(frozen=True, eq=False)
class JacobianSpectra:
    steps: Array  # (n,) the t of each ∂s[t+1]/∂s[t]
    spectra: Spectrum  # (n, P·H)


def jacobian_spectra(layer: LayerTrace, *, count: int = 12, progress: Progress | None = None) -> JacobianSpectra:
    """Of at most so many step Jacobians, spread evenly over the text: an eigenvalue problem each, H³."""
    if count < 1:
        raise RangeError("count", expected="1 or more", got=count)
    T = layer.steps
    steps = np.unique(np.linspace(0, T - 1, min(count, T)).round().astype(int))
    found: list[Spectrum] = []
    for number, t in enumerate(steps):
        if progress:
            progress("spectra of the step Jacobians", number, len(steps))
        found += run([partial(spectrum, layer.jacobian(t))])  # by the pool, where BLAS has one thread
    both = [np.stack([getattr(s, name) for s in found]) for name in ("singular", "eigenvalues")]
    return JacobianSpectra(steps, Spectrum(*both))


def lyapunov_exponents(layer: LayerTrace, *, count: int | None = None, progress: Progress | None = None) -> Array:
    """Nats a step, the largest first: how fast small changes of the state grow (above 0) or die (below 0) on this text.

    `count` orthonormal directions, as many as the state has entries unless given, go through every step's Jacobian;
    QR makes them orthonormal again, and the diagonal of R says how much each was stretched (Benettin et al. 1980).
    """
    size = len(layer.s) * layer.s.shape[2]  # P·H
    count = size if count is None else count
    if not 1 <= count <= size:
        raise RangeError("count", expected=f"1 to {size}", got=count)
    return run([partial(_stretch, layer, size, count, progress)])[0] / layer.steps


def _stretch(layer: LayerTrace, size: int, count: int, progress: Progress | None) -> Array:
    """The sum over the steps of log |diag(R)|."""
    Q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((size, count)))  # a column for each direction
    total = np.zeros(count)
    for t in range(layer.steps):
        if progress:
            progress("Lyapunov exponents", t, layer.steps)
        # a change of s[t] by a row r becomes r @ ∂s[t+1]/∂s[t] in s[t+1]
        Q, R = np.linalg.qr(layer.jacobian(t).T @ Q)
        with np.errstate(divide="ignore"):  # a direction that a relu cuts off: -inf
            total += np.log(np.abs(np.diag(R)))
    return np.sort(total)[::-1]


@dataclass(frozen=True, eq=False)
class Saturation:
    """Where the activation is flat: f'(h) below a tenth of its slope at 0."""

    share: float  # of all units and steps
    by_unit: Array  # (H,) share of the steps
    by_step: Array  # (T,) share of the units
    edges: Array  # (51,) of the histogram of h
    counts: Array  # (50,)


def saturation(h: Array, *, activation: ActivationLike = "tanh") -> Saturation:
    """Of the states h[1] to h[T], which steps have made."""
    f, derivative = get_activation(activation)
    at_zero = float(derivative(f(np.zeros(1)))[0])
    flat = derivative(h[1:]) < FLAT * (at_zero or 1)  # relu is flat at 0, and its other slope is 1
    counts, edges = np.histogram(h[1:][np.isfinite(h[1:])], bins=50)
    return Saturation(float(flat.mean()), flat.mean(axis=0), flat.mean(axis=1), edges, counts)
