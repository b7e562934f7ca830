"""Spectra of W_hh and of the step Jacobians along a text, Lyapunov exponents, and saturation.

Each function analyzes one layer of a trace. The exponents of a whole stack are those of all its layers: a layer affects
those above it and not those below, so the Jacobian of all states is block triangular.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from elman.errors import RangeError
from elman.kernels.threads import run
from elman.look.flow import Progress
from elman.look.traces import LayerTrace
from elman.maths.activations import ActivationLike, get_activation
from elman.maths.arrays import Array

FLAT = 0.1  # fraction of the derivative at 0; a unit with a smaller derivative is saturated
TANH_GATES = ("g", "n")  # the candidates; the other gates are sigmoids


@dataclass(frozen=True, eq=False, repr=False)
class Spectrum:
    """Singular values and eigenvalues of one matrix, or of several.

    Attributes
    ----------
    singular : ndarray, shape (…, H)
        The largest first.
    eigenvalues : ndarray of complex, shape (…, H)
        The largest modulus first.
    """

    singular: Array
    eigenvalues: Array

    def __repr__(self) -> str:
        radius, norm = np.max(self.radius), self.singular.max()
        return f"<Spectrum: {self.singular.shape[-1]} values, spectral radius {radius:.3g}, norm {norm:.3g}>"

    @property
    def radius(self) -> Array:
        """The spectral radius: the modulus of the largest eigenvalue."""
        return np.abs(self.eigenvalues[..., 0])


def spectrum(W: Array) -> Spectrum:
    """Singular values and eigenvalues of a square matrix: W_hh of a vanilla cell, or a step Jacobian.

    Parameters
    ----------
    W : array_like, shape (H, H)
        The matrix.

    Returns
    -------
    Spectrum
        In float64.

    Examples
    --------
    >>> spectrum([[0.0, 2.0], [0.5, 0.0]])
    <Spectrum: 2 values, spectral radius 1, norm 2>
    """
    W = np.asarray(W, np.float64)
    eigenvalues = np.linalg.eigvals(W).astype(np.complex128)
    return Spectrum(np.linalg.svd(W, compute_uv=False), eigenvalues[np.argsort(-np.abs(eigenvalues), kind="stable")])


def recurrent_spectra(layer: LayerTrace) -> dict[str, Spectrum]:
    """The spectrum of W_hh, or in a gated cell of each block of it: W_hi, W_hf, W_hg and W_ho of an LSTM.

    Parameters
    ----------
    layer : LayerTrace
        One layer of a trace.

    Returns
    -------
    dict of str to Spectrum
        By the name of the block.

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=4, steps=1, cell="gru").fit("the cat sat on the mat. " * 20, listeners=[])
    >>> list(look.recurrent_spectra(look.trace(model, "the cat").layers[0]))
    ['W_hr', 'W_hz', 'W_hn']
    """
    cell, W_hh = layer.cell, layer.p["W_hh"]
    if cell.gates == 1:
        return {"W_hh": spectrum(W_hh)}
    blocks = np.split(W_hh, cell.gates, axis=1)
    return {f"W_h{gate}": spectrum(block) for gate, block in zip(cell.gate_names, blocks, strict=True)}


@dataclass(frozen=True, eq=False, repr=False)
class JacobianSpectra:
    """Spectra of some step Jacobians.

    Attributes
    ----------
    steps : ndarray, shape (n,)
        The t of each ∂s[t+1]/∂s[t].
    spectra : Spectrum
        The spectra of all of them: arrays of shape (n, P·H).
    """

    steps: Array
    spectra: Spectrum

    def __repr__(self) -> str:
        return f"<JacobianSpectra: {len(self.steps)} steps, {self.spectra!r}>"


def jacobian_spectra(layer: LayerTrace, *, count: int = 12, progress: Progress | None = None) -> JacobianSpectra:
    """Spectra of step Jacobians, spread evenly over the text; the time of each is proportional to (P·H)³.

    Parameters
    ----------
    layer : LayerTrace
        One layer of a trace.
    count : int
        The maximum number of Jacobians.
    progress : callable, optional
        Called with the name of the task, the number of parts that are done, and the number of all parts.

    Returns
    -------
    JacobianSpectra
        The steps and their spectra.

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=4, steps=1).fit("the cat sat on the mat. " * 20, listeners=[])
    >>> look.jacobian_spectra(look.trace(model, "the cat").layers[0], count=3).steps.tolist()
    [0, 3, 6]
    """
    if count < 1:
        raise RangeError("count", expected="1 or more", got=count)
    T = layer.steps
    steps = np.unique(np.linspace(0, T - 1, min(count, T)).round().astype(int))
    found: list[Spectrum] = []
    for number, t in enumerate(steps):
        if progress:
            progress("spectra of the step Jacobians", number, len(steps))
        found += run([partial(spectrum, layer.jacobian(t))])  # on the thread pool, where BLAS has one thread
    both = [np.stack([getattr(s, name) for s in found]) for name in ("singular", "eigenvalues")]
    return JacobianSpectra(steps, Spectrum(*both))


def lyapunov_exponents(layer: LayerTrace, *, count: int | None = None, progress: Progress | None = None) -> Array:
    """Lyapunov exponents: how fast small changes of the state grow (> 0) or shrink (< 0) along a text, nats per step.

    Orthonormal directions are multiplied by the Jacobian of every step; a QR decomposition makes them orthonormal
    again, and the diagonal of R has the factor by which each direction was stretched (Benettin et al. 1980).

    Parameters
    ----------
    layer : LayerTrace
        One layer of a trace.
    count : int, optional
        The number of exponents, from the largest; P·H, the size of the state, unless given.
    progress : callable, optional
        Called with the name of the task, the number of parts that are done, and the number of all parts.

    Returns
    -------
    ndarray, shape (count,)
        The largest first.

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=4, steps=1).fit("the cat sat on the mat. " * 20, listeners=[])
    >>> look.lyapunov_exponents(look.trace(model, "the cat").layers[0]).shape
    (4,)
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


@dataclass(frozen=True, eq=False, repr=False)
class Saturation:
    """Where an activation is saturated: its derivative is below a tenth of that at 0 (of 1 for relu).

    Attributes
    ----------
    share : float
        The share of saturated values of all units and steps.
    by_unit : ndarray, shape (H,)
        The share of steps at which each unit is saturated.
    by_step : ndarray, shape (T,)
        The share of units that are saturated at each step.
    edges, counts : ndarray, shape (51,) and (50,)
        The histogram of the values.
    """

    share: float
    by_unit: Array
    by_step: Array
    edges: Array
    counts: Array

    def __repr__(self) -> str:
        return f"<Saturation: {self.share:.0%} of {len(self.by_unit)} units × {len(self.by_step)} steps>"


def saturation(h: Array, *, activation: ActivationLike = "tanh") -> Saturation:
    """Which units of a vanilla cell are saturated, in the states h[1] to h[T].

    Parameters
    ----------
    h : ndarray, shape (T+1, H)
        The states; the initial one is left out.
    activation : str or pair of callables
        The activation of the cell.

    Returns
    -------
    Saturation
        Shares and a histogram.

    Examples
    --------
    >>> import numpy as np
    >>> saturation(np.array([[0.0, 0.0], [0.5, 0.99]]))
    <Saturation: 50% of 2 units × 1 steps>
    """
    f, derivative = get_activation(activation)
    at_zero = float(derivative(f(np.zeros(1)))[0])
    flat = derivative(h[1:]) < FLAT * (at_zero or 1)  # relu' is 0 at 0, and 1 above
    counts, edges = np.histogram(h[1:][np.isfinite(h[1:])], bins=50)
    return Saturation(float(flat.mean()), flat.mean(axis=0), flat.mean(axis=1), edges, counts)


def layer_saturation(layer: LayerTrace) -> dict[str, Saturation]:
    """Saturation of the activations of one layer: of h in a vanilla cell, of each gate in a gated one.

    Parameters
    ----------
    layer : LayerTrace
        One layer of a trace.

    Returns
    -------
    dict of str to Saturation
        By the name of the gate, or "h".

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=4, steps=1, cell="lstm").fit("the cat sat on the mat. " * 20, listeners=[])
    >>> list(look.layer_saturation(look.trace(model, "the cat").layers[0]))
    ['i', 'f', 'g', 'o']
    """
    if not layer.gates:
        return {"h": saturation(layer.h, activation=layer.cell.activation)}
    return {
        gate: saturation(np.concatenate([values[:1], values]), activation="tanh" if gate in TANH_GATES else "sigmoid")
        for gate, values in layer.gates.items()
    }
