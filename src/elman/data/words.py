"""Word vocabularies. Splitting a text into words loses nothing: the tokens, joined, are the text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from elman.data.checks import at_least_one, few, one_of
from elman.data.vocabulary import MAX_TOKENS, UNKNOWN, Encoded, Unknown, Vocabulary
from elman.errors import RangeError, VocabularyError, option

UNK = "<unk>"  # never a word of a text: the pattern below splits it in three
MAX_COUNTED = 500_000  # different words that are counted: about 100 MB

# A word or a punctuation mark with the space before it, or one whitespace character. Words are split at 64 characters,
# so that a text without spaces cannot fill the memory.
_WORD = re.compile(r" ?\w{1,64}| ?[^\w\s]|\s")


def words_of(chunks: Iterable[str]) -> Iterator[list[str]]:
    """The words of a text that comes in chunks; the last word of a chunk is held back, because it may continue."""
    rest = ""
    for chunk in chunks:
        words = _WORD.findall(rest + chunk)
        rest = words.pop() if words else ""
        yield words
    yield _WORD.findall(rest)


def count_words(chunks: Iterable[str]) -> Counter[str]:
    """How often each word occurs."""
    counts: Counter[str] = Counter()
    for words in words_of(chunks):
        counts = add_counts(counts, words)
    return counts


def count_words_of_each(sequences: Iterable[str]) -> Counter[str]:
    """How often each word occurs in sequences: no word goes on in the next one."""
    counts: Counter[str] = Counter()
    for sequence in sequences:
        counts = add_counts(counts, _WORD.findall(sequence))
    return counts


def add_counts(counts: dict[str, int], words: Iterable[str]) -> Counter[str]:
    """Add words, or a Counter of words, to the counts; the rarest are dropped if there are more than MAX_COUNTED."""
    counts = counts if isinstance(counts, Counter) else Counter(counts)
    counts.update(words)
    while len(counts) > MAX_COUNTED:
        rarest = min(counts.values())
        counts = Counter({word: count for word, count in counts.items() if count > rarest})
    return counts


class WordVocabulary(Vocabulary):
    """Words and punctuation, each with the space before it, and whitespace characters; id 0 is `<unk>`."""

    kind = "word"

    def __init__(self, tokens: Iterable[str]) -> None:
        self.tokens = tuple(tokens)
        if self.tokens[:1] != (UNK,) or "" in self.tokens or len(set(self.tokens)) != len(self.tokens):
            raise VocabularyError(
                "a word vocabulary",
                expected=f"{UNK}, then different words, none empty",
                got=few(self.tokens) or "none",
            )
        self._ids = {token: i for i, token in enumerate(self.tokens)}

    @classmethod
    def of(cls, chunks: Iterable[str], vocabulary_size: int = 20_000, min_count: int = 2) -> WordVocabulary:
        """At most vocabulary_size words, the most frequent first, equally frequent ones by code point.

        `<unk>` (id 0) is added to them. Beyond half a million different words the rarest counts are dropped, so that
        memory does not grow with the text. A rare word of a large text may then be missing although it occurs min_count
        times.
        """
        return cls.most_frequent(count_words(chunks), vocabulary_size, min_count)

    @classmethod
    def most_frequent(cls, counts: dict[str, int], vocabulary_size: int, min_count: int) -> WordVocabulary:
        """`<unk>` and at most vocabulary_size words, the most frequent ones, from their counts."""
        if at_least_one("vocabulary_size", vocabulary_size) >= MAX_TOKENS:
            raise RangeError("vocabulary_size", expected=f"less than {MAX_TOKENS}", got=vocabulary_size)
        at_least_one("min_count", min_count)
        ranked = sorted((-count, word) for word, count in counts.items() if count >= min_count)
        return cls([UNK, *(word for _, word in ranked[:vocabulary_size])])

    def encode_chunks(self, chunks: Iterable[str], unknown: Unknown) -> Iterator[Encoded]:
        for words in words_of(chunks):
            yield self._encode_words(words, unknown)

    def _encode(self, text: str, unknown: Unknown) -> Encoded:
        return self._encode_words(_WORD.findall(text), unknown)

    def _encode_words(self, words: list[str], unknown: Unknown) -> Encoded:
        one_of("unknown", unknown, UNKNOWN)
        ids = np.fromiter((self._ids.get(word, 0) for word in words), self.dtype, len(words))
        missing = [words[i] for i in np.flatnonzero(ids == 0)]
        if missing and unknown == "error":
            raise VocabularyError(
                f"the text has words that the vocabulary of {len(self)} words does not contain",
                got=few(dict.fromkeys(missing)),
                do=f"Use {option('unknown', 'replace')} to read them as {UNK}, or {option('unknown', 'skip')} to leave "
                "them out.",
            )
        characters = sum(map(len, words))
        if unknown == "skip":
            characters -= sum(map(len, missing))
            ids = ids[ids != 0]
        return Encoded(ids, unknown=len(missing), characters=characters)
