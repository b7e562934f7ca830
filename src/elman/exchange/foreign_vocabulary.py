"""Import language models of other projects, whose files do not contain the vocabulary."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elman.config import Config
from elman.data import CharVocabulary, Vocabulary, vocabulary_from_json
from elman.errors import ArgumentError, CheckpointError, VocabularyError, option
from elman.exchange.model_file import PortableModel, checked_model
from elman.maths.arrays import Array
from elman.models.task_spec import TaskSpec


def with_vocabulary(
    path: Path, parameters: Mapping[str, Array], cell: str, activation: str, vocabulary: Path | None
) -> PortableModel:
    """The model with the tokens of a vocabulary file; W_xh, W_hy and b_y are reordered by the ids of our vocabulary."""
    hidden, tokens = parameters["head.W_hy"].shape
    if vocabulary is None:
        raise CheckpointError(
            f"{path} does not contain its vocabulary of {tokens} tokens",
            do=f"Give {option('vocabulary')}, the path of a vocabulary.json, a JSON list of the characters or a text "
            "with each character once, both in the order of their ids, or the training text if the ids are in the "
            "order of its sorted characters.",
        )
    ours, order = read_vocabulary(vocabulary, tokens)
    p = dict(parameters)
    if len(p["layers.0.W_xh"]) == tokens:  # otherwise checked_model raises
        p["layers.0.W_xh"] = p["layers.0.W_xh"][list(order)]
    p["head.W_hy"], p["head.b_y"] = p["head.W_hy"][:, list(order)], p["head.b_y"][list(order)]
    layers = sum(name.endswith("W_hh") for name in p)
    options = {"hidden": hidden, "layers": layers, "cell": cell, "activation": activation, "tokens": ours.kind}
    config = Config().with_options(**options)
    return checked_model(path, p, config, TaskSpec.language_model(ours))


def refuse_options(path: Path, **given: object) -> None:
    """Raise ArgumentError for options that are not needed, because Elman wrote the file and it contains them."""
    if names := [option(name) for name, value in given.items() if value is not None]:
        what = f"{path} was written by Elman and contains its vocabulary and options"
        raise ArgumentError(what, got=", ".join(names), do=f"Leave {' and '.join(names)} out.")


def read_vocabulary(path: Path, tokens: int) -> tuple[Vocabulary, Sequence[int]]:
    """The vocabulary in a file, and for each of its ids the id of the same token in the model."""
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError:
        raise VocabularyError(f"{path} is not UTF-8 text") from None
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if isinstance(value, dict) and "kind" in value:
        vocabulary = vocabulary_from_json(value)
        return vocabulary, range(_check_count(path, vocabulary.tokens, tokens))
    if isinstance(value, dict):  # character to id
        ids = {i: token for token, i in value.items() if isinstance(i, int)}
        if sorted(ids) != list(range(len(value))):
            expected = "each character with its id, from 0 without gaps"
            raise VocabularyError(f"{path}", expected=expected, got="other ids")
        found: Sequence[Any] = [ids[i] for i in range(len(ids))]
    else:
        found = value if isinstance(value, list) else _characters(text, tokens)
    _check_count(path, found, tokens)
    if not all(isinstance(token, str) and len(token) == 1 for token in found) or len(set(found)) < tokens:
        raise VocabularyError(
            f"{path}", expected="single, different characters", do="For words, use a vocabulary.json of Elman."
        )
    return CharVocabulary(found), np.argsort([ord(token) for token in found]).tolist()


def _check_count(path: Path, found: Sequence[Any], tokens: int) -> int:
    if len(found) != tokens:
        raise VocabularyError(f"{path}", expected=f"{tokens} tokens, as the model has", got=len(found))
    return tokens


def _characters(text: str, tokens: int) -> Sequence[str]:
    """The characters in the order of a text that has each once (a final newline is optional), else sorted."""
    for candidate in (text, text.removesuffix("\n"), text.removesuffix("\r\n")):
        if len(candidate) == len(set(candidate)) == tokens:
            return candidate
    return sorted(set(text))
