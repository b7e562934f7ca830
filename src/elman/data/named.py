"""Named corpora: where they are, and how they are downloaded."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import reprlib
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from elman.data import made, recipes
from elman.data.cache import write_atomically
from elman.data.checks import also_searched, did_you_mean, shortened
from elman.errors import DataError, DownloadError, UnknownNameError
from elman.files import cache_root, sha256_of


@dataclass(frozen=True)
class NamedCorpus:
    """A text, or a file or folder of examples, that Elman can fetch by name."""

    name: str
    description: str
    file_name: str
    url: str = ""  # of the download, or of the folder of several files; empty: a program makes it
    sha256: str = ""  # of the file in the cache; empty: not checked
    size: int = 0  # bytes
    files: Mapping[str, str] = field(default_factory=dict)  # the hash of each file of a folder
    recipe: Callable[[bytes], Iterator[str]] | None = None  # makes the lines of the file from the download
    lines: Callable[[], Iterable[str]] = tuple  # without a url: makes the lines of the file
    form: str = ""  # what a line of the file is, for users who must make the file themselves

    @property
    def is_text(self) -> bool:
        """Whether it is one text, not examples."""
        return self.file_name.endswith(".txt")


NAMES = {  # SHA-256 of each file
    "Arabic.txt": "6f424a8dbe51cbbbabab7a57d38b617210125e4e3991f3c657cb79b8f104bafc",
    "Chinese.txt": "09ba8f1f7e38dbc99372d461b26ad4433b811fc6bfa6a3ecca6fe11a9a777465",
    "Czech.txt": "e17ab0ec47616a72c39cb85c783f70c3663ab64488721e5d8378f146d2226be7",
    "Dutch.txt": "924f32b635170eae561f84538632138fc07d4c8bbd70ba3fb980de1ecc4d2af3",
    "English.txt": "9cca037066d3d5989e24bc01801416162de506b5e28e15b7c092a47905d29bf2",
    "French.txt": "81e65b36c60ed5b89a17422f6edcadbb89546f38ad69e960e64e7ba682012a95",
    "German.txt": "7449cd590b97a733e18d613a4155decd77ec35dc5f8aadd7a82204dce4f051db",
    "Greek.txt": "3555b5186de7f401e6d991b088e9e644ca3099116477818c25ab5793801389e6",
    "Irish.txt": "cf8c7013256252a88d2503127b87282a11f21b2ff6db1bded68834c19a1ec058",
    "Italian.txt": "f88414c27d0606a11a678b4859277828c2565d6cc4d9ee932deef6e94f3b35e4",
    "Japanese.txt": "e0e717e114fec3e7eade4d9dabe0067c475f43147e36a22b47902ee76ad9e67f",
    "Korean.txt": "cd54221ccb362a6cba4c78828838cf3268a0e59744767a37cf6ec4b74036b136",
    "Polish.txt": "45bab898af2f60ed3a728bbf6980e28821011a7caa53227553b5785903a40826",
    "Portuguese.txt": "50a8735f41f4f73757c8ce5b16cb0275cd86b2b214bcbc8c9805f508cb131c53",
    "Russian.txt": "0cfe53ac18041e8f63666aa77313e0a3ff378facb132abee052d8ebdc8c3d62c",
    "Scottish.txt": "78d0252711d87d948ea86fe34826c51d2d794a8e52d15b5d6f7b6244d45d62dd",
    "Spanish.txt": "1bcb462ed3316756a85781d68232bddae04498fdddd5d9219c53fd1fbdeba7a7",
    "Vietnamese.txt": "f3f9e4164ab47601178a6e45b216464a64122f49d05541f24bf18a757253281d",
}

_MADE = "made by a program, needs no network"
CORPORA = {
    corpus.name: corpus
    for corpus in (
        NamedCorpus(
            "pride-and-prejudice",
            "Jane Austen's novel of 1813 from Project Gutenberg, public domain",
            "pride-and-prejudice.txt",
            "https://raw.githubusercontent.com/GITenberg/Pride-and-Prejudice_1342"
            "/81db45c9c48c592f0b77f01fc59e677ad0a5634e/1342.txt",
            "441e778a4297bfc944dc254810e8ded3134cfb0e36d73eef6bb312b4ffd74d6a",
            717_602,
        ),
        NamedCorpus(
            "names",
            "Surnames of 18 languages, one file per language, from spro/practical-pytorch, MIT license: to classify",
            "names",
            "https://raw.githubusercontent.com/spro/practical-pytorch/master/data/names",
            size=163_419,
            files=NAMES,
        ),
        NamedCorpus(
            "sentiment",
            "3,000 sentences of reviews, positive or negative, from UCI (Kotzias et al. 2015), CC BY 4.0: to classify",
            "sentiment.tsv",
            "https://archive.ics.uci.edu/static/public/331/sentiment+labelled+sentences.zip",
            "9611e06679ee7f85f8f9baf95f53552f8139b736bf190ca62cfad2c3eddec724",
            223_816,
            recipe=recipes.sentiment,
            form="sentence, a tab, positive or negative",
        ),
        NamedCorpus(
            "questions",
            "5,452 questions by kind of answer, from TREC (Li and Roth 2002), free for research: to classify",
            "questions.tsv",
            "https://cogcomp.seas.upenn.edu/Data/QA/QC/train_5500.label",
            "8d7842b25f59945e63d6ccf259a34df93174476598c2509f84a61bf464206c81",
            305_772,
            recipe=recipes.questions,
            form="question, a tab, its kind",
        ),
        NamedCorpus(
            "part-of-speech",
            "2,001 sentences with universal part-of-speech tags, from UD English EWT, CC BY-SA 4.0: to tag",
            "part-of-speech.tsv",
            "https://raw.githubusercontent.com/UniversalDependencies/UD_English-EWT/r2.15/en_ewt-ud-dev.conllu",
            size=253_533,  # of r2.15; fetch(url=…) may name another release, so the hash is not checked
            recipe=recipes.part_of_speech,
            form="word, a tab, its tag, and a blank line after each sentence",
        ),
        NamedCorpus(
            "pronunciation",
            "30,000 English words and their phonemes, from the CMU Pronouncing Dictionary, BSD license: to translate",
            "pronunciation.tsv",
            "https://raw.githubusercontent.com/cmusphinx/cmudict/master/cmudict.dict",
            "ed62a47e2e11cfbba1efdc2b7c7836727c258e0d4236916c97aff464c04640da",
            789_377,
            recipe=recipes.pronunciation,
            form="word, a tab, its phonemes with spaces between them",
        ),
        NamedCorpus(
            "english-french",
            "25,000 short English and French sentences, from Tatoeba and a PyTorch tutorial, CC BY 2.0: to translate",
            "english-french.tsv",
            "https://download.pytorch.org/tutorial/data.zip",
            "507816c17a1b50d5878c4e339c255eeeb1ad40364a24a553134fa062474b142a",
            1_104_219,
            recipe=recipes.english_french,
            form="English sentence, a tab, French sentence",
        ),
        NamedCorpus(
            "python-docs",
            "Prose of Python's language reference, from the installed Python (pydoc_data.topics): needs no network",
            f"python-{platform.python_version()}/python-docs.txt",
            lines=made.python_docs,
        ),
        NamedCorpus(
            "sums",
            f"All 10,000 sums of two numbers below 100, such as 17+25=42, {_MADE}: a text",
            "sums.txt",
            size=92_895,
            lines=made.sums,
        ),
        NamedCorpus(
            "brackets",
            f"6,000 strings of brackets, balanced or unbalanced, {_MADE}: to classify or generate",
            "brackets.tsv",
            size=141_404,
            lines=made.brackets,
        ),
        NamedCorpus(
            "roman-numerals",
            f"The numbers from 1 to 3,999 in Roman numerals, with their values, {_MADE}: to regress",
            "roman-numerals.tsv",
            size=52_887,
            lines=made.roman_numerals,
        ),
        NamedCorpus(
            "appointments",
            f"1,500 appointments, with a tag for each word (DAY, HOUR, ROOM …), {_MADE}: to tag",
            "appointments.tsv",
            size=201_772,
            lines=made.appointments,
        ),
        NamedCorpus(
            "number-words",
            f"4,000 numbers in words, odd or even, {_MADE}: to generate or classify",
            "number-words.tsv",
            size=156_015,
            lines=made.number_words,
        ),
        NamedCorpus(
            "dates",
            f"2,000 dates in seven notations, and as year-month-day, {_MADE}: to translate",
            "dates.tsv",
            size=47_871,
            lines=made.dates,
        ),
    )
}


class Row(NamedTuple):
    """A named corpus in the list that `list_corpora` gives.

    Attributes
    ----------
    name, description : str
        Its name and a description with source and license.
    size : int
        Its size in bytes.
    where : Path or None
        Its path; None if it has not been fetched.
    """

    name: str
    description: str
    size: int
    where: Path | None


def list_corpora(*, texts: bool = False) -> list[Row]:
    """List the named corpora.

    Parameters
    ----------
    texts : bool
        Leave out files and folders of examples.

    Returns
    -------
    list of Row
        Name, description, size in bytes, and where each corpus is, or None if it has not been fetched.

    Examples
    --------
    >>> from elman.data import list_corpora
    >>> [row.name for row in list_corpora(texts=True)]
    ['pride-and-prejudice', 'python-docs', 'sums']
    """
    rows = []
    for corpus in CORPORA.values():
        if texts and not corpus.is_text:
            continue
        path = _cache_path(corpus)
        cached = path.is_file() or (path.is_dir() and all((path / name).is_file() for name in corpus.files))
        where = _in_data_folder(corpus.name) or (path if cached else None)
        rows.append(Row(corpus.name, corpus.description, corpus.size or len(_content(corpus.lines())), where))
    return rows


def find_source(source: str) -> Path:
    """Find a file, or a named corpus, which is downloaded if necessary.

    Parameters
    ----------
    source : str
        A path, the name of a file in the folder $ELMAN_DATA, the name of a corpus, or "-" for standard input.

    Returns
    -------
    Path
    """
    if source == "-":
        return Path(source)
    if (here := find_here(source)) is not None:
        return here
    if source in CORPORA:
        return fetch(source)
    if os.path.dirname(source):  # a path: opening it reports what is wrong
        return Path(source)
    known = f"Corpora are {', '.join(CORPORA)}; {also_searched()}."
    do = f"{did_you_mean(source, CORPORA)} {known}".strip()
    raise DataError(f"there is no file and no corpus named {reprlib.repr(source)}", do=do)


def find_here(source: str) -> Path | None:
    """An existing path, a file in $ELMAN_DATA, or a named corpus of examples, which is downloaded; None otherwise.

    A folder that has the name of a one-file corpus is ignored.
    """
    corpus = CORPORA.get(source)
    if os.path.exists(source) and (corpus is None or corpus.files or not os.path.isdir(source)):
        return Path(source)
    refuse_url(source)
    return _in_data_folder(source) or (fetch(source) if corpus and not corpus.is_text else None)


def refuse_url(source: str) -> None:
    """Raise DataError if a source is a URL."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", source):
        raise DataError(f"{shortened(source)} is a URL", expected="a file", do="Download it first, then name the file.")


def default_source(say: Callable[[str], None]) -> str:
    """The name of the default training text; `say` is called with a message if the usual one cannot be fetched."""
    try:
        find_source("pride-and-prejudice")
    except DownloadError as error:
        reason = str(error).partition(". ")[0]
        say(f"{reason}. Training on python-docs instead, a text that comes with Python.")
        return "python-docs"
    return "pride-and-prejudice"


def fetch(name: str, *, url: str | None = None, timeout: float = 10.0) -> Path:
    """Fetch a named corpus into the cache, unless it is there already, and check its SHA-256 if it is known.

    Parameters
    ----------
    name : str
        One of the names that `list_corpora` gives.
    url : str, optional
        Another place to download it from.
    timeout : float
        Seconds without an answer after which DownloadError is raised.

    Returns
    -------
    Path
        The file, or the folder of a corpus of several files.

    Examples
    --------
    >>> from elman.data import fetch
    >>> fetch("python-docs").name
    'python-docs.txt'
    """
    corpus = CORPORA.get(name)
    if corpus is None:
        raise UnknownNameError(
            "corpus", expected=f"one of {', '.join(CORPORA)}", got=repr(name), do=did_you_mean(name, CORPORA) or None
        )
    for file, sha256 in corpus.files.items():
        _download(corpus, f"{url or corpus.url}/{file}", sha256, _cache_path(corpus) / file, timeout)
    if corpus.files:
        return _cache_path(corpus)
    if corpus.recipe:
        return _make(corpus, corpus.recipe, url or corpus.url, timeout)
    if corpus.url:
        return _download(corpus, url or corpus.url, corpus.sha256, _cache_path(corpus), timeout)
    path, content = _cache_path(corpus), _content(corpus.lines())
    try:
        if not path.is_file() or path.read_bytes() != content:
            write_atomically(path, lambda file: file.write(content))
    except OSError as error:
        raise _not_writable(name, path, error) from None
    return path


def _in_data_folder(name: str) -> Path | None:
    """The file or folder in $ELMAN_DATA that is called name, name.txt or name.tsv; None if there is none.

    A folder that has the name of a one-file corpus is ignored.
    """
    folder = os.environ.get("ELMAN_DATA")
    paths = [Path(folder, file) for file in (name, f"{name}.txt", f"{name}.tsv")] if folder and name else []
    is_there = os.path.isfile if name in CORPORA and not CORPORA[name].files else os.path.exists
    return next((path for path in paths if is_there(path)), None)


def _cache_path(corpus: NamedCorpus) -> Path:
    return cache_root() / "corpora" / corpus.file_name


def _content(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _make(corpus: NamedCorpus, recipe: Callable[[bytes], Iterator[str]], url: str, timeout: float) -> Path:
    """The file that a recipe makes from a download, or that in the cache if its hash is right or not known."""
    path = _cache_path(corpus)
    if path.is_file() and corpus.sha256 in ("", sha256_of(path)):
        return path
    with tempfile.TemporaryDirectory() as folder:
        download = _download(corpus, url, None, Path(folder, "download"), timeout).read_bytes()
    try:
        content = _content(recipe(download))
        if corpus.sha256 not in ("", hashlib.sha256(content).hexdigest()):
            raise ValueError
    except (ValueError, LookupError, zipfile.BadZipFile) as error:
        cause = "the server did not send the expected file"
        raise DownloadError(f"{corpus.name} could not be fetched: {cause}", do=_advice(corpus, url)) from error
    try:
        write_atomically(path, lambda file: file.write(content))
    except OSError as error:
        raise _not_writable(corpus.name, path, error) from None
    return path


def _advice(corpus: NamedCorpus, url: str, file: str = "") -> str:
    """What the user can do if the download fails; `file` is the path of one of several files, below $ELMAN_DATA."""
    what = f"lines of {corpus.form}, made from {url}," if corpus.form else url
    where = f"{file}, with the other files of the corpus beside it," if file else corpus.file_name
    return f"Try again, or put {what} as {where} in a folder and set ELMAN_DATA to that folder."


def _not_writable(name: str, path: Path, error: OSError) -> DataError:
    return DataError(
        f"{name} cannot be written to {str(path.parent)!r}: {error.strerror or error}",
        do="Set ELMAN_CACHE to a folder that can be written to.",
    )


def _download(corpus: NamedCorpus, url: str, sha256: str | None, path: Path, timeout: float) -> Path:
    import pooch  # imported here because it takes time

    log = pooch.get_logger()
    level = log.level
    log.setLevel("ERROR")  # otherwise pooch logs every download
    try:
        # pooch downloads to a temporary file and renames it if the hash is right.
        pooch.retrieve(
            url,
            known_hash=sha256 and f"sha256:{sha256}",
            fname=path.name,
            path=path.parent,
            downloader=pooch.HTTPDownloader(progressbar=False, timeout=timeout),
        )
    except (OSError, ValueError) as error:
        file = f"{corpus.file_name}/{path.name}" if corpus.files else ""
        raise DownloadError(
            f"{corpus.name} could not be fetched: {_cause(error, url, timeout)}", do=_advice(corpus, url, file)
        ) from error
    finally:
        log.setLevel(level)
    return path


def _cause(error: Exception, url: str, timeout: float) -> str:
    import requests

    if "timed out" in str(error):  # several classes of exceptions
        return f"no answer for {timeout:g} seconds"
    if isinstance(error, requests.HTTPError):
        return f"the server answered {error}"
    if isinstance(error, requests.ConnectionError):
        return f"no connection to {urlsplit(url).netloc}"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the transfer broke off"
    if isinstance(error, requests.RequestException | OSError):
        return str(error)
    return "the server sent another file: its SHA-256 differs"
