"""elman train under mpirun or srun: one of many processes, of which rank 0 speaks for all."""

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

ANSWER = 0.1  # seconds in which a loop that still runs ends a step; mpirun kills a quarter after its SIGTERM
PASS_ON = 1.0  # seconds in which the launcher passes on what was written; it kills and drops the rest
FIRST = 5.0  # seconds in which rank 0 says why; then the others leave, too, if the launcher has not ended them


def as_a_rank(command: Callable[[], int]) -> int:
    """Run the command in the world that the launcher made; alone where there is no launcher."""
    if launch().size == 1:
        return command()
    from elman.training.distributed import Ranks, SharedError, join

    if launch().rank:
        _be_quiet()
    else:
        console.change(force_terminal=False)  # mpirun hands a terminal to its ranks, whatever its own output is
        errors.change(force_terminal=False)
    try:
        world = join()
    except ElmanError:  # there is no world in which to agree: each says it to nobody, but for rank 0
        time.sleep(FIRST if launch().rank else 0)
        raise
    assert isinstance(world, Ranks)
    try:
        return command()
    except (SharedError, DivergenceError):  # which all ranks raise
        raise
    except SystemExit:  # the help was shown, on every rank
        world.agree({"stage": "leaving"})
        raise
    except KeyboardInterrupt:
        world.abort(130)
    except (ElmanError, OSError, MemoryError) as error:
        if not world.begun:
            world.fail(reason(error))
        _shout(f"elman: rank {world.rank}: {reason(error)}")
        world.abort(2)
    except BaseException:
        _shout(f"rank {world.rank}: {traceback.format_exc()}")
        world.abort(1)


def _be_quiet() -> None:
    """Nothing but what this rank alone has to say."""
    sys.stdout = sys.stderr = io.StringIO()  # never read
    console.change(quiet=True)
    errors.change(quiet=True)


def _shout(text: str) -> None:
    stream = sys.__stderr__
    if stream is not None:
        stream.write(visible(text).rstrip() + "\n")
        stream.flush()
        time.sleep(PASS_ON)


class LastWords:
    """A listener: when the launcher ends a world that has lost a rank, say how to go on.

    The loop cannot say it: it hangs in an all-reduce that never ends. But a signal wakes this thread even then, and for
    a moment after it mpirun lets the ranks live.
    """

    def __init__(self, world: Ranks) -> None:
        self.world, self.saved, self.events, self.watched = world, 0, 0, False

    def __call__(self, event: Event) -> None:
        self.events += 1
        from elman.kernels.threads import thread_count

        if isinstance(event, Started) and event.run is not None:
            self.saved = event.step
            console.print(f"{self.world.size} ranks, {thread_count()} threads in this one.", markup=False)
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
        time.sleep(ANSWER)
        if events == self.events:  # no step came to its end
            _shout(self.text(run))

    def text(self, run: Path) -> str:
        from shlex import quote

        return (
            f"elman: a rank was lost, or the launcher was stopped. Everything up to step {self.saved} is saved. "
            f"To go on, with fewer ranks if need be:\n"
            f"mpirun -n {self.world.size} elman train --resume {quote(str(run))}"
        )
