"""Initial values of the weights. All random numbers come from the generator that is passed in.

Names in brackets at the ends of comments, such as [sign], mark quoted lines: see elman/maths/__init__.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from elman.maths.arrays import Array, FloatType

Shape = tuple[int, ...]  # two numbers, (rows, columns)
Generator = np.random.Generator
LARGEST_QR = 2048  # rows or columns; larger orthogonal matrices are drawn without a QR decomposition


def orthogonal(rng: Generator, shape: Shape, *, gain: float = 1.0, dtype: FloatType = np.float64) -> Array:
    """Return gain · Q with orthonormal rows or columns: every singular value is the gain (Saxe et al. 2014).

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of the random numbers.
    shape : pair of int
        Rows and columns.
    gain : float
        Scale of the result.
    dtype : data type
        Of the result.

    Returns
    -------
    array of this shape

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> maths.orthogonal(np.random.default_rng(0), (3, 2)).shape
    (3, 2)
    """
    rows, columns = shape
    if max(shape) > LARGEST_QR:
        q = _fast_orthogonal(rng, max(shape))[:, : min(shape)]
        return np.ascontiguousarray(gain * (q if rows >= columns else q.T), dtype)
    q, r = np.linalg.qr(rng.standard_normal((max(shape), min(shape))))
    q *= np.sign(np.diag(r))  # makes the distribution of Q uniform over the orthogonal matrices [sign]
    return np.ascontiguousarray(gain * (q if rows >= columns else q.T), dtype)


def _fast_orthogonal(rng: Generator, size: int) -> Array:
    """A random orthogonal matrix, but not uniformly distributed over all of them.

    It is a product of orthogonal matrices: random signs, a random permutation and two cosine transforms. It takes
    size² log size operations, a QR decomposition about size³.
    """
    from scipy.fft import dct

    q = dct(np.diag(rng.choice([-1.0, 1.0], size)), norm="ortho", overwrite_x=True)
    q = q[:, rng.permutation(size)]
    q *= rng.choice([-1.0, 1.0], size)
    product: Array = dct(q, norm="ortho", overwrite_x=True)
    product *= rng.choice([-1.0, 1.0], size)
    return product


def identity(rng: Generator, shape: Shape, *, gain: float = 1.0, dtype: FloatType = np.float64) -> Array:
    """Return gain · I, as W_hh of an IRNN, which has relu units (Le et al. 2015).

    Parameters
    ----------
    rng : numpy.random.Generator
        Not used.
    shape : pair of int
        Rows and columns.
    gain : float
        Scale of the result.
    dtype : data type
        Of the result.

    Returns
    -------
    array of this shape

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> maths.identity(np.random.default_rng(0), (3, 2)).shape
    (3, 2)
    """
    return (gain * np.eye(shape[0], shape[1])).astype(dtype)


def glorot(rng: Generator, shape: Shape, *, gain: float = 1.0, dtype: FloatType = np.float64) -> Array:
    """Draw uniform numbers of variance 2 gain² / (rows + columns) (Glorot and Bengio 2010).

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of the random numbers.
    shape : pair of int
        Rows and columns.
    gain : float
        Scale of the result.
    dtype : data type
        Of the result.

    Returns
    -------
    array of this shape

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> maths.glorot(np.random.default_rng(0), (3, 2)).shape
    (3, 2)
    """
    bound = gain * np.sqrt(6 / sum(shape))  # [bound]
    return rng.uniform(-bound, bound, shape).astype(dtype)


def uniform(rng: Generator, shape: Shape, *, gain: float = 1.0, dtype: FloatType = np.float64) -> Array:
    """Draw uniform numbers within ± gain / √H, where H is the number of columns, as PyTorch's RNN does.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of the random numbers.
    shape : pair of int
        Rows and columns.
    gain : float
        Scale of the result.
    dtype : data type
        Of the result.

    Returns
    -------
    array of this shape

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> maths.uniform(np.random.default_rng(0), (3, 2)).shape
    (3, 2)
    """
    bound = gain / np.sqrt(shape[1])  # [bound]
    return rng.uniform(-bound, bound, shape).astype(dtype)


def normal(rng: Generator, shape: Shape, *, gain: float = 1.0, dtype: FloatType = np.float64) -> Array:
    """Draw normal numbers of standard deviation gain: for a W_xh of which each token id selects one row.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of the random numbers.
    shape : pair of int
        Rows and columns.
    gain : float
        Scale of the result.
    dtype : data type
        Of the result.

    Returns
    -------
    array of this shape

    Examples
    --------
    >>> import numpy as np
    >>> from elman import maths
    >>> maths.normal(np.random.default_rng(0), (3, 2)).shape
    (3, 2)
    """
    return (gain * rng.standard_normal(shape)).astype(dtype)


INITIALIZERS: dict[str, Callable[..., Array]] = {
    "orthogonal": orthogonal,
    "identity": identity,
    "glorot": glorot,
    "uniform": uniform,
    "normal": normal,
}
