"""The consoles for output and for errors, and progress bars on a terminal.

Importing rich takes a tenth of a second, which a command that only writes text need not wait for.
"""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from elman.errors import ElmanError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.segment import Segment

T = TypeVar("T")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # C0 without tab and newline, DEL, C1


def visible(text: str) -> str:
    """Control characters as \\x1b: from a foreign file they could retitle, recolor or reprogram the terminal."""
    return CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def write(text: str) -> None:
    """What a model says, on stdout: exactly into a file or a pipe, with visible control characters on a terminal."""
    if sys.stdout.isatty():
        sys.stdout.write(visible(text))
        sys.stdout.flush()
    else:
        sys.stdout.write(text)


class _Lazy:
    """A console of rich's that is made when it is first used."""

    def __init__(self, **options: Any) -> None:
        self._options = options

    @cached_property
    def rich(self) -> Console:
        from rich.console import Console

        class OurConsole(Console):
            def on_broken_pipe(self) -> None:
                raise  # noqa: PLE0704 - the BrokenPipeError in whose handler rich calls this: main deals with it

            def render(self, *args: Any, **options: Any) -> Iterable[Segment]:
                """All text passes here, before rich adds codes of its own."""
                for segment in super().render(*args, **options):
                    yield segment if segment.control else segment._replace(text=visible(segment.text))

        return OurConsole(highlight=False, soft_wrap=True, **self._options)

    def change(self, **options: Any) -> None:
        """For whatever is printed from now on."""
        self._options |= options
        self.__dict__.pop("rich", None)

    def print(self, *objects: object, **options: Any) -> None:
        self.rich.print(*objects, **options)

    @property
    def is_terminal(self) -> bool:
        return self.rich.is_terminal


console = _Lazy()
errors = _Lazy(stderr=True)


def reason(error: Exception) -> str:
    """What an error that is no bug says to a person."""
    if isinstance(error, OSError) and not isinstance(error, ElmanError):
        if error.errno == errno.ENOSPC and not error.filename:  # nothing that we opened: what we were given to write to
            return f"the output cannot be written: {error.strerror}"
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}. Take a smaller --hidden, --batch-size or --window."
    return str(error)


def track(items: Sequence[T], what: str) -> Iterable[T]:
    """The items, with a progress bar that vanishes when it is done; nothing where nobody watches."""
    from rich.progress import track as rich_track

    return rich_track(items, what, console=errors.rich, transient=True, disable=not errors.is_terminal)
