"""elman train as one of several processes that mpirun or srun started; rank 0 prints, the others only errors."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from elman.cli.console import console, errors, reason, visible
from elman.errors import DivergenceError, ElmanError
from elman.training.events import Event, Failed, Finished, Saved, Started
from elman.training.mpi_launch import launch

if TYPE_CHECKING:
    from elman.training.distributed import Ranks

STEP_SECONDS = 0.1  # a training loop that ends no step in this time counts as stuck; mpirun kills 0.25 s after SIGTERM
FORWARD_SECONDS = 1.0  # time for the launcher to forward stderr, which it drops when it kills the rank
RANK_0_SECONDS = 5.0  # time for rank 0 to print its error before the other ranks exit


def run_as_rank(command: Callable[[], int]) -> int:
    """Run the command as one rank of the MPI world, or alone if no launcher started several processes."""
    if launch().size == 1:
        return command()
    from elman.training.distributed import Ranks, SharedError, join

    if launch().rank:
        _silence()
    else:
        console.change(force_terminal=False)  # under mpirun stdout is a terminal even if mpirun's own is not
        errors.change(force_terminal=False)
    try:
        world = join()
    except ElmanError:  # MPI did not start, so the ranks cannot communicate: only rank 0 prints the error
        time.sleep(RANK_0_SECONDS if launch().rank else 0)
        raise
    assert isinstance(world, Ranks)
    try:
        return command()
    except (SharedError, DivergenceError):  # all ranks raise them
        raise
    except SystemExit:  # the help was shown, on every rank
        world.agree({"stage": "leaving"})
        raise
    except KeyboardInterrupt:
        world.abort(130)
    except (ElmanError, OSError, MemoryError) as error:
        if not world.begun:
            world.fail(reason(error))
        _print_from_this_rank(f"elman: rank {world.rank}: {reason(error)}")
        world.abort(2)
    except BaseException:
        _print_from_this_rank(f"rank {world.rank}: {traceback.format_exc()}")
        world.abort(1)


def _silence() -> None:
    """Discard all output of this rank, except that of _print_from_this_rank."""
    sys.stdout = sys.stderr = io.StringIO()  # never read
    console.change(quiet=True)
    errors.change(quiet=True)


def _print_from_this_rank(text: str) -> None:
    """Print to stderr even on a silenced rank, and wait until the launcher has forwarded it."""
    stream = sys.__stderr__
    if stream is not None:
        stream.write(visible(text).rstrip() + "\n")
        stream.flush()
        time.sleep(FORWARD_SECONDS)


class LostRankNotice:
    """A listener that prints how to resume when the launcher stops all ranks because one was lost.

    The training loop cannot print it: it hangs in an all-reduce that never ends. So a thread, which the signal wakes,
    prints it: mpirun waits a moment between SIGTERM and SIGKILL.
    """

    def __init__(self, world: Ranks) -> None:
        self.world, self.saved, self.events, self.watched = world, 0, 0, False

    def __call__(self, event: Event) -> None:
        self.events += 1
        from elman.kernels.threads import thread_count

        if isinstance(event, Started) and event.run is not None:
            self.saved = event.step
            console.print(f"{self.world.size} ranks; threads of rank 0: {thread_count()}.", markup=False)
            self._watch(event.run)
        elif isinstance(event, Saved):
            self.saved = event.step
        elif isinstance(event, Finished | Failed) and self.watched:
            signal.set_wakeup_fd(-1)

    def _watch(self, run: Path) -> None:
        self.watched = True
        listen, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        threading.Thread(target=self._wait, args=(listen, run), daemon=True).start()

    def _wait(self, listen: int, run: Path) -> None:
        while os.read(listen, 1)[0] != signal.SIGTERM:
            pass
        events = self.events
        time.sleep(STEP_SECONDS)
        if events == self.events:  # the loop is stuck: no step has ended
            _print_from_this_rank(self.text(run))

    def text(self, run: Path) -> str:
        from shlex import quote

        return (
            f"elman: a rank was lost, or the launcher was stopped. Everything up to step {self.saved} is saved. "
            f"To continue, with fewer ranks if necessary:\n"
            f"mpirun -n {self.world.size} elman train --resume {quote(str(run))}"
        )
