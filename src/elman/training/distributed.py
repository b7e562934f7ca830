"""Many processes that train one network: ranks of an MPI world, each with lanes of its own.

A step has one all-reduce of the flat gradient buffer. Every rank then does the same with the same sums: it clips,
updates, validates, goes back and stops at the same step. Rank 0 speaks for all of them and writes all files.

An error before the first all-reduce reaches all ranks in their next exchange, and all end with one message;
what goes wrong later on one rank alone ends the others through MPI's own abort.
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
    """All ranks raise it, at the same place."""


class World:
    """One process alone: what many do together it does by itself."""

    rank, size = 0, 1
    threads: int | None = None  # this rank's share; None: nobody shares

    def share(self, count: int, rank: int | None = None) -> slice:
        """The part of `count` items that belongs to this rank, or another; parts differ in size by at most one."""
        rank = self.rank if rank is None else rank
        return slice(count * rank // self.size, count * (rank + 1) // self.size)

    def add_up(self, buffer: Array, loss: float, stopping: Callable[[], bool]) -> float:
        """The gradients of all ranks, summed in place, and the sum of their losses."""
        return loss

    def stop(self, stopping: Callable[[], bool]) -> bool:
        """Whether anyone was asked to stop: the same answer on all ranks."""
        return stopping()

    def joined(self, rows: Array, axis: int = 0) -> Array:
        """The rows of all ranks, in the order of the ranks, along this axis."""
        return rows

    def first(self, value: T) -> T:
        """Rank 0's."""
        return value

    def copy_first(self, buffer: Array) -> None:
        """Rank 0's numbers into the buffers of all."""

    def in_turn(self, work: Callable[[], T]) -> T:
        """Do it on one rank of each machine first: the others find in the cache what it has left there."""
        return work()

    def agree(self, facts: Mapping[str, object]) -> None:
        """Go on only where all ranks say the same."""


class Ranks(World):
    """One rank of an MPI world."""

    def __init__(self, comm: Any, mpi: Any) -> None:
        self.comm, self._in_place = comm, mpi.IN_PLACE
        self.rank, self.size = comm.rank, comm.size
        near = comm.Split_type(mpi.COMM_TYPE_SHARED)  # the ranks of this machine
        self.leads = near.rank == 0
        self.threads = fair_threads(near.allgather(cores()), near.rank)
        self._scalars = np.zeros(2)  # loss; who was asked to stop
        self.begun = False  # whether buffers went round already

    def add_up(self, buffer: Array, loss: float, stopping: Callable[[], bool]) -> float:
        self.begun = True
        self._scalars[:] = loss, stopping()
        self.comm.Allreduce(self._in_place, buffer)
        self.comm.Allreduce(self._in_place, self._scalars)
        return float(self._scalars[0])

    def stop(self, stopping: Callable[[], bool]) -> bool:
        return bool(self._scalars[1])  # as of the last all-reduce, else ranks would stop at different steps

    def joined(self, rows: Array, axis: int = 0) -> Array:
        return np.concatenate(self._exchange(rows), axis)

    def first(self, value: T) -> T:
        return self._exchange(value)[0]

    def copy_first(self, buffer: Array) -> None:
        self.begun = True
        self.comm.Bcast(buffer)

    def in_turn(self, work: Callable[[], T]) -> T:
        if self.leads:
            done = work()
            self.agree({"stage": "reading"})
            return done
        self.agree({"stage": "reading"})
        return work()

    def agree(self, facts: Mapping[str, object]) -> None:
        everyone = self._exchange(dict(facts))
        for rank, theirs in enumerate(everyone):
            for name in everyone[0] | theirs:
                expected, got = everyone[0].get(name), theirs.get(name)
                if got != expected:
                    raise SharedError(
                        f"rank {rank} differs from rank 0 in {name}",
                        expected=expected,
                        got=got,
                        do="All ranks need the same text, flags and versions.",
                    )

    def tell(self, why: str) -> NoReturn:
        """What went wrong on this rank, before the first all-reduce: every rank's next exchange raises it."""
        self._exchange(None, why)
        raise SharedError(why)

    def abort(self, status: int) -> NoReturn:
        """End all ranks at once."""
        self.comm.Abort(status)
        os._exit(status)  # where abort comes back

    def _exchange(self, value: T, error: str | None = None) -> list[T]:
        """What each rank brings, in their order; SharedError where one of them brings an error."""
        got: list[tuple[str | None, T]] = self.comm.allgather((error, value))
        errors = [error for error, _ in got]
        for rank, why in enumerate(errors):
            if why is not None:
                raise SharedError(why if all(errors) else f"rank {rank}: {why}")
        return [value for _, value in got]


_world = World()


def world() -> World:
    """The one that this process has joined; alone, if it has not."""
    return _world


def join(started: Launch | None = None) -> World:
    """Become a rank where a launcher has started many processes; a launch that cannot be one world is refused."""
    global _world  # noqa: PLW0603
    started = started or launch()
    if started.size > 1 and _world.size == 1:
        mpi = _mpi(started)
        if mpi.COMM_WORLD.size != started.size:
            raise ElmanError(
                f"{started.variable} is {started.size}, but MPI sees {mpi.COMM_WORLD.size} process here",
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
            do="Install it: pip install 'elman[mpi]' beside the site's MPI, or 'elman[mpi-local]' with its own.",
        ) from None


def _advice(started: Launch) -> str:
    if started.who == "Slurm":
        return (
            "In a job with several tasks start it with srun (srun --mpi=pmix, if MPI does not find the others); "
            "for one process: env -u SLURM_NTASKS elman train …"
        )
    return "mpi4py belongs to another MPI: use that one's mpirun, or build mpi4py with this one's compiler."
