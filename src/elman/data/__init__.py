"""Texts and tokens: vocabularies, corpora, and streams for training."""

from elman.data.corpus import Corpus, Split, corpus_from_text, open_corpus
from elman.data.named import NamedCorpus, default_source, fetch, find_source, list_corpora
from elman.data.streams import LaneStream, Window, fitting_batch
from elman.data.vocabulary import ByteVocabulary, CharVocabulary, Decoder, Vocabulary
from elman.data.vocabulary_json import vocabulary_from_json
from elman.data.words import WordVocabulary

__all__ = [
    "open_corpus",
    "corpus_from_text",
    "Corpus",
    "Split",
    "Vocabulary",
    "CharVocabulary",
    "ByteVocabulary",
    "WordVocabulary",
    "Decoder",
    "vocabulary_from_json",
    "LaneStream",
    "Window",
    "fitting_batch",
    "find_source",
    "default_source",
    "fetch",
    "list_corpora",
    "NamedCorpus",
]
