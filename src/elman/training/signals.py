"""Ctrl-C and SIGTERM during a training.

As soon as a step was taken, the first signal asks the loop to finish its step and save, the second leaves at once.
Before that there is nothing to save, and the first one leaves.

Python runs its handlers in the main thread alone, and not while that computes in compiled code, which may take minutes:
compiling, or a step of a large network. Therefore a thread of its own is woken by every signal, and ends the process
where the main thread does not do it in time.

SIGUSR1, which mpirun passes on to its ranks and which Slurm can send ahead of a job's end, asks for the same as the
first signal, however often it comes.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from elman.errors import InterruptedWarning
from elman.training.distributed import world
from elman.training.events import Finished

SAVE = getattr(signal, "SIGUSR1", None)  # not on Windows
SIGNALS = [signal.SIGINT, signal.SIGTERM, *([SAVE] if SAVE else [])]
GRACE = 1.0  # seconds in which the main thread may tidy up and leave


class Stopping:
    """Called by the loop after each step: whether to stop. Since it has `begun` there is something to save."""

    def __init__(self, say: Callable[[str], None] = lambda text: None) -> None:
        self.say, self.begun, self.asked, self.ended = say, False, False, False

    def __call__(self) -> bool:
        return self.asked

    def hear(self, number: int) -> None:
        """A signal, in the thread that waits for them; or in the main thread, where there is none."""
        if number == SAVE:
            self._ask()
        elif self.asked:
            _leave(number)  # what was saved is whole, so there is nothing to tidy up
        elif self.begun or world().size > 1:  # ranks stop together, after a step
            self._ask()
        else:
            time.sleep(GRACE)
            if not self.ended:
                _leave(number)

    def _ask(self) -> None:
        if not self.asked:
            self.asked = True
            with suppress(OSError):  # whoever would read it may have gone: that is no reason not to save
                self.say("Stopping after this step; press Ctrl-C again to quit at once.")

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """A signal, in the main thread."""
        if not self.begun and number != SAVE:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)


@contextmanager
def stop_on_signals(say: Callable[[str], None] = lambda text: None) -> Iterator[Callable[[], bool]]:
    """A function that tells whether to stop; outside the main thread, where no handler can be set, it never does."""
    stopping = Stopping(say)
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    if world().size > 1:  # the command wakes a thread of its own, see cli/mpi.py
        with _handled({number: lambda number, frame: stopping.hear(number) for number in SIGNALS}):
            yield stopping
        return
    listen, wake = socket.socketpair()
    wake.setblocking(False)
    threading.Thread(target=_listen, args=(listen, stopping), daemon=True).start()
    with listen, wake, _handled(dict.fromkeys(SIGNALS, stopping.interrupt)):
        before = signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        try:
            yield stopping
        finally:
            stopping.ended = True
            signal.set_wakeup_fd(before)
            listen.shutdown(socket.SHUT_RDWR)  # ends the thread


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """For a call in somebody's own program: the first Ctrl-C after a step asks to stop, any other interrupts at once.

    Nothing changes outside the main thread, and where the program deals with Ctrl-C itself.
    """
    stopping = Stopping()

    def handle(number: int, frame: FrameType | None) -> None:
        if stopping.asked or not stopping.begun:
            raise KeyboardInterrupt
        stopping.asked = True

    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    with _handled({signal.SIGINT: handle}):
        yield stopping


def raise_if_interrupted(finished: Finished) -> None:
    """After stop_on_interrupt, once the model is kept."""
    if finished.why == "interrupted":
        text = f"Interrupted after step {finished.step}: the model is fitted, with the best parameters so far."
        try:
            warnings.warn(text, InterruptedWarning, stacklevel=3)
        finally:  # also where warnings are errors
            raise KeyboardInterrupt


@contextmanager
def _handled(handlers: dict[signal.Signals, Callable[[int, FrameType | None], None]]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _listen(listen: socket.socket, stopping: Stopping) -> None:
    with suppress(OSError):  # it was closed: the training is over
        while number := listen.recv(1):
            if number[0] in SIGNALS:
                stopping.hear(number[0])


def _leave(number: int) -> NoReturn:
    with suppress(Exception):
        if sys.stdout.isatty():
            sys.stdout.write("\x1b[?25h\n")  # the cursor, which a progress bar hides
            sys.stdout.flush()
    os._exit(128 + number)
