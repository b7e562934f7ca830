"""Project Gutenberg's header and footer, recognized and removed from a stream of text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

MAX_HEADER = 1 << 16  # characters before the START line

# The pattern of the END line includes the newline before it, because a chunk may begin in the middle of a line.
_START = re.compile(r"^\*\*\* ?START OF (?:THE|THIS) PROJECT GUTENBERG", re.MULTILINE | re.IGNORECASE)
_END = re.compile(r"\n\*\*\* ?END OF (?:THE|THIS) PROJECT GUTENBERG", re.IGNORECASE)
_END_LENGTH = len("\n*** END OF THIS PROJECT GUTENBERG")


class Boilerplate:
    """Removes all up to and including the START line, all from the END line on, and the blank lines around the rest.

    A text without a START line near its beginning passes unchanged.
    """

    def __init__(self) -> None:
        self.before = 0  # characters removed before the text
        self.after = 0  # and after it

    def remove(self, chunks: Iterable[str]) -> Iterator[str]:
        """The text without header and footer."""
        self.before = self.after = 0
        chunks = iter(chunks)
        head = ""
        for chunk in chunks:
            head += chunk
            if len(head) >= MAX_HEADER:
                break
        start = _START.search(head, 0, MAX_HEADER)
        if start is None:
            yield head
            yield from chunks
            return
        self.before, rest = start.end(), head[start.end() :]
        while "\n" not in rest:  # the START line continues in the next chunk
            self.before += len(rest)
            rest = next(chunks, "\n")
        line, newline, rest = rest.partition("\n")
        self.before += len(line)
        yield from self._without_footer(chain([newline + rest], chunks))

    def _without_footer(self, chunks: Iterator[str]) -> Iterator[str]:
        begun = False
        held = ""  # not yet returned: a possible beginning of the END line, and blank lines that may be the last
        for chunk in chunks:
            held += chunk
            end = _END.search(held)
            body = held[: end.start() if end else max(len(held) - _END_LENGTH, 0)].rstrip("\n")
            held = held[len(body) :]
            if not begun:
                blank = len(body) - len(body.lstrip("\n"))
                body, begun, self.before = body[blank:], blank < len(body), self.before + blank
            if body:
                yield body
            if end:
                self.after = len(held) + sum(map(len, chunks))
                return
        last = held.rstrip("\n")
        self.after = len(held) - len(last)
        if last := last if begun else last.lstrip("\n"):
            yield last


def removal_note(files: Sequence[Boilerplate]) -> str | None:
    """A sentence for the user, if anything was removed."""
    marked = [file for file in files if file.before]
    if not marked:
        return None
    before, after = sum(file.before for file in marked), sum(file.after for file in marked)
    where = f" from {len(marked)} of {len(files)} files" if len(files) > 1 else ""
    return (
        f"Project Gutenberg's header and footer were removed{where}: {before:,} characters before the text and"
        f" {after:,} after it (the option keep_boilerplate keeps them)."
    )
