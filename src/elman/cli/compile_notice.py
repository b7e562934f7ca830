"""A notice that kernels will be compiled, which takes 10 to 20 seconds."""

from __future__ import annotations

from elman.cli.console import errors


def print_compile_notice(kernel: str) -> None:
    """Print a notice if no kernel of this name is in the cache yet, for any cell, or if the cache cannot be used.

    Call it before a kernel of this name is used. `kernel` is forward, backward or sample.
    """
    from elman.kernels import KERNELS  # imports NumPy, which --help does not need

    if KERNELS != "compiled":
        return
    from elman.kernels.compile import FOLDER, UNUSED

    if UNUSED:
        errors.print(
            f"Compiling, in every process; this takes 10 to 20 seconds. The cache of compiled kernels is not used: "
            f"{FOLDER} {UNUSED}. Set ELMAN_CACHE to a folder that only you can write to.",
            markup=False,
        )
    elif not any(FOLDER.glob(f"*.{kernel}-*.kernel")):
        errors.print("Compiling kernels for this CPU, once; this takes 10 to 20 seconds.")
