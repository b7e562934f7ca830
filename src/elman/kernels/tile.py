"""The register tile: c += a @ w for a few rows of a and a few vectors of columns of w; its sums stay in registers for
all K rows of w.

Every entry of c is one chain of multiply-adds, k = 0, 1, 2 …, whatever the shape of the tile: a row's bits do not
depend on how many rows are computed beside it. A CPU with FMA rounds once per multiply-add, one without it twice, in
every shape alike.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from elman.kernels.compile import VECTOR_BYTES

VECTORS = 2  # the width of a panel
# rows of the tallest tile for a panel, and of the next one: the rows × vectors of sums must leave registers for the
# vectors of w and one of a; AVX-512 has 32 registers, others have 16
ROWS, MIDDLE = (14, 8) if VECTOR_BYTES == 64 else (6, 5)


def lanes(itemsize: int) -> int:
    """How many numbers a vector has."""
    return VECTOR_BYTES // itemsize


def make_tile(rows: int, vectors: int, panels: int = 1, left_out: int = 0, a_next: int = 1) -> Any:
    """An intrinsic that adds a[rows, K] @ w[K, panels · vectors · lanes] to c.

    The arrays are flat, and all offsets count entries. Row i of a begins at a_at + i · a_step, and its entries are
    `a_next` apart. w is packed in panels: row k of a panel begins at w_at + k · w_step, and the next panel w_panel
    further on. Row i of c begins at c_at + i · c_step, and the columns of the next panel c_panel further on. The last
    panel is used without its last `left_out` vectors.
    """

    @intrinsic
    def tile(typing, a, w, c, a_at, w_at, c_at, a_step, w_step, c_step, w_panel, c_panel, K):
        signature = types.void(a, w, c, *(types.intp,) * 9)
        width = lanes(a.dtype.bitwidth // 8)

        def generate(context, builder, sig, args):
            a_data, w_data, c_data = (
                cgutils.create_struct_proxy(sig.args[i])(context, builder, value=args[i]).data for i in range(3)
            )
            a_at, w_at, c_at, a_step, w_step, c_step, w_panel, c_panel, K = args[3:]
            number = ir.FloatType() if sig.args[0].dtype.bitwidth == 32 else ir.DoubleType()
            size = sig.args[0].dtype.bitwidth // 8
            vector, integer = ir.VectorType(number, width), K.type
            # fused where the CPU can, which is the same for every shape of the tile
            kind = ir.FunctionType(vector, [vector] * 3)
            name = f"llvm.fmuladd.v{width}f{8 * size}"
            fma = cgutils.get_or_insert_function(builder.module, kind, name)

            def const(n: int) -> Any:
                return ir.Constant(integer, n)

            def address(base: Any, at: Any) -> Any:
                return builder.bitcast(builder.gep(base, [at]), vector.as_pointer())

            def load(base: Any, at: Any) -> Any:
                value = builder.load(address(base, at))
                value.align = size
                return value

            columns = [(panel, j) for panel in range(panels) for j in range(vectors)][: panels * vectors - left_out]

            def place(at: Any, step: Any, panel: int, j: int) -> Any:
                return builder.add(builder.add(at, builder.mul(const(panel), step)), const(j * width))

            c_rows = [builder.add(c_at, builder.mul(const(i), c_step)) for i in range(rows)]
            first = [[load(c_data, place(row, c_panel, *column)) for column in columns] for row in c_rows]
            a_rows = [builder.gep(a_data, [builder.add(a_at, builder.mul(const(i), a_step))]) for i in range(rows)]
            entry = builder.block
            loop, end = builder.append_basic_block("k"), builder.append_basic_block("end")
            builder.cbranch(builder.icmp_signed(">", K, const(0)), loop, end)
            builder.position_at_end(loop)
            k = builder.phi(integer)
            k.add_incoming(const(0), entry)
            sums = [[builder.phi(vector) for _ in columns] for _ in range(rows)]
            w_k, a_k = builder.add(w_at, builder.mul(k, w_step)), builder.mul(k, const(a_next))
            weights = [load(w_data, place(w_k, w_panel, *column)) for column in columns]
            undefined = ir.Constant(vector, ir.Undefined)
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
            after = []
            for i in range(rows):
                scalar = builder.load(builder.gep(a_rows[i], [a_k]))
                spread = builder.insert_element(undefined, scalar, ir.Constant(ir.IntType(32), 0))
                spread = builder.shuffle_vector(spread, undefined, zeros)
                after.append([builder.call(fma, [spread, w_j, s]) for w_j, s in zip(weights, sums[i], strict=True)])
            following = builder.add(k, const(1))
            k.add_incoming(following, loop)
            more = builder.icmp_signed("<", following, K)
            builder.cbranch(more, loop, end)
            builder.position_at_end(end)
            for i in range(rows):
                for j, column in enumerate(columns):
                    sums[i][j].add_incoming(first[i][j], entry)
                    sums[i][j].add_incoming(after[i][j], loop)
                    total = builder.phi(vector)
                    total.add_incoming(first[i][j], entry)
                    total.add_incoming(after[i][j], loop)
                    after[i][j] = (total, column)
            for i in range(rows):
                for total, column in after[i]:
                    builder.store(total, address(c_data, place(c_rows[i], c_panel, *column))).align = size
            return context.get_dummy_value()

        return signature, generate

    return tile
