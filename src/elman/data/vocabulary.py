"""Vocabularies: text to token ids and back, by character or byte (by word: words.py, by subword: bpe.py).

Ids are arrays of the smallest of uint8, uint16 and uint32 that fits. An unknown character or word is an error that
names it, unless the caller wants it skipped or, if it is a word, replaced by `<unk>`.

The vocabulary of a model of sequences has one more token, the last one: `<end>` begins and ends every sequence. It is
never part of a text.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from copy import copy
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from elman.data.checks import few, one_of
from elman.errors import DtypeError, RangeError, VocabularyError, option
from elman.maths.arrays import Array

Unknown = Literal["error", "skip", "replace"]  # what to do with tokens that are not in the vocabulary
UNKNOWN = ("error", "skip", "replace")
MAX_TOKENS = 0x110000  # the number of Unicode code points
NO_TOKEN = 0xFFFFFFFF  # no id is as large
END = "<end>"


class Encoded(NamedTuple):
    """A piece of text as ids."""

    ids: Array
    unknown: int  # how many tokens were skipped or replaced
    characters: int  # how many characters the ids stand for


class Decoder(Protocol):
    """Ids to text, one at a time: the results of `feed` and `end`, joined, are the text that `decode` gives."""

    def feed(self, token: int) -> str: ...
    def end(self) -> str: ...


class Vocabulary(ABC):
    """A set of tokens with ids from 0; the base class of all kinds of vocabularies."""

    kind: ClassVar[str]
    tokens: tuple[str, ...]
    pieces: tuple[bytes, ...] = ()  # the bytes of each token; empty if tokens are characters or words
    end: int | None = None  # the id of <end>; None if the model reads one text, not sequences

    def __len__(self) -> int:
        return len(self.tokens)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and (self.kind, self.tokens) == (other.kind, other.tokens)

    def __hash__(self) -> int:
        return hash((self.kind, self.tokens))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} tokens>"

    def with_end(self) -> Self:
        """This vocabulary with the token <end>."""
        if self.end is not None:
            return self
        other = copy(self)
        other.tokens, other.end = (*self.tokens, END), len(self)
        other.pieces = (*self.pieces, b"") if self.pieces else ()
        return other

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest unsigned integers that hold every id."""
        return np.min_scalar_type(len(self) - 1)

    def encode(self, text: str, *, unknown: Unknown = "error") -> Array:
        """The ids (N,) of a text; `unknown` says what happens to tokens that are not in the vocabulary."""
        if not isinstance(text, str):
            raise DtypeError("text", expected="a str", got=type(text).__name__)
        return self._encode(text, unknown).ids

    def read(self, text: str, *, unknown: Unknown | None = None, whole: bool = False) -> Array:
        """The ids (N,) in which a model reads a text: a sequence begins with <end> and, if it is whole, ends with it.

        Unless `unknown` says something else, unknown words become <unk>, and unknown characters are an error.
        """
        ids = self.encode(text, unknown=unknown or ("replace" if self.kind == "word" else "error"))
        return ids if self.end is None else np.array([self.end, *ids, *[self.end] * whole], self.dtype)

    def encode_sequence(self, text: str, unknown: Unknown) -> Encoded:
        """A sequence and the <end> after it; nothing for a sequence of which nothing is left."""
        encoded = self._encode(text, unknown)
        if not len(encoded.ids):
            return encoded
        return encoded._replace(ids=np.append(encoded.ids, np.array(self.end, self.dtype)))

    def encode_chunks(self, chunks: Iterable[str], unknown: Unknown) -> Iterator[Encoded]:
        """Encode a text that comes in chunks; the ids do not depend on where the chunks end."""
        for chunk in chunks:
            yield self._encode(chunk, unknown)

    @abstractmethod
    def _encode(self, text: str, unknown: Unknown) -> Encoded: ...

    def decode(self, ids: npt.ArrayLike) -> str:
        """The text that ids (N,) stand for."""
        known = self._checked(ids).tolist()
        if self.pieces:
            return b"".join(map(self.pieces.__getitem__, known)).decode("utf-8", "replace")
        return "".join(self.tokens[i] for i in known if i != self.end)

    def decoder(self) -> Decoder:
        """A decoder for ids that come one at a time."""
        return ByteDecoder(self) if self.pieces else _TokenDecoder(self)

    def to_json(self) -> dict[str, object]:
        """The vocabulary as JSON, for `vocabulary_from_json`."""
        return {"kind": self.kind, "tokens": list(self.tokens[: self.end])} | self._end_json()

    def _end_json(self) -> dict[str, object]:
        return {} if self.end is None else {"end": True}

    def _checked(self, ids: npt.ArrayLike) -> Array:
        array = np.ravel(ids)
        if array.size == 0:
            return np.empty(0, np.int64)
        if array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= len(self):
            raise RangeError("token ids", expected=f"integers from 0 to {len(self) - 1}", got=few(array.tolist()))
        return array


class _TokenDecoder:
    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def feed(self, token: int) -> str:
        return self._vocabulary.decode([token])

    def end(self) -> str:
        return ""


class CharVocabulary(Vocabulary):
    """Characters, sorted by code point."""

    kind = "char"

    def __init__(self, tokens: Iterable[str]) -> None:
        self.tokens = tuple(sorted(set(tokens)))
        if not self.tokens or any(len(token) != 1 for token in self.tokens):
            raise VocabularyError(
                "a character vocabulary", expected="one or more single characters", got=few(self.tokens) or "none"
            )
        # ASCII characters have the lowest code points and so the lowest ids: each fits in a byte, and bytes.translate
        # can look it up.
        self._ascii = "".join(token for token in self.tokens if token.isascii()).encode()
        self._ascii_ids = bytes.maketrans(self._ascii, bytes(range(len(self._ascii))))

    @classmethod
    def of(cls, chunks: Iterable[str]) -> CharVocabulary:
        """The characters of a text."""
        return cls(characters_of(chunks)[0])

    @cached_property
    def _ids(self) -> Array:
        """The id of each code point, or NO_TOKEN; the last entry stands for all higher code points."""
        codes = [ord(token) for token in self.tokens[: self.end]]
        table = np.full(codes[-1] + 2, NO_TOKEN, np.uint32)
        table[codes] = np.arange(len(codes))
        return table

    def _encode(self, text: str, unknown: Unknown) -> Encoded:
        if one_of("unknown", unknown, UNKNOWN) == "replace":
            raise VocabularyError(
                f"{option('unknown', 'replace')} is for words: there is no <unk> among characters",
                do=f"Use {option('unknown', 'skip')} to leave unknown characters out.",
            )
        if text.isascii():
            raw = text.encode()
            if missing := raw.translate(None, self._ascii):
                self._check_missing(missing.decode(), unknown)
                raw = raw.translate(None, missing)
            ids = np.frombuffer(raw.translate(self._ascii_ids), np.uint8).astype(self.dtype)
        else:
            wide = self._ids.take(_code_points(text), mode="clip")
            if wide.max() == NO_TOKEN:
                known = wide != NO_TOKEN
                self._check_missing((text[i] for i in np.flatnonzero(~known)), unknown)
                wide = wide[known]
            ids = wide.astype(self.dtype)
        return Encoded(ids, unknown=len(text) - len(ids), characters=len(ids))

    def _check_missing(self, missing: Iterable[str], unknown: Unknown) -> None:
        if unknown == "error":
            raise VocabularyError(
                f"the text has characters that the vocabulary of {len(self)} characters does not contain",
                got=few(dict.fromkeys(missing)),
                do=f"Use {option('unknown', 'skip')} to leave them out. Models trained with "
                f"{option('tokens', 'byte')} or {option('tokens', 'bpe')} can read any text.",
            )


def characters_of(chunks: Iterable[str]) -> tuple[set[str], int]:
    """The set of characters of a text, and the length of the text."""
    present, count = np.zeros(MAX_TOKENS, bool), 0
    seen = b""  # ASCII characters
    for text in chunks:
        count += len(text)
        if text.isascii():
            seen += bytes(set(text.encode().translate(None, seen)))  # the fastest way to find new characters
        else:
            present[_code_points(text)] = True
    present[list(seen)] = True
    return set(map(chr, np.flatnonzero(present).tolist())), count


def _code_points(text: str) -> Array:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


class ByteVocabulary(Vocabulary):
    """All 256 bytes; a text is encoded as UTF-8, and nothing is unknown. The names of the tokens are for display."""

    kind = "byte"
    pieces = tuple(bytes([i]) for i in range(256))
    tokens = tuple(chr(i) if 32 <= i < 127 else f"0x{i:02X}" for i in range(256))

    def _encode(self, text: str, unknown: Unknown) -> Encoded:
        one_of("unknown", unknown, UNKNOWN)
        return self.encode_bytes(text.encode("utf-8", "surrogatepass"))

    @staticmethod
    def encode_bytes(raw: bytes) -> Encoded:
        """Bytes are their own ids; those that continue a UTF-8 sequence (10xxxxxx) begin no character."""
        ids = np.frombuffer(raw, np.uint8).copy()
        return Encoded(ids, unknown=0, characters=int(np.count_nonzero((ids & 0xC0) != 0x80)))

    def to_json(self) -> dict[str, object]:
        return {"kind": self.kind} | self._end_json()


class ByteDecoder:
    """The decoder of a vocabulary of bytes or byte sequences: it holds an incomplete UTF-8 sequence back."""

    def __init__(self, vocabulary: Any) -> None:
        self._vocabulary = vocabulary
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, token: int) -> str:
        (i,) = self._vocabulary._checked([token]).tolist()
        return self._utf8.decode(self._vocabulary.pieces[i])

    def end(self) -> str:
        return self._utf8.decode(b"", final=True)
