"""The vocabulary of examples: characters, bytes, subwords or words of strings, or the tokens of lists.

Every kind has an id for unknown tokens, 0, because later inputs may have new tokens.
Target sequences have an edge token, id 1, which is both start and end token (<bos> and <eos>).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from elman.data.bpe import BPEVocabulary
from elman.data.words import add_counts, words_of
from elman.errors import CheckpointError
from elman.maths.arrays import Array

UNKNOWN_ID, EDGE_ID = 0, 1
SPECIAL = ("<unknown>", "<edge>")
KINDS = ("char", "byte", "word", "bpe", "list")
BYTES = [f"{byte:02X}" for byte in range(256)]
MAX_LENGTH = 1 << 24  # tokens in a sequence


def kind_of(strings: Sequence[str], wanted: str) -> str:
    """The kind of token; `auto` means words if a string has two or more on average, otherwise characters."""
    if wanted != "auto":
        return wanted
    words = sum(len(string.split()) for string in strings)
    return "word" if words >= 2 * max(len(strings), 1) else "char"


def tokenize(sequence: Any, kind: str) -> list[str]:
    """Split one sequence into tokens. Words, joined, are the stripped string with a space before it."""
    if kind == "char":
        return list(sequence)
    if kind == "byte":
        return [f"{byte:02X}" for byte in sequence.encode("utf-8", "surrogatepass")]
    if kind == "word":
        return [word for words in words_of([f" {sequence.strip()}"]) for word in words] if sequence.strip() else []
    return list(sequence)


class Symbols:
    """Tokens and their ids: the special tokens first, then those of the training data."""

    def __init__(
        self,
        kind: str,
        tokens: Sequence[str],
        counts: Sequence[int],
        longest: int,
        bpe: BPEVocabulary | None = None,
        lowercase: bool = False,  # whether words are read in lower case
    ) -> None:
        self.kind, self.tokens = kind, (*SPECIAL, *tokens)
        self.longest = longest  # number of tokens of the longest sequence of the training data
        self.lowercase = lowercase
        self.bpe = bpe
        self.counts = np.array([0, 0, *counts])
        self._ids = {token: i + len(SPECIAL) for i, token in enumerate(tokens)}

    @classmethod
    def of(
        cls, sequences: Iterable[Any], kind: str, *, vocabulary_size: int, min_count: int, lowercase: bool = False
    ) -> Symbols:
        """The vocabulary of these sequences: frequent tokens first, equally frequent ones by code point.

        Bytes are in the order of their values, subwords in the order in which they were learned.
        """
        lowercase = lowercase and kind == "word"
        if kind == "bpe":
            return cls._subwords(list(sequences), vocabulary_size, min_count)
        counts: Counter[str] = Counter()
        longest = 0
        for sequence in sequences:
            tokens = tokenize(sequence, kind)
            counts.update(map(str.lower, tokens) if lowercase else tokens)
            longest = max(longest, len(tokens))
        if kind == "byte":
            return cls(kind, BYTES, [counts[byte] for byte in BYTES], longest)
        ranked = sorted((-count, token) for token, count in counts.items() if count >= min_count)[:vocabulary_size]
        return cls(kind, [token for _, token in ranked], [-count for count, _ in ranked], longest, lowercase=lowercase)

    @classmethod
    def _subwords(cls, strings: list[str], vocabulary_size: int, min_count: int) -> Symbols:
        counts = add_counts({}, (word for string in strings for words in words_of([f" {string}"]) for word in words))
        bpe = BPEVocabulary.learn(counts, max(vocabulary_size, 256), max(min_count, 2))
        encoded = [bpe.encode(f" {string}") for string in strings]
        seen = np.bincount(np.concatenate([np.empty(0, np.int64), *encoded]), minlength=len(bpe))
        return cls("bpe", bpe.tokens, seen.tolist(), max(map(len, encoded), default=0), bpe)

    def __len__(self) -> int:
        return len(self.tokens)

    def tokenize(self, sequence: Any) -> list[str]:
        """The tokens of one sequence, as they are shown."""
        return [self.tokens[i] for i in self.encode(sequence)] if self.bpe else tokenize(sequence, self.kind)

    def encode(self, sequence: Any) -> Array:
        """The ids of a sequence. An unknown word is also looked up in lower case; tokens that are not found have 0."""
        if self.bpe:  # the space makes the first word equal to the same word elsewhere
            return self.bpe.encode(f" {sequence}").astype(np.int32) + len(SPECIAL)
        ids, tokens = self._ids, tokenize(sequence, self.kind)
        if self.lowercase:
            tokens = [token.lower() for token in tokens]
        if self.kind == "word":
            return np.fromiter((ids.get(token, ids.get(token.lower(), UNKNOWN_ID)) for token in tokens), np.int32)
        return np.fromiter((ids.get(token, UNKNOWN_ID) for token in tokens), np.int32)

    def decode(self, ids: Iterable[int]) -> Any:
        """The string, or the list of tokens, that ids stand for, up to the edge token."""
        ids = list(takewhile(lambda i: i != EDGE_ID, ids))
        if self.bpe:
            return self.bpe.decode([i - len(SPECIAL) for i in ids if i >= len(SPECIAL)]).removeprefix(" ")
        tokens = [self.tokens[i] for i in ids]
        if self.kind == "byte":
            return bytes.fromhex("".join(t for t in tokens if t not in SPECIAL)).decode("utf-8", "replace")
        if self.kind == "list":
            return tokens
        return "".join(tokens).strip() if self.kind == "word" else "".join(tokens)

    def unknown_probability(self, alpha: float) -> Array:
        """An array (number of tokens,): the probability alpha / (alpha + count) of reading each as unknown in training.

        It is 0 for special tokens, bytes and subwords.
        """
        p = alpha / np.maximum(alpha + self.counts, 1e-9)
        p[: len(SPECIAL)] = 0
        return p if self.kind not in ("byte", "bpe") else np.zeros(len(self))

    def to_json(self) -> dict[str, Any]:
        first = len(SPECIAL)  # special tokens are not saved
        if self.bpe:
            return {**self.bpe.to_json(), "counts": self.counts[first:].tolist(), "longest": self.longest}
        return {"kind": self.kind, "tokens": list(self.tokens[first:]), "counts": self.counts[first:].tolist(),
                "longest": self.longest, "lowercase": self.lowercase}  # fmt: skip

    @classmethod
    def from_json(cls, value: object) -> Symbols:
        if isinstance(value, Mapping) and value.get("kind") == "bpe":
            return cls._subwords_from_json(value)
        if (
            not isinstance(value, Mapping)
            or value.get("kind") not in KINDS
            or not all(isinstance(value.get(name), list) for name in ("tokens", "counts"))
            or not all(isinstance(token, str) for token in value["tokens"])
            or not all(isinstance(count, int) for count in (*value["counts"], value.get("longest")))
            or not len(value["tokens"]) == len(set(value["tokens"])) == len(value["counts"])
            or not 0 <= value["longest"] < MAX_LENGTH
            or not isinstance(value.get("lowercase", False), bool)
            or (value["kind"] == "byte" and value["tokens"] != BYTES)
        ):
            raise CheckpointError("the tokens of a run are damaged")
        lowercase = value.get("lowercase", False)
        return cls(value["kind"], value["tokens"], value["counts"], value["longest"], lowercase=lowercase)

    @classmethod
    def _subwords_from_json(cls, value: Mapping[str, Any]) -> Symbols:
        try:
            bpe = BPEVocabulary(BPEVocabulary.merges_from_json(value.get("merges")))
            counts, longest = value["counts"], value["longest"]
            whole = isinstance(counts, list) and all(isinstance(count, int) for count in (*counts, longest))
            if not whole or len(counts) != len(bpe) or not 0 <= longest < MAX_LENGTH:
                raise ValueError("counts")
        except (KeyError, ValueError):  # VocabularyError is a ValueError too
            raise CheckpointError("the tokens of a run are damaged") from None
        return cls("bpe", bpe.tokens, counts, longest, bpe)
