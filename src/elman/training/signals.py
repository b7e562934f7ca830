"""Ctrl-C and SIGTERM: the first asks the loop to finish its step and save, the second leaves at once.

SIGUSR1, which mpirun passes on to its ranks and which Slurm can send ahead of a job's end, asks for the same, however
often it comes.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SAVE = getattr(signal, "SIGUSR1", None)  # not on Windows
SIGNALS = [signal.SIGINT, signal.SIGTERM, *([SAVE] if SAVE else [])]


@contextmanager
def stop_on_signals(say: Callable[[str], None] = lambda text: None) -> Iterator[Callable[[], bool]]:
    """A function that tells whether to stop; outside the main thread, where no handler can be set, it never does."""
    asked = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if asked.is_set() and number == SAVE:
            return
        if asked.is_set():
            os._exit(128 + number)  # what was saved is whole, so there is nothing to tidy up
        asked.set()
        with suppress(OSError):  # whoever would read it may have gone: that is no reason not to save
            say("Stopping after this step; once more leaves at once.")

    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
