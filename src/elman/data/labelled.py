"""Examples in files: text<TAB>label lines or a folder with one file a label, token<TAB>tag lines with blank lines
between sentences, source<TAB>target lines. A row that does not fit is reported with its file and line.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elman.data.decoding import codec_name
from elman.data.sources import PACKED
from elman.errors import DataError, EncodingError

TASKS = ("classify", "tag", "generate", "translate")
LOOKED_AT = 2000  # lines, to guess what a file holds
NEARLY_ALL = 0.9  # of the lines: if so many have a form, the others are mistakes
SHORT = 60  # characters: lines that are longer on average are rather text than examples
ABOUT = ("readme", "license", "licence")  # files that tell of a folder, unless they look like examples
NEWLINE = b"\n"
FEW = 0.05  # of the lines: so many may be blank by mistake; between paragraphs there are more


@dataclass(frozen=True)
class Rows:
    """What is in a file: for each example its two sides, and where it stood."""

    left: list[Any]  # texts, or lists of tokens
    right: list[Any]  # labels, targets, or lists of tags
    places: list[str]  # "names.tsv, line 3"

    def __len__(self) -> int:
        return len(self.left)


def read_rows(source: str, task: str, *, encoding: str = "utf-8") -> Rows:
    """The examples of a file, a folder (classify and generate) or standard input (-)."""
    path = Path(source)
    if source != "-" and path.is_dir():
        return _read_folder(path, task, encoding)
    rows = _tagged(source, encoding) if task == "tag" else _pairs(source, task, encoding)
    if not len(rows):
        raise DataError(f"{source} holds no example", expected=FORMS[task])
    return rows


FORMS = {
    "classify": "lines of text, a tab, a label; or a folder with one file a label",
    "generate": "lines of text, a tab, a label; or a folder with one file a label",
    "tag": "lines of token, a tab, a tag, and a blank line after each sequence",
    "translate": "lines of source, a tab, target",
}


def lines_of(source: str, encoding: str) -> Iterator[tuple[int, str]]:
    """Every line with its number, without its end."""
    try:
        raw = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except FileNotFoundError:
        raise DataError(
            f"there is no file {source!r}", do="Check the path; files are also sought in $ELMAN_DATA."
        ) from None
    except OSError as error:
        raise DataError(f"{source} cannot be read: {error.strerror}") from None
    codec_name(encoding)
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        place = f"{source}, line {raw[: error.start].count(NEWLINE) + 1}"
        got, other = f"the byte {raw[error.start]:#04x}", "utf-8" if encoding == "latin-1" else "latin-1"
        do = f"Name its encoding (--encoding {other}, say)."
        raise EncodingError(place, expected=f"text in {encoding}", got=got, do=do) from None
    except UnicodeError as error:  # from the few codecs that do not say where
        raise EncodingError(f"{source} is not {encoding}: {error}", do="Name its --encoding.") from None
    return enumerate(_cut(text), 1)


def _cut(text: str) -> list[str]:
    """Lines end with a newline and with nothing else that Unicode takes for an end: a text may hold those."""
    lines = text.removeprefix("\ufeff").split("\n")
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


def is_blank(line: str) -> bool:
    """Nothing; a tab alone is a row whose sides are empty."""
    return not line.strip() and "\t" not in line


def _pairs(source: str, task: str, encoding: str) -> Rows:
    rows = Rows([], [], [])
    for number, line in lines_of(source, encoding):
        if is_blank(line):
            continue
        place = f"{source}, line {number}"
        left, tab, right = line.partition("\t")
        if not tab:
            raise DataError(place, expected=f"a tab: {FORMS[task]}", got=_few(line))
        if "\t" in right:
            raise DataError(place, expected="one tab", got=f"{line.count(chr(9))} of them")
        if not right.strip():
            what = "an empty target" if task == "translate" else "an empty label"
            raise DataError(place, expected=FORMS[task], got=what)
        rows.left.append(left)
        rows.right.append(right if task == "translate" else right.strip())
        rows.places.append(place)
    return rows


def _tagged(source: str, encoding: str) -> Rows:
    rows = Rows([], [], [])
    tokens: list[str] = []
    tags: list[str] = []
    place = source
    for number, line in [*lines_of(source, encoding), (0, "")]:
        if is_blank(line):
            if tokens:
                rows.left.append(tokens)
                rows.right.append(tags)
                rows.places.append(place)
            tokens, tags = [], []
            continue
        if not tokens:
            place = f"{source}, line {number}"
        token, tab, tag = line.partition("\t")
        if not tab or not token or not tag.strip():
            what = "no tab" if not tab else "an empty token" if not token else "an empty tag"
            raise DataError(f"{source}, line {number}", expected=FORMS["tag"], got=f"{what} in {_few(line)}")
        tokens.append(token)
        tags.append(tag.strip())
    return rows


def _read_folder(folder: Path, task: str, encoding: str) -> Rows:
    if task not in ("classify", "generate"):
        raise DataError(f"{folder} is a folder", expected=f"a file: {FORMS[task]}")
    rows = Rows([], [], [])
    for path in _files_of_labels(folder):
        for number, line in lines_of(str(path), encoding):
            if line.strip():
                rows.left.append(line.strip())
                rows.right.append(path.stem)
                rows.places.append(f"{path}, line {number}")
    if len(set(rows.right)) < 2:
        raise DataError(f"{folder}", expected=FORMS[task], got=f"{len(set(rows.right))} files with lines in them")
    return rows


def _files_of_labels(folder: Path) -> list[Path]:
    found = (path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    return sorted(path for path in found if path.stem.lower() not in ABOUT or (_look(path) or "")[:1] == ("examples",))


def guess_task(source: str) -> str:
    """What a file or folder seems to be for: one of TASKS, or lm. A few lines unlike all others are refused."""
    path = Path(source)
    if path.is_dir():
        return _task_of_folder(path)
    lines = _first_lines(path)
    filled = [(number, line) for number, line in enumerate(lines, 1) if not is_blank(line)]
    pairs = [line.split("\t") for _, line in filled if line.count("\t") == 1]
    odd = [(number, line) for number, line in filled if line.count("\t") != 1]
    if not pairs or (odd and (len(pairs) < 2 or len(pairs) < NEARLY_ALL * len(filled))):
        return "lm"
    task = _task_of_pairs(pairs, blanks=len(lines) - len(filled))
    if odd:
        raise DataError(
            f"{source}, line {odd[0][0]}",
            expected=f"one tab, as in {len(pairs):,} of {len(filled):,} lines",
            got=_few(odd[0][1]),
            do=f"Mend the file or say what it is: --task {task}, as it seems, or --task lm if it is a text.",
        )
    return task


def _task_of_pairs(pairs: list[list[str]], blanks: int) -> str:
    """The task of lines with one tab, between which there are blank lines."""
    if blanks and all(" " not in left for left, _ in pairs) and blanks * 2 < len(pairs):
        return "tag"
    different = len({right for _, right in pairs})
    return "classify" if different <= max(2, len(pairs) // 4) and different < 1000 else "translate"


def _first_lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            start = file.read(1 << 18)
    except OSError:
        return []
    lines = _cut(start.decode("utf-8", "replace"))
    return lines[: min(LOOKED_AT, max(len(lines) - (len(start) == 1 << 18), 1))]


def _task_of_folder(folder: Path) -> str:
    """One file a label, or one text in several files; what most files look like decides, and who cannot tell asks."""
    paths = _files_of_labels(folder)
    if any(path.suffix.lower() in PACKED for path in paths):  # examples are not unpacked
        return "lm"
    looks = [(path, look) for path in paths if (look := _look(path)) is not None]
    kinds = [kind for _, (kind, _) in looks]
    examples, texts = kinds.count("examples"), kinds.count("text")
    if len(looks) < 2 or 2 * texts > len(looks) or (not examples and (texts or "long" not in kinds)):
        return "lm"
    endings = Counter(path.suffix.lower() for path, _ in looks)
    against = [(path, why) for path, (kind, why) in looks if kind != "examples"]
    if not texts and 2 * examples >= len(looks):
        if len(endings) == 1:
            return "classify"
        most = max(endings, key=endings.__getitem__)
        against = [(path, "another ending than others") for path, _ in looks if path.suffix.lower() != most]
    path, why = against[0]
    raise DataError(
        f"{folder} may be one text or have one file a label: {path.name} has {why}",
        do="Say which: --task classify if each line is an example of its file's label, --task lm if it is one text.",
    )


def _look(path: Path) -> tuple[str, str] | None:
    """Whether a file holds examples or text, or short lines in parts or long ones, which may be either, and what speaks
    against examples; None: it is empty."""
    lines = "\n".join(map(str.strip, _first_lines(path))).rstrip().split("\n")
    filled = [line for line in lines if line]
    if not filled:
        return None
    mean, first = sum(map(len, filled)) / len(filled), lines.index(filled[0])
    short, broken = mean < SHORT and max(map(len, filled)) < 4 * SHORT, lines[first:].count("") > FEW * len(lines)
    if short and not broken:
        return "examples", ""
    why = (
        f"blank lines (the first is line {lines.index('', first) + 1})" if broken else f"lines of {mean:.0f} characters"
    )
    if short:
        return "parts", why
    return "text" if broken or mean >= 4 * SHORT else "long", why


def _few(text: Sequence[Any]) -> str:
    shown = repr(text)
    return shown if len(shown) <= 60 else f"{shown[:57]}…"
