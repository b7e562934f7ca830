"""Data-parallel training: the ranks of an MPI world train one network, each on its part of the batch.

A step has one all-reduce of the flat gradient buffer, and one of the loss and the requests to stop. Then every rank
computes the same from the same sums: it clips, updates, validates, rolls back and stops at the same step. Rank 0 emits
the events and writes all files.

An expected error (ElmanError, OSError, MemoryError) before the parameters are broadcast reaches all ranks in their next
exchange, and all end with the same message; any other error on one rank ends the others through MPI's abort.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

import numpy as np

from elman.errors import ElmanError, MissingExtraError
from elman.maths.arrays import Array
from elman.training.mpi_launch import Launch, cores, fair_threads, launch

T = TypeVar("T")


class SharedError(ElmanError):
    """An error that all ranks raise at the same place."""


class World:
    """A single process; the base class of `Ranks`, which has the same methods for several."""

    rank, size = 0, 1
    threads: int | None = None  # the number of threads of this rank; None: all cores

    def share(self, count: int, rank: int | None = None) -> slice:
        """The part of `count` items that belongs to this rank, or another; parts differ in size by at most one."""
        rank = self.rank if rank is None else rank
        return slice(count * rank // self.size, count * (rank + 1) // self.size)

    def all_reduce(self, buffer: Array, loss: float, stopping: Callable[[], bool]) -> float:
        """Sum the gradients of all ranks in place, and return the sum of their losses."""
        return loss

    def stop(self, stopping: Callable[[], bool]) -> bool:
        """Whether any rank was asked to stop; the same on all ranks."""
        return stopping()

    def gather(self, rows: Array, axis: int = 0) -> Array:
        """The rows of all ranks, concatenated along this axis in the order of the ranks."""
        return rows

    def broadcast(self, value: T) -> T:
        """The value of rank 0."""
        return value

    def broadcast_buffer(self, buffer: Array) -> None:
        """Copy the numbers of rank 0 into the buffers of all ranks."""

    def leader_first(self, work: Callable[[], T]) -> T:
        """Call `work` on one rank of each machine first, so that the others find its result in the cache."""
        return work()

    def agree(self, values: Mapping[str, object]) -> None:
        """Raise SharedError unless all ranks have the same values."""


class Ranks(World):
    """One rank of an MPI world."""

    def __init__(self, comm: Any, mpi: Any) -> None:
        self.comm, self._in_place = comm, mpi.IN_PLACE
        self.rank, self.size = comm.rank, comm.size
        local = comm.Split_type(mpi.COMM_TYPE_SHARED)  # the ranks of this machine
        self.leads = local.rank == 0
        self.threads = fair_threads(local.allgather(cores()), local.rank)
        self._scalars = np.zeros(2)  # the loss; the number of ranks that were asked to stop
        self.begun = False  # whether buffers have been exchanged

    def all_reduce(self, buffer: Array, loss: float, stopping: Callable[[], bool]) -> float:
        self.begun = True
        self._scalars[:] = loss, stopping()
        self.comm.Allreduce(self._in_place, buffer)
        self.comm.Allreduce(self._in_place, self._scalars)
        return float(self._scalars[0])

    def stop(self, stopping: Callable[[], bool]) -> bool:
        return bool(self._scalars[1])  # from the last all-reduce, so that all ranks stop at the same step

    def gather(self, rows: Array, axis: int = 0) -> Array:
        return np.concatenate(self._exchange(rows), axis)

    def broadcast(self, value: T) -> T:
        return self._exchange(value)[0]

    def broadcast_buffer(self, buffer: Array) -> None:
        self.begun = True
        self.comm.Bcast(buffer)

    def leader_first(self, work: Callable[[], T]) -> T:
        if self.leads:
            done = work()
            self.agree({"stage": "reading"})
            return done
        self.agree({"stage": "reading"})
        return work()

    def agree(self, values: Mapping[str, object]) -> None:
        all_values = self._exchange(dict(values))
        for rank, own in enumerate(all_values):
            for name in all_values[0] | own:
                expected, got = all_values[0].get(name), own.get(name)
                if got != expected:
                    raise SharedError(
                        f"rank {rank} differs from rank 0 in {name}",
                        expected=expected,
                        got=got,
                        do="All ranks need the same data, options and versions.",
                    )

    def fail(self, why: str) -> NoReturn:
        """Report an error of this rank before buffers are exchanged: the next exchange of every rank raises it."""
        self._exchange(None, why)
        raise SharedError(why)

    def abort(self, status: int) -> NoReturn:
        """End all ranks at once."""
        self.comm.Abort(status)
        os._exit(status)  # if Abort returns

    def _exchange(self, value: T, error: str | None = None) -> list[T]:
        """The values of all ranks, in their order; SharedError if one of them has an error."""
        got: list[tuple[str | None, T]] = self.comm.allgather((error, value))
        errors = [error for error, _ in got]
        for rank, why in enumerate(errors):
            if why is not None:
                raise SharedError(why if all(errors) else f"rank {rank}: {why}")
        return [value for _, value in got]


_world = World()


def world() -> World:
    """The MPI world that this process belongs to, or a world of one process."""
    return _world


def join(started: Launch | None = None) -> World:
    """Become a rank if a launcher has started several processes; ElmanError if they cannot form one world."""
    global _world  # noqa: PLW0603
    started = started or launch()
    if started.size > 1 and _world.size == 1:
        mpi = _mpi(started)
        if mpi.COMM_WORLD.size != started.size:
            raise ElmanError(
                f"{started.variable} is {started.size}, but MPI sees {_processes(mpi.COMM_WORLD.size)} here",
                do=_advice(started),
            )
        _world = Ranks(mpi.COMM_WORLD, mpi)
    return _world


def _mpi(started: Launch) -> Any:
    try:
        importlib.import_module("mpi4py").rc.thread_level = "funneled"  # only the main thread calls MPI
        return importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:  # mpi4py is missing, or finds no MPI library
        raise MissingExtraError(
            f"{started.variable} is {started.size}, but this Python has no MPI ({error})",
            do="Install it: pip install 'elman[mpi]' for the MPI of this machine, or 'elman[mpi-local]' with Open MPI.",
        ) from None


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _advice(started: Launch) -> str:
    if started.who == "Slurm":
        return (
            "In a job with several tasks start it with srun (srun --mpi=pmix, if MPI does not find the other tasks); "
            "for one process: env -u SLURM_NTASKS elman train …"
        )
    return "mpi4py is built for another MPI: use the mpirun of that MPI, or build mpi4py for this one."
