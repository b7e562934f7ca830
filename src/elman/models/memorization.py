"""How much of a sample is copied from the training text: a measure of memorization."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from elman.data import Vocabulary
from elman.maths.arrays import Array

WINDOW = 12  # characters
CHUNK = 1 << 20  # tokens of the training text that are decoded at once

# the positions in the sample of each of its substrings of WINDOW characters, by the character before the substring
Places = dict[str, dict[str, list[int]]]


class CopyReport(NamedTuple):
    """How much of a sample occurs verbatim in the training text.

    Parameters
    ----------
    longest : str
        The longest copied substring of at least 12 characters, or an empty string.
    share : float
        The share of all substrings of 12 characters that are copied.
    windows : int
        The number of substrings of 12 characters.
    """

    longest: str
    share: float
    windows: int

    def __str__(self) -> str:
        if not self.windows:
            return f"too short to say: copies are counted in substrings of {WINDOW} characters"
        copied = f"{self.share:.0%} of its {WINDOW}-character substrings occur in the training text"
        return f"{copied}; the longest has {len(self.longest)}: {self.longest!r}" if self.longest else copied


def whole_sequence(sequence: Array, ids: Array) -> bool:
    """Whether the ids contain this sequence, with the <end> on both sides."""
    places, width = np.flatnonzero(ids == sequence[0]), len(sequence)
    near = np.diff(places, append=0) == width - 1  # sequences of the same length
    return any(np.array_equal(ids[at : at + width], sequence) for at in places[near].tolist())


def copy_report(sample: str, vocabulary: Vocabulary, ids: Array) -> CopyReport:
    """Compare a sample with the text that these ids encode, in one pass over it."""
    places: Places = defaultdict(lambda: defaultdict(list))
    for at in range(len(sample) - WINDOW + 1):
        places[sample[at : at + WINDOW]][sample[at - 1 : at]].append(at)
    if not places:
        return CopyReport("", 0.0, 0)
    wanted = np.unique(_hashes("".join(places), step=WINDOW))
    found: set[str] = set()
    longest = ""
    for text in _chunks(vocabulary, ids, overlap=len(sample)):
        for at in np.flatnonzero(np.isin(_hashes(text), wanted)).tolist():
            window = text[at : at + WINDOW]
            if window not in places:
                continue  # a hash collision
            found.add(window)
            for before, starts in places[window].items():
                if before and before == text[at - 1 : at]:
                    continue  # part of a longer match that was found from its beginning
                for start in starts:
                    end = start + len(longest) + 1
                    # longer than the longest match so far?
                    if end <= len(sample) and text.startswith(sample[start:end], at):
                        longest = sample[start : start + _common(sample, start, text, at)]
    windows = len(sample) - WINDOW + 1
    copied = sum(len(starts) for window in found for starts in places[window].values())
    return CopyReport(longest, copied / windows, windows)


def _hashes(text: str, step: int = 1) -> Array:
    """A hash of the substring of WINDOW characters at every `step`-th position."""
    code = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    if len(code) < WINDOW:
        return np.zeros(0, np.uint64)
    total = np.zeros(len(code) - WINDOW + 1, np.uint64)
    for offset in range(WINDOW):
        total = total * np.uint64(1_000_003) + code[offset : offset + len(total)]  # modulo 2^64
    return total[::step]


def _chunks(vocabulary: Vocabulary, ids: Array, overlap: int) -> Iterator[str]:
    """The text in overlapping pieces, so that every substring of up to `overlap` characters is whole in one of them."""
    before = 4 * overlap + 4  # tokens: a character has at most 4, and the first one of a piece may be cut
    for start in range(0, len(ids), CHUNK):
        yield vocabulary.decode(ids[max(0, start - before) : start + CHUNK])


def _common(a: str, i: int, b: str, j: int) -> int:
    """The length of the common prefix of a[i:] and b[j:], which is known to have at least WINDOW characters."""
    size = WINDOW
    while i + size < len(a) and j + size < len(b) and a[i + size] == b[j + size]:
        size += 1
    return size
