"""Corpora that have a name, and the search for one."""

from __future__ import annotations

import os
import platform
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from elman.data.cache import write_atomically
from elman.data.checks import did_you_mean
from elman.errors import DataError, DownloadError, UnknownNameError
from elman.files import cache_root


@dataclass(frozen=True)
class NamedCorpus:
    """A text that Elman knows where to find."""

    name: str
    description: str
    file_name: str
    url: str = ""  # none: it is made here
    sha256: str = ""
    size: int = 0  # bytes


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
            "python-docs",
            "Prose of Python's language reference, from the installed Python (pydoc_data.topics): needs no network",
            "python-docs.txt",
        ),
    )
}


class Row(NamedTuple):
    """A named corpus in a list."""

    name: str
    description: str
    size: int  # bytes
    where: Path | None  # where it is now; None if it is yet to be fetched


def list_corpora() -> list[Row]:
    """All named corpora."""
    rows = []
    for corpus in CORPORA.values():
        kept = _kept(corpus)
        where = _given(corpus.name) or (kept if kept.is_file() else None)
        rows.append(Row(corpus.name, corpus.description, corpus.size or len(_python_docs()), where))
    return rows


def find_source(source: str) -> Path:
    """What is here or in $ELMAN_DATA; else a named corpus, from the cache or the network."""
    if source == "-":
        return Path(source)
    if (here := find_here(source)) is not None:
        return here
    if source in CORPORA:
        return fetch(source)
    if os.path.dirname(source):  # a path that opening will judge
        return Path(source)
    ways = f"{did_you_mean(source, CORPORA)} Corpora are {', '.join(CORPORA)}; files are also sought in $ELMAN_DATA."
    raise DataError(f"there is no file and no corpus named {source!r}", do=ways.strip())


def find_here(source: str) -> Path | None:
    """A file, folder or pipe as it is named; else one of that name in $ELMAN_DATA. A corpus is no folder."""
    if os.path.exists(source) and not (source in CORPORA and os.path.isdir(source)):
        return Path(source)
    return _given(source)


def default_source(say: Callable[[str], None]) -> str:
    """The text to train on if none is named; `say` gets a sentence if it is not the usual one."""
    try:
        find_source("pride-and-prejudice")
    except DownloadError as error:
        reason = str(error).partition(". ")[0]
        say(f"{reason}. Training on python-docs instead, a text that comes with Python.")
        return "python-docs"
    return "pride-and-prejudice"


def fetch(name: str, *, url: str | None = None, timeout: float = 10.0) -> Path:
    """A named corpus, whole and checked, in the cache; it is downloaded only if it is not there."""
    corpus = CORPORA.get(name)
    if corpus is None:
        raise UnknownNameError(
            "corpus", expected=f"one of {', '.join(CORPORA)}", got=repr(name), do=did_you_mean(name, CORPORA) or None
        )
    if corpus.url:
        return _downloaded(corpus, url or corpus.url, timeout)
    path, text = _kept(corpus), _python_docs()
    try:
        if not path.is_file() or path.read_bytes() != text:
            write_atomically(path, lambda file: file.write(text))
    except OSError as error:
        raise DataError(
            f"{name} cannot be written to {str(path.parent)!r}: {error.strerror or error}",
            do="Set ELMAN_CACHE to a folder that can be written to.",
        ) from None
    return path


def _given(name: str) -> Path | None:
    """The user's own copy."""
    folder = os.environ.get("ELMAN_DATA")
    paths = [Path(folder, file) for file in (name, f"{name}.txt")] if folder and name else []
    is_there = os.path.isfile if name in CORPORA else os.path.exists
    return next((path for path in paths if is_there(path)), None)


def _kept(corpus: NamedCorpus) -> Path:
    """Its place in the cache; one for each Python where the text is Python's own."""
    folder = cache_root() / "corpora"
    return (folder if corpus.url else folder / f"python-{platform.python_version()}") / corpus.file_name


def _python_docs() -> bytes:
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise DataError("python-docs is missing: this Python has no pydoc_data", do="Name a file.") from None
    return ("\n\n".join(textwrap.fill(paragraph, 72) for paragraph in prose(topics.values())) + "\n").encode()


_CODE = re.compile(r"[][{}<>=|\\_@#%&^~/+`\"]|::|\*\*|\.\.\.")
_WORD = re.compile(r"[(]?[A-Za-z][a-z]*(?:['’-][a-z]+)*[,.;:!?)]*")
LEAST_WORDS = 12  # of a paragraph


def prose(texts: Iterable[str]) -> Iterator[str]:
    """The paragraphs of technical texts, each once and on one line, without tables, grammar, signatures and listings.

    A sentence is kept if it begins and ends as one, has no characters of code, and nine of ten words are plain words.
    """
    seen: set[str] = set()
    for block in (block for text in texts for block in re.split(r"\n[ \t]*\n", text)):
        words = re.sub(r"^\s*(?:[*•]|\d+\.)\s+", "", block).split()  # without the mark of a list's entry
        paragraph = re.sub(r"\*(\w[^*]*)\*", r"\1", " ".join(words))  # *emphasis*
        paragraph = re.sub(r'"([A-Za-z]+)"', r"\1", paragraph)  # "name"
        kept = " ".join(filter(_is_sentence, re.split(r"(?<=[.!?])\s+(?=[A-Z])", paragraph)))
        if len(kept.split()) >= LEAST_WORDS and kept not in seen:
            seen.add(kept)
            yield kept


def _is_sentence(text: str) -> bool:
    words = text.split()
    plain = sum(_WORD.fullmatch(word) is not None for word in words)
    complete = re.match(r"[A-Z]", text) and re.search(r"[a-z)][.!?]$", text) and text.count("(") == text.count(")")
    return len(words) >= 5 and bool(complete) and not _CODE.search(text) and plain >= 0.9 * len(words)


def _downloaded(corpus: NamedCorpus, url: str, timeout: float) -> Path:
    import pooch  # here, so that importing this room is quick

    path, log = _kept(corpus), pooch.get_logger()
    level = log.level
    log.setLevel("ERROR")  # it reports every download otherwise
    try:
        # To a temporary file beside it, which gets its name once the hash is right, and is deleted if it is not.
        pooch.retrieve(
            url,
            known_hash=f"sha256:{corpus.sha256}",
            fname=path.name,
            path=path.parent,
            downloader=pooch.HTTPDownloader(progressbar=False, timeout=timeout),
        )
    except (OSError, ValueError) as error:
        raise DownloadError(
            f"{corpus.name} could not be fetched: {_cause(error, url, timeout)}",
            do=f"Try again, or put {url} as {corpus.file_name} in a folder and set ELMAN_DATA to that folder.",
        ) from error
    finally:
        log.setLevel(level)
    return path


def _cause(error: Exception, url: str, timeout: float) -> str:
    import requests

    if "timed out" in str(error):  # several classes, by when it happened
        return f"no answer for {timeout:g} seconds"
    if isinstance(error, requests.HTTPError):
        return f"the server said {error}"
    if isinstance(error, requests.ConnectionError):
        return f"no connection to {urlsplit(url).netloc}"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the transfer broke off"
    if isinstance(error, requests.RequestException | OSError):
        return str(error)
    return "what came is another file, its sha256 is not the one expected"
