"""From a file to ids: streaming, cache, split, and errors."""

import hashlib
import io
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elman.data import Corpus, corpus_from_text, open_corpus, reading
from elman.data.vocabulary import ByteVocabulary, CharVocabulary
from elman.data.words import UNK, WordVocabulary
from elman.errors import DataError, EncodingError, RangeError, UnknownNameError, VocabularyError

AUSTEN = Path(__file__).parents[3] / "shared" / "corpora" / "pride-and-prejudice.txt"
TEXT = "It is a truth universally acknowledged,\r\nthat a single man — rich — is a man.\rIt is.\n"
PLAIN = TEXT.replace("\r\n", "\n").replace("\r", "\n")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "truth.txt"
    path.write_bytes(TEXT.encode())
    return path


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("tokens", ["char", "word"])
def test_a_file_gives_the_ids_of_its_whole_text(
    file: Path, tokens: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CHUNK", chunk)
    read = open_corpus(file, tokens=tokens)
    unknown = "error" if tokens == "char" else "replace"
    assert read.vocabulary == (CharVocabulary(PLAIN) if tokens == "char" else WordVocabulary.of([PLAIN]))
    assert read.ids.tolist() == read.vocabulary.encode(PLAIN, unknown=unknown).tolist()  # type: ignore[arg-type]
    assert not read.ids.flags.writeable
    assert (read.name, read.source, read.characters) == ("truth", str(file), len(PLAIN))
    assert read.sha256 == hashlib.sha256(TEXT.encode()).hexdigest()


@pytest.mark.parametrize("chunk", [1, 1000])
def test_byte_tokens_are_the_bytes_as_they_are(tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CHUNK", chunk)
    raw = b"\xef\xbb\xbf*** START OF THE PROJECT GUTENBERG EBOOK\r\n\x00\xff\xfe" + "é€".encode()
    (tmp_path / "b.bin").write_bytes(raw)
    read = open_corpus(tmp_path / "b.bin", tokens="byte")
    assert bytes(read.ids) == raw
    assert read.vocabulary == ByteVocabulary()
    assert read.characters == len(raw) - 2 - 1 - 2  # bytes that continue: of the mark, é and €
    assert read.notes == ()


@given(st.text(st.characters(), min_size=1, max_size=60), st.sampled_from(["char", "byte", "word"]))
def test_a_text_in_memory_is_decoded_to_itself(text: str, tokens: str) -> None:
    read = corpus_from_text(text, tokens=tokens, min_count=1)
    raw = text.encode("utf-8", "surrogatepass")
    if tokens == "byte":
        assert bytes(read.ids) == raw
    else:
        assert read.vocabulary.decode(read.ids) == text.replace("\r\n", "\n").replace("\r", "\n")
    assert (read.name, read.source, read.unknown) == ("text", "", 0)
    assert read.sha256 == hashlib.sha256(raw).hexdigest()
    assert read.ids.dtype == read.vocabulary.dtype


def test_an_encoding_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "l.txt").write_bytes("déjà vu".encode("latin-1"))
    with pytest.raises(EncodingError, match=r"l\.txt' is not utf-8: byte 1 \(0xE9\).*encoding='latin-1'"):
        open_corpus(tmp_path / "l.txt")
    read = open_corpus(tmp_path / "l.txt", encoding="latin-1")
    assert read.vocabulary.decode(read.ids) == "déjà vu"


def test_boilerplate_is_removed_with_a_note_and_can_be_kept(tmp_path: Path) -> None:
    whole = "Head\n*** START OF THE PROJECT GUTENBERG EBOOK X ***\n\nbody\n\n*** END OF THE PROJECT GUTENBERG EBOOK X\n"
    (tmp_path / "g.txt").write_text(whole)
    removed = open_corpus(tmp_path / "g.txt")
    assert removed.vocabulary.decode(removed.ids) == "body"
    assert len(removed.notes) == 1
    assert "keep_boilerplate" in removed.notes[0]
    kept = open_corpus(tmp_path / "g.txt", keep_boilerplate=True)
    assert kept.vocabulary.decode(kept.ids) == whole
    assert kept.notes == ()


def test_progress_counts_to_the_end(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CHUNK", 50)
    calls: list[tuple[str, int, int]] = []
    open_corpus(file, progress=lambda *call: calls.append(call))
    size = len(TEXT.encode())
    assert calls == [(what, done, size) for what in ("hashing", "reading", "encoding") for done in (50, size)]


def test_a_given_vocabulary_is_used(file: Path) -> None:
    vocabulary = CharVocabulary(PLAIN.replace("—", "") + "xyz")
    with pytest.raises(VocabularyError, match=r"'—'.*unknown='skip'"):
        open_corpus(file, vocabulary=vocabulary, tokens="word")
    read = open_corpus(file, vocabulary=vocabulary, unknown="skip")
    assert read.vocabulary == vocabulary
    assert read.vocabulary.decode(read.ids) == PLAIN.replace("—", "")
    assert (read.unknown, read.characters) == (2, len(PLAIN) - 2)
    assert read.notes == (f"2 of {len(PLAIN)} characters were skipped: they are not in the vocabulary.",)
    with pytest.raises(DataError, match="no token of the vocabulary"):
        open_corpus(file, vocabulary=CharVocabulary("Ω"), unknown="skip")


def test_unknown_words_are_counted_and_reported(file: Path) -> None:
    for read in (open_corpus(file, tokens="word"), corpus_from_text(PLAIN, tokens="word")):
        assert read.unknown == np.count_nonzero(read.ids == 0) > 0
        assert f"{read.unknown} of {len(read.ids)} words" in read.notes[0]
        assert UNK in read.notes[0]
        assert read.characters == len(PLAIN)


@pytest.mark.parametrize("n", [1, 9, 10, 101, 684_884])
@pytest.mark.parametrize(("validation", "test"), [(0.1, 0.0), (0.0, 0.0), (0.1, 0.1), (0.25, 0.2)])
def test_a_split_is_three_views_in_order(n: int, validation: float, test: float) -> None:
    ids = np.arange(n)
    whole = Corpus(ids, CharVocabulary("a"), "n", "", "", n, 0, ())
    split = whole.split(validation, test)
    parts = (split.train, split.validation, split.test)
    assert np.array_equal(np.concatenate(parts), ids)
    assert [len(part) for part in parts[1:]] == [round(validation * n), round(test * n)]
    assert all(np.shares_memory(part, ids) for part in parts if len(part))


@pytest.mark.parametrize(("validation", "test"), [(1, 0), (-0.1, 0), (float("nan"), 0), (0, 1.5), (0.5, 0.5)])
def test_a_split_that_leaves_nothing_is_refused(validation: float, test: float) -> None:
    with pytest.raises(RangeError, match="fraction"):
        corpus_from_text("abcdefghij").split(validation, test)


def test_missing_empty_and_unreadable_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="there is no file"):
        open_corpus(tmp_path / "nothing.txt")
    with pytest.raises(DataError, match="there is no file"):
        open_corpus(str(tmp_path / "nothing.txt"))
    with pytest.raises(DataError, match="is a folder"):
        open_corpus(tmp_path)
    with pytest.raises(DataError, match="is a folder"):
        open_corpus(str(tmp_path))
    with pytest.raises(DataError, match="cannot be read"):
        open_corpus(tmp_path / "a\0b")
    with pytest.raises(DataError, match="cannot be read"):
        open_corpus(tmp_path / ("a" * 5000))

    def denied(self: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "secret").touch()
    monkeypatch.setattr(Path, "open", denied)  # file permissions do not apply to root, who runs tests in containers
    with pytest.raises(DataError, match="cannot be read: Permission denied"):
        open_corpus(tmp_path / "secret")


@pytest.mark.parametrize("tokens", ["char", "byte", "word"])
def test_an_empty_text_is_refused(tmp_path: Path, tokens: str, cache: Path) -> None:
    (tmp_path / "empty.txt").write_bytes(b"")
    with pytest.raises(DataError, match=r"empty\.txt' has no text"):
        open_corpus(tmp_path / "empty.txt", tokens=tokens)
    with pytest.raises(DataError, match="the text has no text"):
        corpus_from_text("", tokens=tokens)
    if tokens != "byte":
        (tmp_path / "shell.txt").write_text("*** START OF THE PROJECT GUTENBERG EBOOK\n\n")
        with pytest.raises(DataError, match=r"shell\.txt' has no text"):
            open_corpus(tmp_path / "shell.txt", tokens=tokens)
    assert list(cache.glob("encoded/*")) == []


def test_a_binary_file_as_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"ELF\x00\x01")
    with pytest.raises(EncodingError, match=r"NUL at byte 3.*tokens='byte'"):
        open_corpus(tmp_path / "b")


def test_invalid_options_are_refused(file: Path) -> None:
    with pytest.raises(UnknownNameError, match="one of char, byte, word"):
        open_corpus(file, tokens="letters")
    with pytest.raises(UnknownNameError, match="one of error, skip, replace"):
        open_corpus(file, unknown="drop")
    with pytest.raises(UnknownNameError, match="encoding"):
        open_corpus(file, encoding="utf-9")
    for option in ("vocabulary_size", "min_count"):
        with pytest.raises(RangeError, match=option):
            open_corpus(file, **{option: 0})  # type: ignore[arg-type]
    with pytest.raises(VocabularyError, match="for words"):
        open_corpus(file, unknown="replace")


def test_a_file_that_grows_while_it_is_read_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CHUNK", 20)  # less than the file grows by at each chunk

    def meddle(what: str, done: int, total: int) -> None:
        if what == "reading":
            with file.open("ab") as more:
                more.write(b"more" * 10)

    with pytest.raises(DataError, match="changed while it was read"):
        open_corpus(file, progress=meddle)


def test_standard_input_is_read_as_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(TEXT.encode())))
    read = open_corpus("-")
    assert (read.name, read.source) == ("stdin", "-")
    assert read.vocabulary.decode(read.ids) == PLAIN
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match="standard input cannot be read"):
        open_corpus("-")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_read_as_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["sh", "-c", f"printf 'from a pipe' > {tmp_path}/pipe"]):
        read = open_corpus(str(tmp_path / "pipe"))
    assert read.vocabulary.decode(read.ids) == "from a pipe"


@pytest.mark.parametrize(("file_name", "name"), [("a b&c.txt", "a-b-c"), ("¡!.txt", "text"), ("x" * 99, "x" * 60)])
def test_names_can_be_file_names(tmp_path: Path, file_name: str, name: str) -> None:
    (tmp_path / file_name).write_text("abc")
    assert open_corpus(tmp_path / file_name).name == name


@pytest.mark.skipif(not AUSTEN.exists(), reason=f"no {AUSTEN}")
def test_pride_and_prejudice_is_the_benchmark_text() -> None:
    whole = AUSTEN.read_bytes().decode().replace("\r\n", "\n")
    body = whole[whole.index("***\n", whole.index("*** START OF")) + 4 : whole.index("*** END OF")].strip("\n")
    read = open_corpus(AUSTEN)
    assert read.vocabulary.decode(read.ids) == body
    assert (len(read.ids), len(read.vocabulary), len(read.split().validation)) == (684_884, 75, 68_488)


def test_elman_data_imports_nothing_heavy() -> None:
    heavy = "{'numba', 'sklearn', 'plotly', 'pooch', 'requests', 'scipy'}"
    code = f"import sys, elman.data; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"
