"""Several files as one text, and compressed files: errors name the file and leave nothing behind."""

import gzip
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from elman.data import open_corpus, reading, threads, unpacking
from elman.data.sources import find_sources
from elman.data.unpacking import unpacked
from elman.data.vocabulary import CharVocabulary
from elman.data.words import WordVocabulary
from elman.errors import DataError, EncodingError, MissingExtraError, VocabularyError

PARTS = {"a.txt": "one — two\r\n", "b.txt": "three", "c.txt": "", "d.txt": "two, four. ünd so\n", "e.txt": "five"}
WHOLE = "one — two\nthree\ntwo, four. ünd so\nfive"  # with a newline after a file that does not end with one


@pytest.fixture
def books(tmp_path: Path) -> Path:
    folder = tmp_path / "books"
    folder.mkdir()
    for name, text in PARTS.items():
        (folder / name).write_bytes(text.encode())
    return folder


@pytest.fixture(params=[1, 4])
def workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("elman.data.encoding.THREADS", request.param)
    return int(request.param)


def left(cache: Path) -> list[Path]:
    return list(cache.glob("encoded/*"))


@pytest.mark.parametrize("chunk", [3, 1000])
@pytest.mark.parametrize("tokens", ["char", "word", "byte"])
def test_several_files_are_one_text(
    books: Path, tokens: str, chunk: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CHUNK", chunk)
    read = open_corpus(books, tokens=tokens, min_count=1)
    assert read.ids.dtype == read.vocabulary.dtype
    assert not read.ids.flags.writeable
    if tokens == "byte":
        assert bytes(read.ids) == "".join(PARTS.values()).encode()
    else:
        assert read.vocabulary.decode(read.ids) == WHOLE
        assert read.vocabulary == (CharVocabulary(WHOLE) if tokens == "char" else WordVocabulary.of([WHOLE], 99, 1))
        assert read.characters == len(WHOLE)
    assert (read.name, read.source) == ("books", str(books))
    assert read.files == tuple(str(books / name) for name in PARTS)


def test_many_different_characters_make_wide_ids(tmp_path: Path, workers: int) -> None:
    texts = ["".join(map(chr, range(100, 400))) + "\n", "abc\n", "".join(map(chr, range(300, 900)))]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_text(text, encoding="utf-8")
    read = open_corpus(tmp_path / "[0-9].txt")
    assert read.ids.dtype == np.uint16
    assert read.vocabulary.decode(read.ids) == "".join(texts)


def test_files_folders_and_patterns_are_found(books: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (books / "notes.md").write_text("not a text")
    (books / "deep.txt").mkdir()
    (books / "deep.txt" / "z.txt").write_text("deep")
    monkeypatch.chdir(books)
    names = [Path(name) for name in PARTS]
    assert find_sources("*.txt") == names
    assert find_sources(".") == names
    assert find_sources(Path()) == names
    assert find_sources(["d.txt", "b.txt", "[ab].txt"]) == [Path(name) for name in ("d.txt", "b.txt", "a.txt")]
    assert find_sources("**/*.txt") == sorted([*names, Path("deep.txt/z.txt")])
    assert find_sources(["-", "a.txt"]) == [None, Path("a.txt")]
    Path("[x].txt").write_text("a file may be called so")
    assert find_sources("[x].txt") == [Path("[x].txt")]
    for nothing in ("*.pdf", "nowhere/*"):
        with pytest.raises(DataError, match="no file matches"):
            find_sources(nothing)
    with pytest.raises(DataError, match="no file to read"):
        find_sources([])
    Path("empty").mkdir()
    with pytest.raises(DataError, match=r"'empty' is a folder without texts.*\.txt\.gz.*'empty/\*\.md'"):
        find_sources("empty")


def test_several_files_are_named_after_their_common_folder(books: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.txt").write_text("x")
    assert open_corpus([books / "a.txt", books / "d.txt"]).name == "books"
    assert open_corpus([books / "a.txt", tmp_path / "elsewhere" / "x.txt"]).source == str(tmp_path)
    (books / "novel.txt.gz").write_bytes(gzip.compress(b"a novel"))
    assert open_corpus(books / "novel.txt.gz").name == "novel"


def test_the_hash_depends_on_order_borders_and_content(books: Path) -> None:
    a, d = books / "a.txt", books / "d.txt"
    known = {tuple(map(str, files)): open_corpus(files).sha256 for files in ([a], [d], [a, d], [d, a])}
    (books / "x.txt").write_bytes(a.read_bytes() + d.read_bytes()[:4])
    (books / "y.txt").write_bytes(d.read_bytes()[4:])
    known["other borders"] = open_corpus([books / "x.txt", books / "y.txt"]).sha256  # type: ignore[index]
    assert len(set(known.values())) == 5
    each = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (a, d)]
    assert open_corpus([a, d]).sha256 == hashlib.sha256("\n".join(each).encode()).hexdigest()


def test_boilerplate_is_removed_from_each_file(tmp_path: Path, workers: int) -> None:
    for number in range(3):
        marked = f"Head\n*** START OF THE PROJECT GUTENBERG EBOOK\n\nbody {number}\n\n*** END OF THE PROJECT GUTENBERG"
        (tmp_path / f"{number}.txt").write_text(marked if number < 2 else "plain")
    read = open_corpus(tmp_path)
    assert read.vocabulary.decode(read.ids) == "body 0\nbody 1\nplain"
    assert "from 2 of 3 files: 94 characters before" in read.notes[0]


def packed(raw: bytes, ending: str) -> bytes:
    return gzip.compress(raw) if ending == ".gz" else zstandard.ZstdCompressor(write_checksum=True).compress(raw)


@pytest.mark.parametrize("ending", [".gz", ".zst", ".GZ"])
@pytest.mark.parametrize("tokens", ["char", "byte"])
def test_a_compressed_file_is_the_text_in_it(tmp_path: Path, ending: str, tokens: str) -> None:
    raw = os.urandom(4000).hex().encode() + "déjà vu\r\n".encode()
    (tmp_path / "plain.txt").write_bytes(raw)
    (tmp_path / f"t.txt{ending}").write_bytes(packed(raw, ending.lower()))
    plain = open_corpus(tmp_path / "plain.txt", tokens=tokens)
    read = open_corpus(tmp_path / f"t.txt{ending}", tokens=tokens)
    assert np.array_equal(plain.ids, read.ids)
    assert plain.sha256 == read.sha256


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=4), st.integers(1, 50), st.sampled_from([".gz", ".zst"]))
def test_concatenated_streams_are_unpacked_from_any_chunks(raws: list[bytes], size: int, ending: str) -> None:
    data = b"".join(packed(raw, ending) for raw in raws) + b"\0" * (size % 7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unpacking, "PIECE", 7)
        patch.setattr(unpacking, "CHUNK", 30)
        chunks = list(unpacked([data[i : i + size] for i in range(0, len(data), size)], ending, "f"))
        assert b"".join(chunks) == b"".join(raws)
        assert all(len(chunk) >= 30 for chunk in chunks[:-1])
        for end in range(1, len(packed(raws[0], ending))):
            with pytest.raises(DataError, match="f is truncated"):
                list(unpacked([data[:end]], ending, "f"))


def repeated(blocks: int, size: int = 1 << 17) -> bytes:
    """A .zst file of RLE blocks: each repeats a byte 131,072 times and takes four bytes."""
    headers = [
        (number == blocks - 1) | 1 << 1 | size << 3 for number in range(blocks)
    ]  # last block or not, RLE, number of repetitions
    frame = b"\x28\xb5\x2f\xfd\x00\x38"  # the magic number, no options, a window of 128 KB
    return frame + b"".join(header.to_bytes(3, "little") + b"a" for header in headers)


@pytest.mark.parametrize("packed", [repeated(2000), gzip.compress(bytes(250_000_000))], ids=[".zst", ".gz"])
def test_a_small_file_that_unpacks_to_a_large_one_takes_little_memory(packed: bytes) -> None:
    ending = ".zst" if packed.startswith(b"\x28\xb5") else ".gz"
    total = 0
    tracemalloc.start()
    try:
        for chunk in unpacking.unpacked([packed], ending, "a bomb"):
            total += len(chunk)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total >= 250_000_000
    assert peak < 30_000_000


@pytest.mark.parametrize("ending", [".gz", ".zst"])
@pytest.mark.parametrize("broken", ["cut off", "damaged", "foreign", "empty", "trailing"])
def test_a_damaged_compressed_file_is_refused(books: Path, cache: Path, ending: str, broken: str, workers: int) -> None:
    raw = packed(os.urandom(100_000), ending)
    data = {
        "cut off": raw[:-5],
        "damaged": raw[:50] + b"\xff" * 9 + raw[59:],
        "foreign": b"simply text",
        "empty": b"",
        "trailing": raw + b"and more",
    }[broken]
    (books / f"x.txt{ending}").write_bytes(data)
    if broken == "empty":
        assert open_corpus(books, tokens="byte").files[-1].endswith(ending)
        return
    with pytest.raises(DataError, match=rf"x\.txt\{ending}' is (truncated|damaged).* Download or copy the file again"):
        open_corpus(books, tokens="byte")
    assert left(cache) == []


def test_without_zstandard_the_message_says_what_to_install(books: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (books / "x.txt.zst").write_bytes(zstandard.compress(b"x"))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'elman\[zstd\]'"):
        open_corpus(books)


def test_a_file_in_another_encoding_is_named(books: Path, cache: Path, workers: int) -> None:
    (books / "dd.txt").write_bytes("Café".encode("latin-1"))
    with pytest.raises(EncodingError, match=r"dd\.txt' is not utf-8: byte 3 \(0xE9\).*encoding='latin-1'"):
        open_corpus(books)
    assert left(cache) == []


@pytest.mark.parametrize("when", ["hashing", "reading", "encoding"])
def test_a_file_that_is_deleted_is_named(
    books: Path, cache: Path, when: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CHUNK", 4)

    def meddle(what: str, done: int, total: int) -> None:
        if what == when:
            (books / "e.txt").unlink(missing_ok=True)

    monkeypatch.setattr(threads, "ThreadPoolExecutor", OneAtATime)  # else e.txt may be open already
    with pytest.raises(DataError, match=r"e\.txt' was deleted while the text was read"):
        open_corpus(books, progress=meddle)
    assert left(cache) == []


class OneAtATime(threads.ThreadPoolExecutor):
    def __init__(self, workers: int, name: str) -> None:
        super().__init__(1, name)


@pytest.mark.parametrize("how", ["grown", "replaced"])
def test_a_file_that_changes_between_readings_is_named(books: Path, cache: Path, how: str, workers: int) -> None:
    def meddle(what: str, done: int, total: int) -> None:
        if what == "reading" and (books / "d.txt").stat().st_size == len(PARTS["d.txt"].encode()):
            if how == "grown":
                (books / "d.txt").write_text("longer than it was before\n")
            else:
                (books / "new").write_text("as long as it was")
                os.replace(books / "new", books / "d.txt")

    with pytest.raises(DataError, match=r"d\.txt' changed while it was read"):
        open_corpus(books, progress=meddle)
    assert left(cache) == []


def test_several_empty_files_are_refused(books: Path) -> None:
    for path in books.iterdir():
        path.write_bytes(b"")
    for tokens in ("char", "word", "byte"):
        with pytest.raises(DataError, match=r"a\.txt' and 4 more has no text\. They are empty\."):
            open_corpus(books, tokens=tokens)


def test_a_given_vocabulary_reads_several_files(books: Path) -> None:
    known = CharVocabulary(WHOLE.replace("ü", ""))
    assert open_corpus(books, vocabulary=known, unknown="skip").unknown == 1
    with pytest.raises(VocabularyError, match="'ü'"):
        open_corpus(books, vocabulary=known)


def test_progress_is_of_all_files_together(books: Path, workers: int) -> None:
    calls: list[tuple[str, int, int]] = []
    open_corpus(books, progress=lambda *call: calls.append(call))
    size = sum(path.stat().st_size for path in books.iterdir())
    for what in ("hashing", "reading", "encoding"):
        done = [done for name, done, _ in calls if name == what]
        assert done == sorted(done)
        assert done[-1] == size
    assert {total for *_, total in calls} == {size}


def _start_slowly(thread: threading.Thread, start: Callable[[threading.Thread], None] = threading.Thread.start) -> None:
    start(thread)
    time.sleep(0.02)  # the interruption arrives here


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
@pytest.mark.parametrize("while_a_thread_starts", [False, True])
def test_an_interruption_ends_all_threads(
    books: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, while_a_thread_starts: bool
) -> None:
    if while_a_thread_starts:
        monkeypatch.setattr(threading.Thread, "start", _start_slowly)
    monkeypatch.setattr("elman.data.encoding.THREADS", 4)
    monkeypatch.setattr(reading, "CHUNK", 4)
    for path in books.iterdir():
        path.write_text("abc\n" * 1000)
    calls: list[int] = []

    def stop(what: str, done: int, total: int) -> None:
        if what == "encoding":
            calls.append(done)
            if len(calls) in (5, 500):  # twice, because the first may come when it cannot be raised
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.001)

    before = set(threading.enumerate())
    old = signal.signal(signal.SIGINT, signal.default_int_handler)  # a worker of pytest-xdist ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            open_corpus(books, progress=stop)
    finally:
        signal.signal(signal.SIGINT, old)
    assert set(threading.enumerate()) <= before  # one of an earlier test may have ended
    assert len(calls) < 1000  # of 5000
    assert left(cache) == []


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_an_interruption_before_a_thread_starts_is_raised(
    books: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that never started cannot be joined."""
    begin, begun = threading._start_new_thread, []  # type: ignore[attr-defined]

    def interrupted(*what: object) -> int:
        begun.append(what)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return int(begin(*what))

    monkeypatch.setattr("elman.data.encoding.THREADS", 4)
    monkeypatch.setattr(threading, "_start_new_thread", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            open_corpus(books)
        assert len(begun) == 2
    finally:
        threading._limbo.clear()  # type: ignore[attr-defined]


COUNT = """
import sys
from elman.data.encoding import TextEncoder
from elman.data import open_corpus
real = TextEncoder.write
def write(self, out):
    print("encoding", flush=True)
    sys.stdin.readline()
    return real(self, out)
TextEncoder.write = write
print(len(open_corpus(sys.argv[1], progress=lambda what, *_: print(what.split()[0], flush=True)).ids), flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such locks")
def test_two_processes_encode_a_text_once(books: Path, cache: Path) -> None:
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", COUNT, str(books)]
    with subprocess.Popen(command, **pipe) as first:
        assert first.stdout is not None
        while first.stdout.readline() != "encoding\n":
            pass
        with subprocess.Popen(command, **pipe) as second:
            assert second.stdout is not None
            lines = []
            while lines[-1:] != ["waiting\n"]:  # the first process is encoding
                lines.append(second.stdout.readline())
            first.communicate("go\n")
            rest, _ = second.communicate()
    assert "encoding" not in "".join(lines) + rest
    assert rest.endswith(f"{len(WHOLE)}\n")
    assert first.returncode == second.returncode == 0
    assert len(left(cache)) == 2


def test_a_killed_process_does_not_block_others(books: Path, cache: Path) -> None:
    command = [sys.executable, "-c", COUNT, str(books)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        while killed.stdout.readline() != "encoding\n":
            pass
        killed.kill()
    assert open_corpus(books).vocabulary.decode(open_corpus(books).ids) == WHOLE
