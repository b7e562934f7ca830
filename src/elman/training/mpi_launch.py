"""Whether mpirun or srun started this process as one of many, and how many threads are its share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from typing import NamedTuple

#           who starts it: how many, which one
LAUNCHERS = {
    "Open MPI's mpirun": ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    "mpiexec": ("PMI_SIZE", "PMI_RANK"),
    "Slurm": ("SLURM_NTASKS", "SLURM_PROCID"),  # last: mpirun inside a job counts for itself
}


class Launch(NamedTuple):
    """What a launcher says of itself; who it was is empty where there is none."""

    who: str = ""
    size: int = 1
    rank: int = 0
    variable: str = ""


def launch(environ: Mapping[str, str] = os.environ) -> Launch:
    """The first launcher whose variables are set."""
    for who, (size, rank) in LAUNCHERS.items():
        if environ.get(size, "").isdecimal():
            number = environ.get(rank, "")
            return Launch(who, int(environ[size]), int(number) if number.isdecimal() else 0, size)
    return Launch()


def cores() -> set[int]:
    """Those that this process may use."""
    return set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def fair_threads(cores_of: Sequence[AbstractSet[int]], mine: int) -> int:
    """A core that k ranks of a machine may use counts 1/k for each: at least one thread, never more than there are."""
    return max(1, int(sum(Fraction(1, sum(core in theirs for theirs in cores_of)) for core in cores_of[mine])))
