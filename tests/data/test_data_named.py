"""Named corpora: where they are looked for, and downloads that are complete or refused."""

import dataclasses
import hashlib
import io
import logging
import re
import socket
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pooch
import pytest

from elman.data import default_source, fetch, find_source, list_corpora, named, open_corpus, read_examples
from elman.data.made import prose
from elman.data.named import find_here
from elman.errors import DataError, DownloadError, UnknownNameError

BODY = b"It is a truth universally acknowledged.\r\n" * 100
NAME = "pride-and-prejudice"


class Handler(BaseHTTPRequestHandler):
    """A server whose behavior depends on the path."""

    asked: list[str]  # set by the fixture
    quiet: threading.Event
    bodies: dict[str, bytes]  # of some paths

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path == "/silent":
            self.quiet.wait(10)
            return
        if self.path == "/missing":
            self.send_error(404)
            return
        body = self.bodies.get(self.path, BODY)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.path == "/stalling":
            self.wfile.write(BODY[:100])
            self.wfile.flush()
            self.quiet.wait(10)
        elif self.path == "/truncated":
            self.wfile.write(BODY[:-1])
        elif self.path == "/corrupted":
            self.wfile.write(BODY[:-1] + b"?")
        else:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[str]]]:
    """The address of a server of the corpus, and the paths that were requested."""
    handler = type("Handler", (Handler,), {"asked": [], "quiet": threading.Event(), "bodies": {}})
    corpus = dataclasses.replace(
        named.CORPORA[NAME], url="http://127.0.0.1:9/", sha256=hashlib.sha256(BODY).hexdigest(), size=len(BODY)
    )
    monkeypatch.setitem(named.CORPORA, NAME, corpus)
    monkeypatch.setattr(Handler, "bodies", handler.bodies, raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}", handler.asked
        handler.quiet.set()
        http.shutdown()
        thread.join()


@pytest.fixture
def closed_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """No network: the address of the corpus is a port without a server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    monkeypatch.setitem(
        named.CORPORA, NAME, dataclasses.replace(named.CORPORA[NAME], url=f"http://127.0.0.1:{port}/1342.txt")
    )


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_complete_download_is_cached_and_requested_once(
    server: tuple[str, list[str]], cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    url, asked = server
    for _ in range(2):
        path = fetch(NAME, url=url + "/whole")
        assert path.read_bytes() == BODY
    assert asked == ["/whole"]
    assert files(cache) == [path]
    assert path.name == f"{NAME}.txt"
    assert find_source(NAME) == path  # the url in the table does not work: this is the copy in the cache
    assert capfd.readouterr() == ("", "")
    path.write_bytes(b"damaged")
    assert fetch(NAME, url=url + "/whole").read_bytes() == BODY


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        ("/truncated", "the transfer broke off"),
        ("/corrupted", "the server sent another file: its SHA-256 differs"),
        ("/silent", "no answer for 0.2 seconds"),
        ("/stalling", "no answer for 0.2 seconds"),
        ("/missing", "the server answered 404"),
    ],
)
def test_a_broken_download_is_refused_and_leaves_nothing(
    server: tuple[str, list[str]], cache: Path, path: str, cause: str
) -> None:
    pooch.get_logger().setLevel("INFO")
    begin = time.monotonic()
    with pytest.raises(DownloadError, match=rf"could not be fetched: {cause}.*ELMAN_DATA"):
        fetch(NAME, url=server[0] + path, timeout=0.2)
    assert time.monotonic() - begin < 5
    assert files(cache) == []
    assert pooch.get_logger().level == logging.INFO  # unchanged


@pytest.mark.usefixtures("closed_port")
def test_a_refused_connection_is_reported(cache: Path) -> None:
    with pytest.raises(DownloadError, match=r"no connection to 127\.0\.0\.1:\d+\. .*ELMAN_DATA"):
        find_source(NAME)
    assert files(cache) == []


def test_a_download_that_cannot_be_written_is_reported(
    server: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ELMAN_CACHE", str(tmp_path / "file"))
    with pytest.raises(DownloadError, match="could not be fetched"):
        fetch(NAME, url=server[0] + "/whole")
    with pytest.raises(DataError, match="Set ELMAN_CACHE"):
        fetch("python-docs")


@pytest.mark.usefixtures("closed_port")
def test_without_network_and_copy_the_default_is_python_docs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    said: list[str] = []
    assert default_source(said.append) == "python-docs"
    assert len(said) == 1
    assert "no connection" in said[0]
    assert "python-docs" in said[0]
    assert "\n" not in said[0]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / f"{NAME}.txt").write_text("mine")
    monkeypatch.setenv("ELMAN_DATA", str(tmp_path / "mine"))
    assert default_source(said.append) == NAME
    assert len(said) == 1


def test_a_corpus_of_several_files_is_a_folder_to_classify(
    server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, asked = server
    digest = hashlib.sha256(BODY).hexdigest()
    files = {"English.txt": digest, "Irish.txt": digest}
    monkeypatch.setitem(named.CORPORA, "names", dataclasses.replace(named.CORPORA["names"], url=url, files=files))
    folder = find_here("names")
    assert folder is not None
    assert folder.is_relative_to(cache)
    assert sorted(path.name for path in folder.iterdir()) == ["English.txt", "Irish.txt"]
    assert asked == ["/English.txt", "/Irish.txt"]
    assert fetch("names") == find_source("names") == folder
    assert len(asked) == 2  # once each
    assert {row.name: row.where for row in list_corpora()}["names"] == folder
    assert set(read_examples(str(folder), "classify").targets) == {"English", "Irish"}


def test_a_corpus_with_one_changed_file_is_refused(server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"English.txt": hashlib.sha256(BODY).hexdigest(), "corrupted": hashlib.sha256(BODY).hexdigest()}
    monkeypatch.setitem(named.CORPORA, "names", dataclasses.replace(named.CORPORA["names"], url=server[0], files=files))
    says = r"SHA-256 differs.*put http.*/corrupted as names/corrupted, with the other files .* beside it, in a folder"
    with pytest.raises(DownloadError, match=says):
        fetch("names")
    assert {row.name: row.where for row in list_corpora()}["names"] is None


def zipped(files: dict[str, str]) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return memory.getvalue()


SENTENCES = {
    "reviews/amazon_cells_labelled.txt": "Good case,  I say.  \t1\nBad.\t0\n",
    "__MACOSX/reviews/._imdb_labelled.txt": "not a text",
    "reviews/imdb_labelled.txt": "The script is\x85was there one?\t0\n",
    "reviews/yelp_labelled.txt": "Wow... Loved it.\t1\n\n",
}
CONLLU = """# text = It's me
1-2\tIt's\t_\t_
1\tIt\tit\tPRON
2\t's\tbe\tAUX
2.1\tgone\tgo\tVERB
3\tme\tI\tPRON

# text = Go
1\tGo\tgo\tVERB

"""
DOWNLOADS = {
    "sentiment": zipped(SENTENCES),
    "questions": b"LOC:city Which city is a sister\xf0city ?\nDESC:def What is  it ?\n",
    "part-of-speech": CONLLU.encode(),
    "pronunciation": b"'bout B AW1 T\nfan F AE1 N\nfan(2) F AE0 N # rare\nmd M D # abbrev\n",
    "english-french": zipped({"data/eng-fra.txt": "Go.\tVa !\nRun!\tCours\u202f!\n" + "Wait.\tAttends.\n" * 40_000}),
}
EXAMPLES = {
    "sentiment": {"Good case, I say.\tpositive", "Bad.\tnegative", "The script is\x85was there one?\tnegative",
                  "Wow... Loved it.\tpositive"},
    "questions": {"Which city is a sister city ?\tLOC", "What is  it ?\tDESC"},
    "part-of-speech": {"It\tPRON", "'s\tAUX", "me\tPRON", "", "Go\tVERB"},
    "pronunciation": {"fan\tF AE1 N", "md\tM D"},
    "english-french": {"Go.\tVa !", "Run!\tCours\u202f!", "Wait.\tAttends."},
}  # fmt: skip


@pytest.mark.parametrize("name", DOWNLOADS)
def test_examples_are_made_from_published_files(
    server: tuple[str, list[str]], cache: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, asked = server
    Handler.bodies["/published"] = DOWNLOADS[name]
    content = "".join(f"{line}\n" for line in named.CORPORA[name].recipe(DOWNLOADS[name])).encode()
    corpus = dataclasses.replace(
        named.CORPORA[name], url=f"{url}/published", sha256=hashlib.sha256(content).hexdigest()
    )
    monkeypatch.setitem(named.CORPORA, name, corpus)
    path = find_here(name)
    assert path is not None
    assert path.name == f"{name}.tsv"
    assert {row.name: row.where for row in list_corpora()}[name] == path
    assert set(path.read_text("utf-8").removesuffix("\n").split("\n")) <= EXAMPLES[name]
    rows = read_examples(str(path), "tag" if name == "part-of-speech" else "classify")
    assert len(rows) == {"english-french": 25_000, "sentiment": 4}.get(name, 2)
    assert fetch(name) == find_source(name) == path
    assert len(asked) == 1  # it is downloaded once
    path.write_text("damaged")
    assert fetch(name).read_bytes() == content
    assert files(cache) == [path]


@pytest.mark.parametrize("name", DOWNLOADS)
@pytest.mark.parametrize("body", [b"another", zipped({"a": "b"}), b"\xff\x00\n"])
def test_another_download_than_the_known_one_is_refused(
    server: tuple[str, list[str]], cache: Path, name: str, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(named.CORPORA, name, dataclasses.replace(named.CORPORA[name], sha256="0" * 64))
    Handler.bodies["/other"] = body
    with pytest.raises(DownloadError, match=rf"did not send the expected file.*made from http.*as {name}\.tsv in a"):
        fetch(name, url=server[0] + "/other")
    assert files(cache) == []


def test_the_data_folder_comes_before_a_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "names").mkdir()
    assert find_here("names") == Path("names")
    (tmp_path / "data" / "names").mkdir(parents=True)
    (tmp_path / "names").rmdir()
    monkeypatch.setenv("ELMAN_DATA", str(tmp_path / "data"))
    assert find_here("names") == tmp_path / "data" / "names"


def test_python_docs_is_prose_without_code(cache: Path) -> None:
    text = find_source("python-docs").read_text("utf-8")
    assert not re.search(r'[][{}<>=|\\_@#"]|::', text)
    for paragraph in text.strip().split("\n\n"):
        assert re.fullmatch(r"[A-Z].*[a-z)][.!?]", paragraph, re.DOTALL)


def test_prose_leaves_out_tables_signatures_grammar_and_listings() -> None:
    text = """Heading
*******

   stmt ::= "pass" | expr

The statement "pass" is a null operation: when it runs, nothing happens. It is useful as a *placeholder*.

   def f(arg): pass    # a function that does nothing (yet), but it does it well and often.

+-------+---------+
| table | of rows |

object.__add__(self, other)

* A mapping object maps hashable values to arbitrary objects, and mappings are mutable objects.

* A mapping object maps hashable values to arbitrary objects, and mappings are mutable objects.
"""
    mapping = "A mapping object maps hashable values to arbitrary objects, and mappings are mutable objects."
    nothing = "The statement pass is a null operation: when it runs, nothing happens. It is useful as a placeholder."
    assert list(prose([text])) == [nothing, mapping]


def test_python_docs_is_english_and_needs_no_network(cache: Path) -> None:
    path = find_source("python-docs")
    text = path.read_text("utf-8")
    assert len(text) > 80_000
    assert "statement" in text
    assert path.is_relative_to(cache)
    written = path.stat().st_mtime_ns
    assert fetch("python-docs") == path
    assert path.stat().st_mtime_ns == written
    path.write_text("damaged")
    assert fetch("python-docs").read_text("utf-8") == text
    corpus = open_corpus("python-docs")
    assert corpus.name == "python-docs"
    assert corpus.vocabulary.decode(corpus.ids) == text


@pytest.mark.usefixtures("closed_port")
def test_the_order_of_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.chdir(tmp_path)
    kept = cache / "corpora" / f"{NAME}.txt"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(BODY)
    monkeypatch.setitem(
        named.CORPORA, NAME, dataclasses.replace(named.CORPORA[NAME], sha256=hashlib.sha256(BODY).hexdigest())
    )
    assert find_source(NAME) == kept
    mine = tmp_path / "mine"
    mine.mkdir()
    monkeypatch.setenv("ELMAN_DATA", str(mine))
    assert find_source(NAME) == kept
    (mine / f"{NAME}.txt").write_text("x")
    assert find_source(NAME) == mine / f"{NAME}.txt"
    (mine / NAME).write_text("x")
    assert find_source(NAME) == mine / NAME
    (tmp_path / NAME).mkdir()
    assert find_source(NAME) == mine / NAME  # a folder of that name is ignored
    (tmp_path / NAME).rmdir()
    (tmp_path / NAME).write_text("x")
    assert find_source(NAME) == Path(NAME)
    assert find_source("-") == Path("-")


def test_a_folder_in_the_data_folder_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, here = tmp_path / "mine", tmp_path / "here"
    for folder in (mine / "names", mine / NAME, here):
        folder.mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("ELMAN_DATA", str(mine))
    assert find_source("names") == find_here("names") == mine / "names"
    assert find_here(NAME) is None  # a folder in place of a one-file corpus is ignored
    assert find_here("") is None
    (here / "names").mkdir()
    (mine / "names.txt").write_text("x")
    assert find_source("names") == find_here("names") == Path("names")  # the working folder comes first


def test_any_file_in_the_data_folder_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "emma.txt").write_text("Emma Woodhouse, handsome, clever, and rich")
    monkeypatch.setenv("ELMAN_DATA", str(tmp_path))
    assert open_corpus("emma").source == str(tmp_path / "emma.txt")
    assert open_corpus("emma.txt").name == "emma"


@pytest.mark.parametrize("name", ["pride-and-predjudice", "pride", "python_docs", "", "It is a truth " * 1000, "a\0b"])
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(DataError, match=r"Corpora are pride-and-prejudice, names, .*python-docs") as caught:
        open_corpus(name)
    meant = {"pride-and-predjudice": NAME, "python_docs": "python-docs"}.get(name)
    assert (f"Did you mean {meant}?" in str(caught.value)) == (meant is not None)
    with pytest.raises(UnknownNameError, match="one of pride-and-prejudice"):
        fetch(name)


def test_the_list_says_what_is_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [(row.name, row.where) for row in list_corpora()] == [(name, None) for name in named.CORPORA]
    docs = fetch("python-docs")
    (tmp_path / f"{NAME}.txt").write_text("x")
    monkeypatch.setenv("ELMAN_DATA", str(tmp_path))
    rows = list_corpora(texts=True)
    assert [row.where for row in rows] == [tmp_path / f"{NAME}.txt", docs, None]
    assert [row.size for row in rows] == [717_602, docs.stat().st_size, 92_895]


@pytest.mark.parametrize("url", ["http://example.com/a.txt", "https://example.com/a.txt?raw=1"])
def test_a_url_is_refused(url: str) -> None:
    for read in (open_corpus, find_here):
        with pytest.raises(
            DataError, match=r"'https?://example\.com/.*' is a URL: expected a file\. Download it first"
        ):
            read(url)


def test_a_data_folder_that_does_not_exist_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    also = r"files are also searched for in \$ELMAN_DATA"
    for folder, but in ((str(tmp_path), ""), ("/nonexistent", ", but there is no folder '/nonexistent'")):
        monkeypatch.setenv("ELMAN_DATA", folder)
        with pytest.raises(DataError, match=rf"; {also}{but}\.$"):
            open_corpus("foo.txt")
        with pytest.raises(DataError, match=rf"On the command line, {also}{but}\.$"):
            read_examples("foo.tsv", "classify")
