"""The consoles for output and for errors, and progress bars on a terminal.

rich is imported when it is first used: the import takes a tenth of a second.
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
    """The text with each control character replaced by its escape sequence, such as \\x1b for ESC.

    Control characters of an untrusted file could reconfigure the terminal.
    """
    return CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def write(text: str) -> None:
    """Write to stdout: unchanged to a file or pipe, with visible control characters on a terminal."""
    if sys.stdout.isatty():
        sys.stdout.write(visible(text))
        sys.stdout.flush()
    else:
        sys.stdout.write(text)


class _LazyConsole:
    """A rich.console.Console that is made when it is first used."""

    def __init__(self, **options: Any) -> None:
        self._options = options

    @cached_property
    def rich(self) -> Console:
        from rich.console import Console

        class OurConsole(Console):
            def on_broken_pipe(self) -> None:
                raise  # noqa: PLE0704 - the BrokenPipeError that rich handles when it calls this; main handles it

            def render(self, *args: Any, **options: Any) -> Iterable[Segment]:
                """Make control characters visible: all text passes here before rich adds its own escape codes."""
                for segment in super().render(*args, **options):
                    yield segment if segment.control else segment._replace(text=visible(segment.text))

        return OurConsole(highlight=False, soft_wrap=True, **self._options)

    def change(self, **options: Any) -> None:
        """Change options of rich.console.Console for all later output."""
        self._options |= options
        self.__dict__.pop("rich", None)

    def print(self, *objects: object, **options: Any) -> None:
        self.rich.print(*objects, **options)

    @property
    def is_terminal(self) -> bool:
        return self.rich.is_terminal


console = _LazyConsole()
errors = _LazyConsole(stderr=True)


def reason(error: Exception) -> str:
    """The message for an error that is expected, not a bug."""
    if isinstance(error, OSError) and not isinstance(error, ElmanError):
        if error.errno == errno.ENOSPC and not error.filename:  # without a file name: of stdout
            return f"the output cannot be written: {error.strerror}"
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    if isinstance(error, MemoryError):
        advice = "Use a smaller model or a shorter text; for elman train a smaller --hidden, --batch-size or --window."
        return f"not enough memory{f': {error}' if str(error) else ''}. {advice}"
    return str(error)


def track(items: Sequence[T], what: str) -> Iterable[T]:
    """The items, with a progress bar that disappears at the end; without one if stderr is not a terminal."""
    from rich.progress import track as rich_track

    return rich_track(items, what, console=errors.rich, transient=True, disable=not errors.is_terminal)
