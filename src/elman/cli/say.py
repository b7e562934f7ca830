"""What people see: one console for words, one for errors, progress where there is a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import track as rich_track

T = TypeVar("T")


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 - the BrokenPipeError in whose handler rich calls this: main deals with it


console = _Console(highlight=False, soft_wrap=True)
errors = _Console(stderr=True, highlight=False, soft_wrap=True)


def track(items: Sequence[T], what: str) -> Iterable[T]:
    """The items, with a progress bar that vanishes when it is done; nothing where nobody watches."""
    return rich_track(items, what, console=errors, transient=True, disable=not errors.is_terminal)
