"""Bytes to text in chunks: the result does not depend on where chunks end."""

import codecs

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elman.data import gutenberg
from elman.data.decoding import codec_name, decoded, read_text
from elman.data.gutenberg import Boilerplate, removal_note
from elman.errors import EncodingError, UnknownNameError

texts = st.text(st.sampled_from("a\r\né€😀 "), max_size=40)
sizes = st.integers(1, 7)


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[i : i + size] for i in range(0, len(data), size)]


def read(data: bytes, size: int = 1 << 20, encoding: str = "utf-8") -> str:
    return "".join(decoded(cut(data, size), codec_name(encoding), "'f'"))


def unix(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


@given(texts, sizes, st.sampled_from(["utf-8", "utf-16", "utf-32-be", "utf-7", "gb18030"]))
@example("a\r\nb\r\rc\r", 2, "utf-8")
@example("€", 1, "utf-8")
def test_text_does_not_depend_on_the_chunks(text: str, size: int, encoding: str) -> None:
    assert read(text.encode(encoding), size, encoding) == unix(text)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "UTF8", "utf-16"])
@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_byte_order_mark_is_dropped_once(encoding: str, size: int) -> None:
    marked = "\ufeffa\ufeffb".encode("utf-16" if encoding == "utf-16" else "utf-8")
    assert read(marked, size, encoding) == "a\ufeffb"


@given(st.text(st.sampled_from("aé€"), max_size=20), sizes, st.booleans(), st.sampled_from(["utf-8", "utf-8-sig"]))
def test_a_bad_byte_is_reported_with_its_position(text: str, size: int, mark: bool, encoding: str) -> None:
    before = codecs.BOM_UTF8 * mark + text.encode()
    with pytest.raises(EncodingError, match=rf"'f' is not utf-8: byte {len(before)} \(0xFF\)") as caught:
        read(before + b"\xffabc", size, encoding)
    assert "encoding='latin-1'" in str(caught.value)
    assert "tokens='byte'" in str(caught.value)


def test_a_bad_byte_of_a_whole_file_is_reported_with_its_line(tmp_path):
    (tmp_path / "f.txt").write_bytes(codecs.BOM_UTF8 + b"a\nb\xffcd")
    for encoding in ("utf-8", "utf-8-sig"):
        with pytest.raises(EncodingError, match=r"line 2: .*got the byte 0xff"):
            read_text(str(tmp_path / "f.txt"), encoding)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_character_cut_off_at_the_end_is_a_bad_byte(size: int) -> None:
    with pytest.raises(EncodingError, match=r"byte 2 \(0xE2\)"):
        read(b"ab\xe2\x82", size)


@given(st.text(st.sampled_from("aé€\r\n"), max_size=20), sizes, st.sampled_from(["utf-8", "utf-16", "utf-32-le"]))
@example("", 100, "utf-16")
def test_a_nul_is_refused_as_text(text: str, size: int, encoding: str) -> None:
    place = len(text.encode(encoding))
    with pytest.raises(EncodingError, match=rf"NUL at byte {place}\b.*tokens='byte'"):
        read((text + "\0more").encode(encoding), size, encoding)


@pytest.mark.parametrize("name", ["utf-9", "hex", "rot13", "", "a\0b", "é", "zip"])
def test_codecs_that_are_no_text_encoding_are_refused(name: str) -> None:
    with pytest.raises(UnknownNameError, match="encoding"):
        codec_name(name)


def test_a_mistyped_encoding_gives_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean latin1"):
        codec_name("lattin_1")


def test_the_codec_that_refuses_everything_is_no_encoding() -> None:
    with pytest.raises(UnknownNameError, match="undefined"):
        read(b"a", encoding="undefined")


HEADER = "The Project Gutenberg EBook\nof x\n\n*** START OF THIS PROJECT GUTENBERG EBOOK X ***\n"
FOOTER = "*** END OF THIS PROJECT GUTENBERG EBOOK X ***\nLicence\n\nmore licence\n"


def strip(text: str, size: int = 1 << 20, reach: int = 80) -> tuple[str, Boilerplate]:
    """The text with a MAX_HEADER that ends within the START line, in chunks of the given size."""
    boilerplate = Boilerplate()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gutenberg, "MAX_HEADER", reach)
        return "".join(boilerplate.remove(text[i : i + size] for i in range(0, len(text), size))), boilerplate


@given(st.text(st.sampled_from("a \n*"), max_size=80), st.integers(1, 90))
def test_header_and_footer_are_removed_with_the_blank_lines_around_the_text(body: str, size: int) -> None:
    whole = HEADER + body + "\n" + FOOTER
    text, boilerplate = strip(whole, size)
    assert text == body.strip("\n")
    if text:
        assert whole[boilerplate.before :].startswith(text)
        assert len(whole) == boilerplate.before + len(text) + boilerplate.after
        assert f"{boilerplate.before:,} characters before" in str(removal_note([boilerplate]))


@given(st.text(st.sampled_from("a \n*"), max_size=80), st.integers(1, 90))
def test_without_a_start_line_nothing_is_removed(body: str, size: int) -> None:
    text, boilerplate = strip(body + "\n" + FOOTER, size)
    assert text == body + "\n" + FOOTER
    assert removal_note([boilerplate]) is None


@pytest.mark.parametrize("size", [1, 10, 1000])
def test_without_an_end_line_only_the_header_is_removed(size: int) -> None:
    assert strip(HEADER + "\n\nabc\n\n", size)[0] == "abc"


@pytest.mark.parametrize("size", [1, 10, 1000])
@pytest.mark.parametrize("ending", ["", "\n"])
def test_nothing_between_the_markers_leaves_nothing(size: int, ending: str) -> None:
    assert strip(HEADER + "\n\n" + FOOTER, size)[0] == ""
    assert strip(HEADER.rstrip("\n") + ending, size)[0] == ""


@pytest.mark.parametrize("size", [1, 10, 1000])
def test_a_marker_counts_only_at_the_start_of_a_line(size: int) -> None:
    inner = "x *** END OF THIS PROJECT GUTENBERG EBOOK\ny"
    assert strip(HEADER + inner + "\n" + FOOTER, size)[0] == inner
    quoted = "> " + HEADER.splitlines()[-1] + "\ntext"
    assert strip(quoted, size)[0] == quoted


@pytest.mark.parametrize(
    "marker", ["***START OF THE PROJECT GUTENBERG EBOOK X***", "*** Start of the Project Gutenberg"]
)
def test_older_spellings_of_the_marker_count(marker: str) -> None:
    assert strip(f"head\n{marker}\ntext\n***END OF THE PROJECT GUTENBERG EBOOK X***\n")[0] == "text"


@pytest.mark.parametrize("size", [1000, 1 << 20])
def test_a_start_line_far_into_the_text_is_ignored(size: int) -> None:
    start, reach = HEADER.splitlines()[-1], gutenberg.MAX_HEADER
    far = "a" * reach + "\n" + start + "\nb"
    assert strip(far, size, reach)[0] == far
    near = "a" * (reach - 100) + "\n" + start + "\nb"
    assert strip(near, size, reach)[0] == "b"
