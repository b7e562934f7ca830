"""From files to token ids. A text is read up to three times: for its hash, for a new vocabulary, and to encode it.

If its ids are cached, it is read only for its hash.

With `sequences` each line, or each item of a list, is a sequence, and the ids are those of all sequences, each with the
id of <end> before and after it; neighbors share it. Empty sequences are left out.

Several files are concatenated into one text. A file before the last that does not end with a newline gets one, so that
no word begins in one file and ends in the next; byte tokens are left as they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import BinaryIO, NamedTuple, cast

import numpy as np

from elman.data.bpe import BPEVocabulary
from elman.data.cache import Facts
from elman.data.checks import at_least_one, one_of
from elman.data.decoding import codec_name
from elman.data.gutenberg import Boilerplate, removal_note
from elman.data.reading import Meter, Source
from elman.data.threads import THREADS, in_order
from elman.data.vocabulary import UNKNOWN, ByteVocabulary, CharVocabulary, Encoded, Unknown, Vocabulary, characters_of
from elman.data.words import WordVocabulary, add_counts, count_words, count_words_of_each
from elman.errors import DataError, option

FORMAT = 1  # of cache entries: increase it when the same text gets other ids or metadata than before
KINDS = ("char", "byte", "word", "bpe")
SEQUENCES = ("none", "lines", "items")


@dataclass(frozen=True)
class EncodingOptions:
    """The options on which the ids of a text depend."""

    tokens: str
    encoding: str
    keep_boilerplate: bool
    vocabulary: Vocabulary | None
    vocabulary_size: int
    min_count: int
    unknown: str
    sequences: str = "none"

    def checked(self) -> EncodingOptions:
        kind = self.vocabulary.kind if self.vocabulary else one_of("tokens", self.tokens, KINDS)
        unknown = one_of("unknown", self.unknown, UNKNOWN)
        one_of("sequences", self.sequences, SEQUENCES)
        if kind == "word" and unknown == "error":
            unknown = "replace"  # rare words are meant to be read as <unk>
        at_least_one("vocabulary_size", self.vocabulary_size)
        at_least_one("min_count", self.min_count)
        return replace(self, tokens=kind, encoding=codec_name(self.encoding), unknown=unknown)

    def key(self, sha256: str) -> str:
        """The cache key: a hash of everything that the ids depend on, including the meaning of \\w in this Python."""
        vocabulary = self.vocabulary and self.vocabulary.to_json()
        values = (
            self.tokens,
            self.encoding,
            self.keep_boilerplate,
            self.vocabulary_size,
            self.min_count,
            self.unknown,
            self.sequences,
        )
        everything = json.dumps([FORMAT, unicodedata.unidata_version, sha256, vocabulary, values])
        return hashlib.sha256(everything.encode()).hexdigest()[:32]


class _Part(NamedTuple):
    """The counts of one file."""

    ids: int
    unknown: int
    characters: int
    boilerplate: Boilerplate
    empty: int  # sequences that are left out


class TextEncoder:
    """Encodes one text, from one source or several."""

    def __init__(self, sources: Sequence[Source], options: EncodingOptions, meter: Meter) -> None:
        self.sources, self.options, self.meter = sources, options, meter
        more = f" and {len(sources) - 1} more" * (len(sources) > 1)
        self.shown = f"{sources[0].shown}{more}"

    def sha256(self) -> str:
        """The hash of the bytes of a file; for several files, the hash of their hashes, one per line."""
        hashes = list(in_order(lambda source: source.sha256(), self.sources, THREADS, self.meter))
        return hashes[0] if len(hashes) == 1 else hashlib.sha256("\n".join(hashes).encode()).hexdigest()

    def write(self, out: BinaryIO) -> Facts:
        """Write the ids of the whole text; return its metadata, without the hash of the ids."""
        vocabulary, counts = self._vocabulary()
        numbers = range(len(self.sources))
        if self.options.sequences != "none":
            vocabulary = vocabulary.with_end()
            out.write(np.array(vocabulary.end, vocabulary.dtype).tobytes())
            counts = None
        if counts is not None and len(self.sources) > 1 and hasattr(os, "pwrite"):
            # the number of ids of each file is known: threads can write them at once
            starts = [n * vocabulary.dtype.itemsize for n in accumulate(counts, initial=0)]
            write: Callable[[int], _Part] = lambda n: self._write(n, vocabulary, _writer_at(out.fileno(), starts[n]))  # noqa: E731
            parts = list(in_order(write, numbers, THREADS, self.meter))
        else:
            parts = [self._write(number, vocabulary, out.write) for number in numbers]
        count, unknown = sum(part.ids for part in parts), sum(part.unknown for part in parts)
        empty = sum(part.empty for part in parts)
        if count == 0:
            if unknown == 0:
                raise self._no_text()
            raise DataError(f"{self.shown} has no token of the vocabulary of {len(vocabulary)}")
        notes = (
            removal_note([part.boilerplate for part in parts]),
            _unknown_note(self.options, count, unknown),
            f"Empty sequences left out: {empty:,}." if empty else None,
        )
        return {
            "dtype": vocabulary.dtype.name,
            "count": count + (vocabulary.end is not None),
            "vocabulary": vocabulary.to_json(),
            "characters": sum(part.characters for part in parts),
            "unknown": unknown,
            "notes": [note for note in notes if note],
        }

    def _vocabulary(self) -> tuple[Vocabulary, list[int] | None]:
        """The vocabulary, and the number of ids of each file, or None if it is not known before encoding."""
        numbers, options = range(len(self.sources)), self.options
        words_in = count_words if options.sequences == "none" else count_words_of_each
        if options.vocabulary or options.tokens == "byte":
            return options.vocabulary or ByteVocabulary(), None
        if options.tokens == "char":
            seen = list(in_order(lambda n: characters_of(self._text(n, "reading")), numbers, THREADS, self.meter))
            counts = [count for _, count in seen]
            if not any(counts):
                raise self._no_text()
            characters = set[str]().union(*(characters for characters, _ in seen))
            return CharVocabulary(characters), counts
        words: dict[str, int] = {}
        for number in numbers:  # threads would not help: counting holds the GIL
            words = add_counts(words, words_in(self._text(number, "reading")))
        if not words:
            raise self._no_text()
        if options.tokens == "bpe":
            return BPEVocabulary.learn(words, options.vocabulary_size, options.min_count), None
        vocabulary = WordVocabulary.most_frequent(words, options.vocabulary_size, options.min_count)
        if len(vocabulary) == 1:
            rare = f"no word of the text occurs {options.min_count} times or more"
            raise DataError(rare, do=f"Use a lower {option('min_count')}.")
        return vocabulary, None

    def _write(self, number: int, vocabulary: Vocabulary, write: Callable[[memoryview], object]) -> _Part:
        boilerplate = Boilerplate()
        unknown_tokens = cast(Unknown, self.options.unknown)
        if self.options.sequences != "none":
            text = self._text(number, "encoding", boilerplate)
            encoded: Iterator[Encoded] = (vocabulary.encode_sequence(one, unknown_tokens) for one in text)
        elif self.options.tokens == "byte":
            encoded = map(ByteVocabulary.encode_bytes, self.sources[number].raw("encoding"))
        else:
            encoded = vocabulary.encode_chunks(self._text(number, "encoding", boilerplate), unknown_tokens)
        count = unknown = characters = empty = 0
        for part in encoded:
            empty += self.options.sequences != "none" and not len(part.ids)
            write(part.ids.data)
            count += len(part.ids)
            unknown += part.unknown
            characters += part.characters
        return _Part(count, unknown, characters, boilerplate, empty)

    def _text(self, number: int, what: str, boilerplate: Boilerplate | None = None) -> Iterator[str]:
        """The text of one file in chunks, none empty; with a newline at its end if another file follows.

        Each sequence is a chunk; it may be empty.
        """
        chunks, last = self.sources[number].text(what, self.options.encoding), "\n"
        if not self.options.keep_boilerplate and self.options.sequences != "items":
            chunks = (boilerplate or Boilerplate()).remove(chunks)
        if self.options.sequences != "none":
            yield from lines_of(chunks) if self.options.sequences == "lines" else chunks
            return
        for chunk in filter(None, chunks):
            yield chunk
            last = chunk[-1]
        if last != "\n" and number < len(self.sources) - 1:
            yield "\n"

    def _no_text(self) -> DataError:
        removed = 0
        for number in range(len(self.sources)):
            boilerplate = Boilerplate()
            for _ in self._text(number, "reading", boilerplate):
                pass
            removed += boilerplate.before + boilerplate.after
        if not removed:
            do = "It is empty." if len(self.sources) == 1 else "They are empty."
            return DataError(f"{self.shown} has no text", do=do)
        training = self.options.vocabulary is None  # otherwise keep_boilerplate is that of the trained model
        keep = f"; {option('keep_boilerplate', True)} keeps them"
        return DataError(
            f"{self.shown} has no text: all {removed:,} characters belong to Project Gutenberg's header and "
            "footer, and nothing is between its START and END lines",
            do=f"Use another file{keep if training else ''}.",
        )


def lines_of(chunks: Iterable[str]) -> Iterator[str]:
    """The lines of a text, without their ends."""
    rest = ""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split("\n")
        yield from lines
    if rest:
        yield rest


def _writer_at(descriptor: int, start: int) -> Callable[[memoryview], object]:
    """A function that writes to consecutive positions from `start`, whatever other threads write elsewhere."""

    def write(data: memoryview) -> None:
        nonlocal start
        data = data.cast("B")
        while data:
            done = os.pwrite(descriptor, data, start)
            start, data = start + done, data[done:]

    return write


def _unknown_note(options: EncodingOptions, count: int, unknown: int) -> str | None:
    if not unknown:
        return None
    if options.unknown == "skip":
        what = "words" if options.tokens == "word" else "characters"
        return f"{unknown:,} of {count + unknown:,} {what} were skipped: they are not in the vocabulary."
    return f"{unknown:,} of {count:,} words ({unknown / count:.1%}) are not in the vocabulary and were read as <unk>."
