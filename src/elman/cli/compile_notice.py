"""A notice before the kernels are compiled, which takes a while on the first run."""

from __future__ import annotations

from elman.cli.console import errors


def print_compile_notice(kernel: str) -> None:
    """Print a notice if the kernel of this name is not in the cache yet; call it before the kernel is used."""
    from elman.kernels import KERNELS  # imports NumPy, which --help does not need

    if KERNELS != "compiled":
        return
    from elman.kernels.compile import FOLDER, UNUSED

    if UNUSED:
        errors.print(f"Compiling takes 10 to 20 seconds in every process: {FOLDER} {UNUSED}.", markup=False)
    elif not any(FOLDER.glob(f"*.{kernel}-*.kernel")):
        errors.print("Compiling for this machine, once; this takes 10 to 20 seconds.")
