"""A notice before the kernels are compiled, which takes a while on the first run."""

from __future__ import annotations

from elman.cli.console import errors


def say_if_compiling(kernel: str) -> None:
    """Before the kernel of this name is used."""
    from elman.kernels import KERNELS  # here, because a look at the help needs no NumPy

    if KERNELS != "compiled":
        return
    from elman.kernels.compile import FOLDER, UNUSED

    if UNUSED:
        errors.print(f"Compiling, 10 to 20 seconds, as every time: {FOLDER} {UNUSED}.", markup=False)
    elif not any(FOLDER.glob(f"*.{kernel}-*.kernel")):
        errors.print("Compiling for this machine, once: 10 to 20 seconds.")
