"""exp, tanh and the activations, entry by entry, in forms that LLVM turns into vector code.

exp and tanh use one polynomial: e^r - 1 = r + r²/2! + r³/3! + …, for |r| ≤ ln 2 / 2, where few terms reach the last
bit; for float32 the coefficients are those of a Chebyshev fit, which needs one term fewer. With n the whole number
nearest to x / ln 2 and r = x - n ln 2, e^x = 2^n e^r. Measured over the whole range (tests/kernels):
exp within 2 units in the last place, tanh within 4; |tanh| ≤ 1, 0 stays 0 and NaN stays NaN. Below -87 (-708 for
float64), where e^x is close to the smallest normal number, exp is 0.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from elman.kernels.compile import inline
from elman.kernels.vectors import TERMS_4, TERMS_8, pointwise, tanhs

f4 = np.float32
_tanhs = pointwise(lambda x: tuple(tanhs(x)))


@intrinsic
def power_of_two(typing, n):
    """2^n, from n + 1.5·2^23 (float64: n + 1.5·2^52) with a small whole number n, whose bits are the low bits."""
    bits, mantissa, bias = (32, 23, 127) if n == types.float32 else (64, 52, 1023)

    def generate(context, builder, signature, args):
        integer = ir.IntType(bits)
        low = builder.bitcast(args[0], integer)
        exponent = builder.shl(builder.add(low, ir.Constant(integer, bias)), ir.Constant(integer, mantissa))
        return builder.bitcast(exponent, args[0].type)

    return n(n), generate


# 1.4426950408889634 is 1 / ln 2. Adding 12582912 = 1.5·2^23 (in float64 6755399441055744 = 1.5·2^52) rounds x / ln 2 to
# a whole number n. n ln 2 is subtracted in two parts, which keeps r exact.
@inline
def _exp_parts_4(x):
    z = x * f4(1.4426950408889634) + f4(12582912.0)
    n = z - f4(12582912.0)
    r = (x - n * f4(0.693359375)) - n * f4(-2.12194440e-4)
    p = TERMS_4[0]
    for c in TERMS_4[1:]:
        p = p * r + c
    return power_of_two(z), p * r  # 2^n and e^r - 1


@inline
def _exp_parts_8(x):
    z = x * 1.4426950408889634 + 6755399441055744.0
    n = z - 6755399441055744.0
    r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10
    p = TERMS_8[0]
    for c in TERMS_8[1:]:
        p = p * r + c
    return power_of_two(z), p * r


def exp(x):
    """e^x for x ≤ 0, the only x that a softmax needs."""
    return np.exp(x)


@overload(exp)
def _exp(x):
    if x == types.float32:

        def implementation(x):
            scale, rest = _exp_parts_4(f4(-87.0) if x < f4(-87.0) else x)
            return f4(0) if x < f4(-87.0) else scale + scale * rest
    else:

        def implementation(x):
            scale, rest = _exp_parts_8(-708.0 if x < -708.0 else x)
            return 0.0 if x < -708.0 else scale + scale * rest

    return implementation


def tanh(x):
    """(e^2|x| - 1) / (e^2|x| + 1), with the sign of x; e^2|x| - 1 is computed as such, exact near 0.

    Beyond 9.02 (19.07 for float64) tanh is 1 to the last bit.
    """
    return np.tanh(x)


@overload(tanh)
def _tanh(x):
    if x == types.float32:

        def implementation(x):
            size = f4(9.02) if abs(x) > f4(9.02) else abs(x)
            scale, rest = _exp_parts_4(size + size)
            e = scale * rest + (scale - f4(1))
            return math.copysign(e / (e + f4(2)), x)
    else:

        def implementation(x):
            size = 19.07 if abs(x) > 19.07 else abs(x)
            scale, rest = _exp_parts_8(size + size)
            e = scale * rest + (scale - 1.0)
            return math.copysign(e / (e + 2.0), x)

    return implementation


# the numbers by which kernels know the activations
CODES = {"tanh": 0, "relu": 1, "sigmoid": 2, "identity": 3}


@inline
def activate(a, code):
    """h = f(a), in place."""
    half = a.dtype.type(0.5)
    zero = a.dtype.type(0)
    if code == 0:
        _tanhs((a,), (0,), (a,), (0,), (), a.size)
    elif code == 1:
        for i in range(a.size):
            a[i] = zero if a[i] < zero else a[i]
    elif code == 2:
        for i in range(a.size):
            a[i] = tanh(a[i] * half) * half + half


@inline
def activate_backward(d, h, code):
    """d_a = f' ⊙ d_h, in place, with f' in terms of h."""
    one, zero = d.dtype.type(1), d.dtype.type(0)
    if code == 0:
        for i in range(d.size):
            d[i] = d[i] * (one - h[i] * h[i])
    elif code == 1:
        for i in range(d.size):
            d[i] = d[i] * (one if h[i] > zero else zero)
    elif code == 2:
        for i in range(d.size):
            d[i] = d[i] * (h[i] * (one - h[i]))
