"""Formulas that are computed entry by entry, on the widest vectors of the CPU.

LLVM vectorizes a loop over one or two arrays well, but not one over the eleven arrays of a cell with gates.
Such a formula is written as a Python function of `Vector`s with the usual operators, and `pointwise` turns it into a
loop of vector instructions: whole vectors first, then one that is partly masked for the entries that are left.

tanh and exp use the polynomials that elementwise.py explains, and sigmoid(x) = (1 + tanh(x / 2)) / 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from elman.kernels.compile import FASTMATH, VECTOR_BYTES

f4, f8 = np.float32, np.float64
# coefficients of (e^r - 1) / r, the highest power first
TERMS_4 = tuple(map(f4, (0.0013933641, 0.00836914849, 0.041666465, 0.166665053, 0.5, 1.0)))  # error of 1.2e-8
TERMS_8 = tuple(f8(1 / math.factorial(k)) for k in range(13, 0, -1))  # error below 1e-17


class Vector:
    """A register of numbers side by side: its operators add instructions to the kernel that is being built."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    @property
    def is_float32(self) -> bool:
        return isinstance(self.value.type.element, ir.FloatType)

    def like(self, number: float) -> Vector:
        """A vector with this number in all places."""
        kind = self.value.type
        return Vector(self.builder, ir.Constant(kind, [ir.Constant(kind.element, float(number))] * kind.count))

    def _binary(self, name: str, other: Vector | float) -> Vector:
        second = other if isinstance(other, Vector) else self.like(other)
        return Vector(self.builder, getattr(self.builder, name)(self.value, second.value, flags=sorted(FASTMATH)))

    def __add__(self, other: Vector | float) -> Vector:
        return self._binary("fadd", other)

    def __sub__(self, other: Vector | float) -> Vector:
        return self._binary("fsub", other)

    def __rsub__(self, other: float) -> Vector:
        return self.like(other) - self

    def __mul__(self, other: Vector | float) -> Vector:
        return self._binary("fmul", other)

    def __truediv__(self, other: Vector | float) -> Vector:
        return self._binary("fdiv", other)

    def call(self, name: str, *others: Vector) -> Vector:
        """One of LLVM's own functions of vectors."""
        kind, bits = self.value.type, 32 if self.is_float32 else 64
        signature = ir.FunctionType(kind, [kind] * (1 + len(others)))
        function = cgutils.get_or_insert_function(self.builder.module, signature, f"llvm.{name}.v{kind.count}f{bits}")
        return Vector(self.builder, self.builder.call(function, [self.value, *(other.value for other in others)]))

    def at_most(self, limit: float) -> Vector:
        """The smaller of each number and the limit; NaN stays NaN."""
        bound = self.like(limit)
        above = self.builder.fcmp_ordered(">", self.value, bound.value)
        return Vector(self.builder, self.builder.select(above, bound.value, self.value))

    def power_of_two(self) -> Vector:
        """2^n, from n + 1.5·2^23 (float64: n + 1.5·2^52) with a small whole number n, whose bits are the low bits."""
        bits, mantissa, bias = (32, 23, 127) if self.is_float32 else (64, 52, 1023)
        kind, builder = self.value.type, self.builder
        integers = ir.VectorType(ir.IntType(bits), kind.count)
        biases, shifts = (ir.Constant(integers, [number] * kind.count) for number in (bias, mantissa))
        low = builder.bitcast(self.value, integers)
        return Vector(builder, builder.bitcast(builder.shl(builder.add(low, biases), shifts), kind))


def tanhs(*xs: Vector) -> list[Vector]:
    """(e^2|x| - 1) / (e^2|x| + 1), with the sign of x, for each x.

    A division takes as long as ten multiplications: one, of 1 by the product of all denominators, serves them all.
    """
    numerators, denominators = [], []
    for x in xs:
        size = x.call("fabs").at_most(9.02 if x.is_float32 else 19.07)
        scale, rest = _exp_parts(size + size)
        numerators.append(scale * rest + (scale - 1.0))
        denominators.append(numerators[-1] + 2.0)
    if len(xs) == 1:
        return [(numerators[0] / denominators[0]).call("copysign", xs[0])]
    products = [denominators[0]]
    for denominator in denominators[1:]:
        products.append(products[-1] * denominator)
    inverse = products[-1].like(1.0) / products[-1]
    found = []
    for k in range(len(xs) - 1, 0, -1):
        found.append(numerators[k] * (inverse * products[k - 1]))
        inverse = inverse * denominators[k]
    found.append(numerators[0] * inverse)
    return [value.call("copysign", x) for value, x in zip(found[::-1], xs, strict=True)]


def _exp_parts(x: Vector) -> tuple[Vector, Vector]:
    """2^n and e^r - 1, where x = n ln 2 + r."""
    terms: tuple[Any, ...] = TERMS_4 if x.is_float32 else TERMS_8
    whole = 12582912.0 if x.is_float32 else 6755399441055744.0  # adding it rounds to a whole number
    high, low = (0.693359375, -2.12194440e-4) if x.is_float32 else (0.6931471803691238, 1.9082149292705877e-10)
    z = x * 1.4426950408889634 + whole
    n = z - whole
    r = (x - n * high) - n * low
    p = r.like(terms[0])
    for c in terms[1:]:
        p = p * r + c
    return z.power_of_two(), p * r


def exp(x: Vector) -> Vector:
    """e^x for x ≤ 0, the only x that a softmax needs: 0 below -87 (-708 for float64), NaN for NaN."""
    limit = x.like(-87.0 if x.is_float32 else -708.0)
    below = x.builder.fcmp_ordered("<", x.value, limit.value)
    scale, rest = _exp_parts(Vector(x.builder, x.builder.select(below, limit.value, x.value)))
    return Vector(x.builder, x.builder.select(below, x.like(0.0).value, (scale + scale * rest).value))


def _sum(total: Vector, x: Vector) -> Vector:
    return total + x


def _maximum(top: Vector, x: Vector) -> Vector:
    """The larger of both; NaN counts as the largest, so that it is seen."""
    builder = x.builder
    above = builder.or_(builder.fcmp_ordered(">", x.value, top.value), builder.fcmp_unordered("uno", x.value, x.value))
    return Vector(builder, builder.select(above, x.value, top.value))


_REDUCTIONS: dict[str, tuple[Callable[[Vector, Vector], Vector], float]] = {
    "sum": (_sum, 0.0),
    "maximum": (_maximum, float("-inf")),
}


def pointwise(formula: Callable[..., tuple[Vector, ...]], reduction: str | None = None) -> Any:
    """An intrinsic (reads, starts, writes, places, numbers, count): `formula` of `count` entries of each flat array in
    `reads`, from `starts` on, and of each of `numbers`, is written to the arrays in `writes`, from `places` on, which
    may be where it was read.

    With a reduction, "sum" or "maximum", the last value of the formula is not written: its sum or maximum over all
    entries is returned. The order of the additions depends on `count` alone.
    """

    @intrinsic
    def loop(typing, reads, starts, writes, places, numbers, count):
        itemsize = reads.dtype.dtype.bitwidth // 8
        lanes = VECTOR_BYTES // itemsize

        def generate(context, builder, signature, args):
            element = ir.FloatType() if itemsize == 4 else ir.DoubleType()
            vector, index, narrow = ir.VectorType(element, lanes), ir.IntType(64), ir.IntType(32)
            indices = ir.VectorType(narrow, lanes)

            def first_entries(arrays, offsets):
                struct, unpacked = cgutils.create_struct_proxy(reads.dtype), []
                for each in (arrays, offsets):
                    unpacked.append(cgutils.unpack_tuple(builder, each))
                return [
                    builder.gep(struct(context, builder, value=array).data, [offset])
                    for array, offset in zip(*unpacked, strict=True)
                ]

            sources, targets, total = first_entries(*args[:2]), first_entries(*args[2:4]), args[5]

            def at(base, j):
                return builder.bitcast(builder.gep(base, [j]), vector.as_pointer())

            def spread(number):
                undefined = ir.Constant(ir.VectorType(number.type, lanes), ir.Undefined)
                first = builder.insert_element(undefined, number, ir.Constant(narrow, 0))
                return builder.shuffle_vector(first, undefined, ir.Constant(indices, [0] * lanes))

            combine, neutral = _REDUCTIONS[reduction or "sum"]
            nothing = Vector(builder, ir.Constant(vector, [ir.Constant(element, neutral)] * lanes))
            reduced = cgutils.alloca_once_value(builder, nothing.value)
            given = [Vector(builder, spread(number)) for number in cgutils.unpack_tuple(builder, args[4])]

            def compute(values, mask=None):
                """The values to write; the value to reduce is combined with those before it."""
                *results, last = formula(*(Vector(builder, value) for value in values), *given)
                if reduction is None:
                    return [*results, last]
                if mask is not None:
                    last = Vector(builder, builder.select(mask, last.value, nothing.value))
                builder.store(combine(Vector(builder, builder.load(reduced)), last).value, reduced)
                return results

            width = ir.Constant(index, lanes)
            left = builder.srem(total, width)
            whole = builder.sub(total, left)
            with cgutils.for_range_slice(builder, ir.Constant(index, 0), whole, width) as (j, _):
                results = compute([builder.load(at(base, j), align=itemsize) for base in sources])
                for base, result in zip(targets, results, strict=True):
                    builder.store(result.value, at(base, j), align=itemsize)
            with builder.if_then(builder.icmp_signed(">", left, ir.Constant(index, 0))):
                # the mask is true in the first `left` places
                flags = ir.VectorType(ir.IntType(1), lanes)
                places_left = spread(builder.trunc(left, narrow))
                mask = builder.icmp_signed("<", ir.Constant(indices, list(range(lanes))), places_left)
                pointer, align = vector.as_pointer(), ir.Constant(narrow, itemsize)
                name, none = f"v{lanes}f{8 * itemsize}.p0", ir.Constant(vector, [ir.Constant(element, 0.0)] * lanes)
                loads = ir.FunctionType(vector, [pointer, narrow, flags, vector])
                stores = ir.FunctionType(ir.VoidType(), [vector, pointer, narrow, flags])
                load = cgutils.get_or_insert_function(builder.module, loads, f"llvm.masked.load.{name}")
                store = cgutils.get_or_insert_function(builder.module, stores, f"llvm.masked.store.{name}")
                results = compute([builder.call(load, [at(base, whole), align, mask, none]) for base in sources], mask)
                for base, result in zip(targets, results, strict=True):
                    builder.call(store, [result.value, at(base, whole), align, mask])
            if reduction is None:
                return context.get_dummy_value()
            found, half = Vector(builder, builder.load(reduced)), lanes // 2
            while half:  # combine the upper half with the lower one, until one number is left
                moved = ir.Constant(indices, [(j + half) % lanes for j in range(lanes)])
                other = Vector(builder, builder.shuffle_vector(found.value, found.value, moved))
                found, half = combine(found, other), half // 2
            return builder.extract_element(found.value, ir.Constant(narrow, 0))

        result = types.void if reduction is None else reads.dtype.dtype
        return result(reads, starts, writes, places, numbers, types.intp), generate

    return loop
