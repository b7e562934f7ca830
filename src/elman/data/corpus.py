"""A text as token ids: encoded once, as a stream, into a file in the cache.

Byte tokens are the bytes of the unpacked file, unchanged: not decoded, line ends as they are, nothing removed. For all
other tokens the text is decoded, line ends become `\\n`, and Project Gutenberg's header and footer are removed unless
`keep_boilerplate` is set.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

import numpy as np

from elman.data import cache
from elman.data.encoding import EncodingOptions, TextEncoder
from elman.data.reading import FileSource, ListSource, Meter, Progress, TextSource
from elman.data.sources import PathLike, common_source, find_sources, name_of
from elman.data.vocabulary import Vocabulary
from elman.data.vocabulary_json import vocabulary_from_json
from elman.errors import ArgumentError, RangeError
from elman.maths.arrays import Array


@dataclass(frozen=True, eq=False)
class Split:
    """Three contiguous parts of a text, in its order; validation and test may be empty.

    Attributes
    ----------
    train, validation, test : arrays (n,)
        Token ids.
    """

    train: Array
    validation: Array
    test: Array


@dataclass(frozen=True, eq=False)
class Corpus:
    """A text as token ids.

    Attributes
    ----------
    ids : array (N,)
        Token ids; read-only.
    vocabulary : Vocabulary
        The tokens.
    name : str
        A short name that can be part of a file name.
    source : str
        The absolute path of the file, or of the folder of several files; "-" for standard input, "" for a str.
    sha256 : str
        The hash of the unpacked bytes; for several files, of their hashes.
    characters : int
        The number of characters that the ids stand for, without skipped ones.
    unknown : int
        The number of tokens that were skipped or read as <unk>.
    notes : tuple of str
        Messages for the user.
    files : tuple of str
        The absolute paths of all files; empty if the text cannot be read again.
    """

    ids: Array  # (N,)
    vocabulary: Vocabulary
    name: str
    source: str
    sha256: str
    characters: int
    unknown: int
    notes: tuple[str, ...]
    files: tuple[str, ...] = ()

    def split(self, validation: float = 0.1, test: float = 0.0) -> Split:
        """Split the text: training, then validation, then test, each contiguous.

        Parameters
        ----------
        validation, test : float
            Fractions of the text, taken from its end.

        Returns
        -------
        Split
        """
        for name, fraction in (("validation", validation), ("test", test)):
            if not 0 <= fraction < 1:
                raise RangeError(f"the {name} fraction", expected="0 or more and less than 1", got=fraction)
        n = len(self.ids)
        test_start = n - round(test * n)
        validation_start = test_start - round(validation * n)
        if validation_start < 1:
            raise RangeError(
                "the validation and test fractions",
                expected="a part of the text left for training",
                got=f"{validation} and {test} of {n} tokens",
            )
        return Split(self.ids[:validation_start], self.ids[validation_start:test_start], self.ids[test_start:])


def open_corpus(
    source: PathLike | Sequence[PathLike],
    *,
    tokens: str = "char",
    encoding: str = "utf-8",
    keep_boilerplate: bool = False,
    vocabulary: Vocabulary | None = None,
    vocabulary_size: int = 20_000,
    min_count: int = 2,
    unknown: str = "error",
    sequences: bool = False,
    progress: Progress | None = None,
) -> Corpus:
    r"""Encode a file, or several files as one text, as token ids. Memory does not grow with the text.

    Parameters
    ----------
    source : str, Path or sequence of these
        A file, a folder of .txt files (or .txt.gz, .txt.zst) or a pattern such as "books/*.txt"; a str may also be the
        name of a corpus, or "-" for standard input. Files that end in .gz or .zst are unpacked.
    tokens : {"char", "byte", "word", "bpe"}
        The kind of tokens; ignored if a vocabulary is given.
    encoding : str
        The text encoding of the files.
    keep_boilerplate : bool
        Keep the header and footer of Project Gutenberg.
    vocabulary : Vocabulary, optional
        Encode with this vocabulary instead of one made from the text.
    vocabulary_size, min_count : int
        Words and subwords: the maximum number of tokens (<unk> not counted), and how often a word or pair must occur to
        become a token.
    unknown : {"error", "skip", "replace"}
        What to do with tokens that are not in the vocabulary. Unknown words are replaced by <unk> unless skipped.
    sequences : bool
        Read each line as a sequence of its own, as with a vocabulary that has an end token.
    progress : callable, optional
        Called with the activity, the bytes done and the bytes in total.

    Returns
    -------
    Corpus
        Its ids are a file in the cache, which is used again the next time.

    Examples
    --------
    >>> from pathlib import Path
    >>> from elman.data import open_corpus
    >>> size = Path("hello.txt").write_text("hello hello\n")
    >>> corpus = open_corpus(Path("hello.txt"))
    >>> corpus.ids.tolist(), corpus.vocabulary.tokens
    ([3, 2, 4, 4, 5, 1, 3, 2, 4, 4, 5, 0], ('\n', ' ', 'e', 'h', 'l', 'o'))
    """
    options = EncodingOptions(
        tokens, encoding, keep_boilerplate, vocabulary, vocabulary_size, min_count, unknown,
        "lines" if sequences or (vocabulary is not None and vocabulary.end is not None) else "none",
    ).checked()  # fmt: skip
    paths, meter = find_sources(source), Meter(progress)
    with ExitStack() as opened:
        sources = [opened.enter_context(closing(FileSource(path, meter))) for path in paths]
        encoder = TextEncoder(sources, options, meter)
        sha256 = encoder.sha256()
        ids, facts = cache.load_or_store(options.key(sha256), encoder.write, meter.report_waiting)
        rereadable = all(file.rereadable for file in sources)
    files = tuple(str(path.absolute()) for path in paths if path is not None) if rereadable else ()
    return _corpus(ids, facts, name_of(paths), common_source(paths), sha256, files)


def corpus_from_text(
    text: str | Sequence[str],
    *,
    tokens: str = "char",
    keep_boilerplate: bool = False,
    vocabulary: Vocabulary | None = None,
    vocabulary_size: int = 20_000,
    min_count: int = 2,
    unknown: str = "error",
    sequences: bool = False,
) -> Corpus:
    """Encode a text in memory, or a list of sequences, as token ids.

    Parameters
    ----------
    text : str or list of str
        The text, or one sequence for each item; byte tokens and the hash are those of its UTF-8 bytes.
    tokens : {"char", "byte", "word", "bpe"}
        The kind of tokens; ignored if a vocabulary is given.
    keep_boilerplate : bool
        Keep the header and footer of Project Gutenberg.
    vocabulary : Vocabulary, optional
        Encode with this vocabulary instead of one made from the text.
    vocabulary_size, min_count : int
        Words and subwords: the maximum number of tokens (<unk> not counted), and how often a word or pair must occur to
        become a token.
    unknown : {"error", "skip", "replace"}
        What to do with tokens that are not in the vocabulary. Unknown words are replaced by <unk> unless skipped.
    sequences : bool
        Read each line of a text as a sequence of its own; with a vocabulary that has an end token, a text is otherwise
        one sequence.

    Returns
    -------
    Corpus

    Examples
    --------
    >>> from elman.data import corpus_from_text
    >>> corpus_from_text("the cat the dog the cat", tokens="word").vocabulary.tokens
    ('<unk>', ' cat', ' the')
    """
    if isinstance(text, str) and not sequences and vocabulary is not None and vocabulary.end is not None:
        text = [text]
    if not isinstance(text, str) and vocabulary is not None and vocabulary.end is None:
        do = "Give a str, or a model that has learned sequences."
        raise ArgumentError("text", expected="a str, because the model has learned one text", got="sequences", do=do)
    options = EncodingOptions(
        tokens, "utf-8", keep_boilerplate, vocabulary, vocabulary_size, min_count, unknown,
        "items" if not isinstance(text, str) else "lines" if sequences else "none",
    ).checked()  # fmt: skip
    source = TextSource(text) if isinstance(text, str) else ListSource(text)
    encoder, out = TextEncoder([source], options, Meter()), io.BytesIO()
    facts = encoder.write(out)
    return _corpus(np.frombuffer(out.getvalue(), facts["dtype"]), facts, "text", "", encoder.sha256())


def _corpus(ids: Array, facts: cache.Facts, name: str, source: str, sha256: str, files: tuple[str, ...] = ()) -> Corpus:
    return Corpus(
        ids=ids,
        vocabulary=vocabulary_from_json(facts["vocabulary"]),
        name=name,
        source=source,
        sha256=sha256,
        characters=facts["characters"],
        unknown=facts["unknown"],
        notes=tuple(facts["notes"]),
        files=files,
    )
