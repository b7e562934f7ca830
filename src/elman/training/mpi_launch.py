"""Whether mpirun, mpiexec or srun started this process as one of several ranks, and its number of threads."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from typing import NamedTuple

LAUNCHERS = {  # environment variables of the number of ranks and of the rank
    "Open MPI's mpirun": ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    "mpiexec": ("PMI_SIZE", "PMI_RANK"),
    "Slurm": ("SLURM_NTASKS", "SLURM_PROCID"),  # last: inside a Slurm job the variables of mpirun take precedence
}


class Launch(NamedTuple):
    """The launcher of this process; its name `who` is empty if there is none."""

    who: str = ""
    size: int = 1
    rank: int = 0
    variable: str = ""  # the environment variable with the size


def launch(environ: Mapping[str, str] = os.environ) -> Launch:
    """The first launcher whose variables are set."""
    for who, (size, rank) in LAUNCHERS.items():
        if environ.get(size, "").isdecimal():
            number = environ.get(rank, "")
            return Launch(who, int(environ[size]), int(number) if number.isdecimal() else 0, size)
    return Launch()


def cores() -> set[int]:
    """The CPU cores that this process may use."""
    return set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def fair_threads(cores_of: Sequence[AbstractSet[int]], mine: int) -> int:
    """The number of threads of rank `mine`, given the cores of each rank of a machine.

    A core that k ranks may use counts 1/k.
    """
    return max(1, int(sum(Fraction(1, sum(core in theirs for theirs in cores_of)) for core in cores_of[mine])))
