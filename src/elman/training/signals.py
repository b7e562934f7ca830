"""Ctrl-C and SIGTERM during a training.

After the first step, the first signal makes the loop finish its step, save and stop; the second ends the process at
once. Before the first step there is nothing to save, and the first signal ends the process.

Python runs its handlers only in the main thread, and not while that thread is in compiled code, which may take minutes:
compiling, or a step of a large network. Therefore every signal also wakes a separate thread, which makes the loop
stop, or ends the process if the main thread does not do so in time.

With several MPI ranks there is no such thread, and the first signal always makes all ranks stop together, after a step.

SIGUSR1, which mpirun forwards to its ranks and which Slurm can send before a job ends, always makes the loop finish its
step, save and stop.
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
GRACE = 1.0  # seconds that the main thread has to clean up and end


class Stopping:
    """Called by the loop after each step: whether to stop. `notify` shows a message to the user."""

    def __init__(self, notify: Callable[[str], None] = lambda text: None) -> None:
        self.notify = notify
        self.begun = False  # whether there is a step to save
        self.asked = False  # whether a signal asked to stop
        self.ended = False  # whether the training is over
        self.raised: BaseException | None = None  # by the handler of a signal

    def __call__(self) -> bool:
        return self.asked

    def receive(self, number: int) -> None:
        """Handle a signal: in the thread of `_listen`; in a rank of MPI, which has no such thread, in the handler."""
        if number == SAVE:
            self._ask()
        elif self.asked:
            _exit(number)  # files are written atomically, so there is nothing to clean up
        elif self.begun or world().size > 1:  # ranks stop together, after a step
            self._ask()
        else:
            time.sleep(GRACE)
            if not self.ended:
                _exit(number)

    def _ask(self) -> None:
        if not self.asked:
            self.asked = True
            with suppress(OSError):  # a closed terminal must not prevent saving
                self.notify("Stopping after this step; press Ctrl-C again to quit at once.")

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """The handler, in the main thread: raises an exception if there is no step to save; `receive` does the rest."""
        if not self.begun and number != SAVE:
            self.raised = KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
            raise self.raised

    @contextmanager
    def not_lost(self) -> Iterator[None]:
        """Keep an interrupt that arrives in a callback of LLVM, where Python prints it and drops it.

        Nothing is printed, and the loop stops after its step. If Numba fails because of the dropped interrupt, the
        interrupt is raised instead of that error.
        """
        report = sys.unraisablehook

        def dropped(unraisable: sys.UnraisableHookArgs) -> None:
            if self.raised is not None and unraisable.exc_value is self.raised:
                self.asked = True
            else:
                report(unraisable)

        sys.unraisablehook = dropped
        try:
            yield
        except Exception:
            if self.raised is None:
                raise
            raise self.raised from None
        finally:
            sys.unraisablehook = report


@contextmanager
def stop_on_signals(notify: Callable[[str], None] = lambda text: None) -> Iterator[Callable[[], bool]]:
    """A function that tells whether to stop; outside the main thread no handler can be set, and it returns False."""
    stopping = Stopping(notify)
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    if world().size > 1:  # cli/mpi.py uses the wakeup fd of a rank, only to print: here the handlers ask to stop
        with _handled({number: lambda number, frame: stopping.receive(number) for number in SIGNALS}):
            yield stopping
        return
    listen, wake = socket.socketpair()
    wake.setblocking(False)
    threading.Thread(target=_listen, args=(listen, stopping), daemon=True).start()
    with listen, wake, _handled(dict.fromkeys(SIGNALS, stopping.interrupt)):
        before = signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        try:
            with stopping.not_lost():
                yield stopping
        finally:
            stopping.ended = True
            signal.set_wakeup_fd(before)
            listen.shutdown(socket.SHUT_RDWR)  # ends the thread


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """For `fit` in a user's program: the first Ctrl-C after the first step asks to stop, any other one raises
    KeyboardInterrupt.

    Outside the main thread, or if the program has its own handler of Ctrl-C, nothing changes.
    """
    stopping = Stopping()

    def handle(number: int, frame: FrameType | None) -> None:
        if stopping.asked or not stopping.begun:
            stopping.raised = KeyboardInterrupt()
            raise stopping.raised
        stopping.asked = True

    default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not default or threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    with _handled({signal.SIGINT: handle}), stopping.not_lost():
        yield stopping


def raise_if_interrupted(finished: Finished) -> None:
    """Raise KeyboardInterrupt if stop_on_interrupt stopped the training; the caller must keep the model first."""
    if finished.why == "interrupted":
        text = f"Interrupted after step {finished.step}: the model is fitted, with the best parameters so far."
        try:
            warnings.warn(text, InterruptedWarning, stacklevel=3)
        finally:  # also if warnings are errors
            raise KeyboardInterrupt


@contextmanager
def _handled(handlers: dict[signal.Signals, Callable[[int, FrameType | None], None]]) -> Iterator[None]:
    """Use these signal handlers inside the `with` block."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _listen(listen: socket.socket, stopping: Stopping) -> None:
    """Handle the signals that the wakeup fd reports, in a separate thread."""
    with suppress(OSError):  # it was closed: the training is over
        while number := listen.recv(1):
            if number[0] in SIGNALS:
                stopping.receive(number[0])


def _exit(number: int) -> NoReturn:
    """End the process at once, with the exit status of this signal."""
    with suppress(Exception):
        if sys.stdout.isatty():
            sys.stdout.write("\x1b[?25h\n")  # show the cursor, which a progress bar hides
            sys.stdout.flush()
    os._exit(128 + number)
