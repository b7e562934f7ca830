"""Read vocabularies from JSON and check them."""

from __future__ import annotations

from elman.data.bpe import BPEVocabulary
from elman.data.vocabulary import MAX_TOKENS, ByteVocabulary, CharVocabulary, Vocabulary
from elman.data.words import WordVocabulary
from elman.errors import CheckpointError, VocabularyError

_DO = "The file is damaged or was not written by Elman."


def vocabulary_from_json(obj: object) -> Vocabulary:
    """The vocabulary whose `to_json` gave this value; CheckpointError if the value is damaged."""
    if not isinstance(obj, dict):
        raise CheckpointError("vocabulary", expected="a JSON object", got=type(obj).__name__, do=_DO)
    if obj.get("end") is True:
        return vocabulary_from_json({name: value for name, value in obj.items() if name != "end"}).with_end()
    if obj == {"kind": "byte"}:
        return ByteVocabulary()
    if obj.get("kind") == "bpe" and len(obj) == 2:
        try:
            return BPEVocabulary(BPEVocabulary.merges_from_json(obj.get("merges")))
        except (ValueError, VocabularyError):
            raise CheckpointError("vocabulary merges", expected="pairs of earlier ids", do=_DO) from None
    kind, tokens = obj.get("kind"), obj.get("tokens")
    if kind not in ("char", "word") or len(obj) != 2:
        raise CheckpointError(
            "vocabulary", expected='kind "char" or "word" with tokens, "bpe" with merges, or "byte" alone', do=_DO
        )
    if not isinstance(tokens, list) or len(tokens) > MAX_TOKENS or not all(isinstance(token, str) for token in tokens):
        raise CheckpointError("vocabulary tokens", expected=f"a list of at most {MAX_TOKENS} strings", do=_DO)
    try:
        vocabulary = CharVocabulary(tokens) if kind == "char" else WordVocabulary(tokens)
    except VocabularyError as error:
        raise CheckpointError(str(error), do=_DO) from None
    if vocabulary.tokens != tuple(tokens):  # otherwise ids would mean other characters than in training
        raise CheckpointError("vocabulary tokens", expected="each character once, sorted by code point", do=_DO)
    return vocabulary
