"""Loading data: texts, tables, series and named corpora; vocabularies, and streams of tokens for training."""

from elman.data.bpe import BPEVocabulary
from elman.data.corpus import Corpus, Split, corpus_from_text, open_corpus
from elman.data.labeled_data import LabeledData, guess_task, read_examples
from elman.data.named import NamedCorpus, default_source, fetch, find_source, list_corpora
from elman.data.streams import LaneStream, Window, fitting_batch
from elman.data.tables import Series, Table, read_series, read_table
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
    "BPEVocabulary",
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
    "read_examples",
    "guess_task",
    "LabeledData",
    "read_table",
    "read_series",
    "Table",
    "Series",
]
