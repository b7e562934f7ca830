"""Byte-level byte-pair encoding (Sennrich et al. 2016; on bytes: Radford et al. 2019): subwords for any text.

A text is split into words as in words.py, each with the space before it, and a word into the bytes of its UTF-8. Ids 0
to 255 are the bytes. Learning repeatedly merges the most frequent pair of neighbors into a new token; encoding merges
pairs in the order in which they were learned. No text has unknown tokens.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from elman.data.checks import at_least_one, one_of
from elman.data.vocabulary import MAX_TOKENS, UNKNOWN, Encoded, Unknown, Vocabulary
from elman.data.words import count_words, words_of
from elman.errors import RangeError, VocabularyError, option

Pair = tuple[int, int]
MAX_TOKEN_BYTES = 1024  # learned tokens are shorter: a word is a space and 64 characters of 4 bytes at most
MAX_CACHED_WORDS = 1 << 18  # words whose ids are cached


class BPEVocabulary(Vocabulary):
    """Subwords, given by the list of merges: merge i joins two earlier tokens into token 256 + i.

    Parameters
    ----------
    merges : sequence of (int, int)
        Pairs of ids, in the order in which they were learned.

    Examples
    --------
    >>> from elman.data import BPEVocabulary
    >>> vocabulary = BPEVocabulary.of(["low lower lowest low"], vocabulary_size=260)
    >>> [vocabulary.tokens[i] for i in vocabulary.encode("lower")]
    ['low', 'e', 'r']
    >>> vocabulary.decode(vocabulary.encode("naïve 🙂"))
    'naïve 🙂'
    """

    kind = "bpe"

    def __init__(self, merges: Sequence[Pair]) -> None:
        if len(merges) > MAX_TOKENS - 256:
            expected = f"at most {MAX_TOKENS - 256}, so that there are at most {MAX_TOKENS} tokens"
            raise VocabularyError("merges", expected=expected, got=len(merges))
        pieces = [bytes([i]) for i in range(256)]
        for left, right in merges:
            if not (0 <= left < len(pieces) and 0 <= right < len(pieces)):
                raise VocabularyError("a merge", expected=f"ids from 0 to {len(pieces) - 1}", got=f"{left}, {right}")
            pieces.append(pieces[left] + pieces[right])
            if len(pieces[-1]) > MAX_TOKEN_BYTES:
                raise VocabularyError("merges", expected=f"tokens of at most {MAX_TOKEN_BYTES} bytes")
        self.merges = tuple((int(left), int(right)) for left, right in merges)
        self._ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        if len(self._ranks) < len(self.merges):
            raise VocabularyError("merges", expected="different pairs")
        self.pieces = tuple(pieces)
        self.tokens = tuple(map(_name, pieces))  # for display: two tokens may have the same name
        self._cache: dict[str, tuple[int, ...]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BPEVocabulary) and (self.merges, self.end) == (other.merges, other.end)

    def __hash__(self) -> int:
        return hash(self.merges)

    @classmethod
    def of(cls, chunks: Iterable[str], vocabulary_size: int = 2048, min_count: int = 2) -> BPEVocabulary:
        """Learn subwords from a text: at most vocabulary_size tokens, from pairs that occur min_count times or more."""
        return cls.learn(count_words(chunks), vocabulary_size, min_count)

    @classmethod
    def learn(cls, counts: Mapping[str, int], vocabulary_size: int, min_count: int = 2) -> BPEVocabulary:
        """Learn from word counts. Of equally frequent pairs the one with the lower ids is merged first."""
        at_least_one("min_count", min_count)
        if not 256 <= at_least_one("vocabulary_size", vocabulary_size) <= MAX_TOKENS:
            larger = f"Subwords begin with the 256 bytes: choose a larger {option('vocabulary_size')}."
            do = larger if vocabulary_size < 256 else None
            raise RangeError("vocabulary_size", expected=f"256 to {MAX_TOKENS} for bpe", got=vocabulary_size, do=do)
        words = [list(_bytes_of(word)) for word in counts]
        weights = list(counts.values())
        pairs: Counter[Pair] = Counter()
        words_with: defaultdict[Pair, set[int]] = defaultdict(set)  # indices of words with the pair, now or earlier
        for i, ids in enumerate(words):
            for pair in pairwise(ids):
                pairs[pair] += weights[i]
                words_with[pair].add(i)
        heap = [(-count, pair) for pair, count in pairs.items()]
        heapq.heapify(heap)
        merges: list[Pair] = []
        while heap and len(merges) < vocabulary_size - 256:
            count, best = heapq.heappop(heap)
            if -count != pairs[best]:  # outdated: the count has changed
                if pairs[best] >= min_count:
                    heapq.heappush(heap, (-pairs[best], best))
                continue
            if -count < min_count:
                break
            new, changed = 256 + len(merges), set()
            merges.append(best)
            for i in words_with.pop(best):
                before, after = words[i], _merged(words[i], best, new)
                for pair in pairwise(before):
                    pairs[pair] -= weights[i]
                for pair in pairwise(after):
                    pairs[pair] += weights[i]
                    if new in pair:
                        words_with[pair].add(i)
                        changed.add(pair)
                words[i] = after
            for pair in changed:
                heapq.heappush(heap, (-pairs[pair], pair))
        return cls(merges)

    def encode_chunks(self, chunks: Iterable[str], unknown: Unknown) -> Iterator[Encoded]:
        for words in words_of(chunks):
            yield self._encode_words(words, unknown)

    def _encode(self, text: str, unknown: Unknown) -> Encoded:
        return self._encode_words([word for words in words_of([text]) for word in words], unknown)

    def _encode_words(self, words: Sequence[str], unknown: Unknown) -> Encoded:
        one_of("unknown", unknown, UNKNOWN)
        ids = np.fromiter((i for word in words for i in self._cache.get(word) or self._ids_of(word)), self.dtype)
        return Encoded(ids, unknown=0, characters=sum(map(len, words)))

    def _ids_of(self, word: str) -> tuple[int, ...]:
        """The ids of one word: merge the pair that was learned first, until no known pair is left."""
        ids, ranks, unknown = list(_bytes_of(word)), self._ranks, len(self.merges)
        while len(ids) > 1:
            rank = min(ranks.get(pair, unknown) for pair in pairwise(ids))
            if rank == unknown:
                break
            ids = _merged(ids, self.merges[rank], 256 + rank)
        if len(self._cache) >= MAX_CACHED_WORDS:
            self._cache.clear()
        found = self._cache[word] = tuple(ids)
        return found

    def to_json(self) -> dict[str, object]:
        return {"kind": self.kind, "merges": [list(pair) for pair in self.merges]} | self._end_json()

    @staticmethod
    def merges_from_json(value: Any) -> list[Pair]:
        """The merges, if they have the form that to_json writes; ValueError otherwise."""
        if not isinstance(value, list) or len(value) > MAX_TOKENS:
            raise ValueError("merges")
        for pair in value:
            if not isinstance(pair, list) or len(pair) != 2 or not all(type(i) is int for i in pair):
                raise ValueError("merges")
        return [(left, right) for left, right in value]


def _bytes_of(word: str) -> bytes:
    return word.encode("utf-8", "surrogatepass")


def _merged(ids: Sequence[int], pair: Pair, new: int) -> list[int]:
    """The ids with every occurrence of the pair, from the left, replaced by a new id."""
    out, i, last = [], 0, len(ids) - 1
    left, right = pair
    while i <= last:
        if i < last and ids[i] == left and ids[i + 1] == right:
            out.append(new)
            i += 2
        else:
            out.append(ids[i])
            i += 1
    return out


def _name(piece: bytes) -> str:
    """The text of a token if it is whole, printable characters or a newline; else its bytes in hexadecimal."""
    try:
        text = piece.decode()
    except UnicodeDecodeError:
        text = ""
    return text if text and (text.isprintable() or text == "\n") else "".join(f"0x{byte:02X}" for byte in piece)
