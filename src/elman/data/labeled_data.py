"""Examples in files: text and label, token and tag, source and target.

Text and label (or source and target) are two columns of a table, either lines with one tab or a CSV or TSV file; or a
folder has one file per label. Tokens and tags are lines with one tab, with a blank line after each sequence. A row that
does not fit is reported with its file and line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elman.data.checks import few, one_of, shortened
from elman.data.decoding import read_bytes, read_text, split_lines
from elman.data.sources import PACKED
from elman.data.tables import (
    LABEL_NAMES,
    TEXT_NAMES,
    Column,
    Table,
    choose_columns,
    choose_text,
    has_header,
    number_in,
    parse_table,
)
from elman.errors import ArgumentError, DataError, option

TASKS = ("classify", "regress", "tag", "generate", "translate")
GUESS_LINES = 2000  # lines that are read to guess what a file contains
GUESS_BYTES = 1 << 18  # bytes that are read to guess it; only a table is read as a whole
NEARLY_ALL = 0.9  # if this fraction of the lines has the same format, the others are mistakes
SHORT = 60  # characters: the lines of examples are shorter on average, and each is shorter than four times this
ABOUT = ("readme", "license", "licence")  # files about a folder, left out unless they look like examples
MAX_BLANK = 0.05  # fraction of blank lines in a file of examples; a text with paragraphs has more
MAX_CLASSES = 20  # integers as labels are classes if they have at most this many different values


@dataclass(frozen=True)
class LabeledData:
    """The examples of a file.

    Attributes
    ----------
    inputs : list
        Texts, or lists of tokens.
    targets : list
        Labels, target texts, numbers, or lists of tags.
    places : list of str
        The file and line of each example: "names.tsv, line 3".
    notes : list of str
        Messages for the user, for example that the first line was taken as a header.
    """

    inputs: list[Any]
    targets: list[Any]
    places: list[str]
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.inputs)


def read_examples(
    source: str,
    task: str,
    *,
    encoding: str = "utf-8",
    text_column: Column | None = None,
    label_column: Column | None = None,
) -> LabeledData:
    r"""Read the examples of a file or folder.

    Parameters
    ----------
    source : str
        A CSV or TSV file, a folder with one file per label (classify and generate), or "-" for standard input.
    task : {"classify", "regress", "tag", "generate", "translate"}
        What the examples are for.
    encoding : str
        The text encoding of the file.
    text_column, label_column : str or int, optional
        Columns of a table by name, or by number from 1. By default those with names such as text and label, or both
        columns of a table of two. For translate they are source and target.

    Returns
    -------
    LabeledData

    Examples
    --------
    >>> from pathlib import Path
    >>> from elman.data import read_examples
    >>> size = Path("reviews.csv").write_text("id,text,label\n1,Good.,positive\n2,Bad.,negative\n")
    >>> rows = read_examples("reviews.csv", "classify")
    >>> rows.inputs, rows.targets
    (['Good.', 'Bad.'], ['positive', 'negative'])
    """
    one_of("task", task, TASKS)
    path = Path(source)
    columns = {"text_column": text_column, "label_column": label_column}
    given = [name for name, column in columns.items() if column is not None]
    if given and (task == "tag" or path.is_dir()):
        raise ArgumentError(given[0], expected="a table", got="tagged tokens" if task == "tag" else "a folder")
    if source != "-" and path.is_dir():
        return _read_folder(path, task, encoding)
    text = read_text(source, encoding)
    if task == "tag":
        rows = _tagged(source, text)
    elif given or path.suffix.lower() == ".csv" or _tabs(text) > 1:
        rows = _from_table(
            parse_table(source, text, chosen=(text_column, label_column)), task, text_column, label_column
        )
    else:
        rows = _pairs(source, text, task)
    if not len(rows):
        raise DataError(f"{source} has no example", expected=FORMS[task])
    return rows


def read_texts(
    source: str, *, encoding: str = "utf-8", text_column: Column | None = None
) -> tuple[list[str], list[str]]:
    """The texts of a file without their labels, if it has any, and notes for the user.

    A table has its texts in one column; any other file has one in each line, up to the first tab.
    """
    text = read_text(source, encoding)
    if text_column is None and Path(source).suffix.lower() != ".csv" and _tabs(text) < 2:
        rows = [line.split("\t") for line in split_lines(text)]
        if not (all(len(row) == 2 for row in rows) and has_header(rows)):
            return [row[0] for row in rows], []
    table = parse_table(source, text, chosen=(text_column,))
    column = choose_text(table, text_column)
    notes = [f"{source}: {table.header[column]!r} is read as the text."] if table.header else []
    return [row[column] for row in table.rows], notes


FORMS = {
    "classify": "lines of text, a tab, a label; a CSV file; or a folder with one file per label",
    "regress": "lines of text, a tab, a number; or a CSV file",
    "generate": "lines of text, a tab, a label; a CSV file; or a folder with one file per label",
    "tag": "lines of token, a tab, a tag, and a blank line after each sequence",
    "translate": "lines of source, a tab, target; or a CSV file",
}


def lines_of(source: str, encoding: str) -> Iterator[tuple[int, str]]:
    """Every line with its number, without the newline."""
    return enumerate(split_lines(read_text(source, encoding)), 1)


def is_blank(line: str) -> bool:
    """Whether a line is empty or has only spaces; a line of tabs is a row of empty cells instead."""
    return not line.strip() and "\t" not in line


def _tabs(text: str) -> int:
    """The number of tabs in the first line that is not blank."""
    return next((line.count("\t") for line in split_lines(text[: 1 << 20]) if not is_blank(line)), 0)


def _from_table(table: Table, task: str, text_column: Column | None, label_column: Column | None) -> LabeledData:
    if table.width < 2:
        raise DataError(f"{table.source}", expected=FORMS[task], got="a table of one column")
    left, right = choose_columns(table, text_column, label_column)
    rows = LabeledData([], [], [])
    for i, row in enumerate(table.rows):
        if not row[right].strip():
            raise DataError(table.place(i), expected=f"a label in {table.shown(right)}", got="an empty cell")
        rows.inputs.append(row[left])
        rows.targets.append(_target(row[right], task, table.place(i)))
        rows.places.append(table.place(i))
    if table.header:
        rows.notes.append(
            f"{table.source}: {table.header[left]!r} is read as the text, {table.header[right]!r} as the label."
        )
    return rows


def _target(cell: str, task: str, place: str) -> str | float:
    if task == "translate":
        return cell
    if task != "regress":
        return cell.strip()
    number = number_in(cell)
    if number is None or number != number or abs(number) == float("inf"):
        raise DataError(
            place, expected="a finite number", got=repr(cell), do=f"For classes choose {option('task', 'classify')}."
        )
    return number


def _pairs(source: str, text: str, task: str) -> LabeledData:
    """The examples of a text with one tab in each line."""
    cells: list[list[str]] = []
    places: list[str] = []
    for number, line in enumerate(split_lines(text), 1):
        if is_blank(line):
            continue
        place = f"{source}, line {number}"
        left, tab, right = line.partition("\t")
        if not tab:
            raise DataError(place, expected=f"a tab: {FORMS[task]}", got=shortened(line))
        if "\t" in right:
            raise DataError(place, expected="one tab", got=f"{line.count(chr(9))} of them")
        if not right.strip():
            what = "an empty target" if task == "translate" else "an empty label"
            raise DataError(place, expected=FORMS[task], got=what)
        cells.append([left, right])
        places.append(place)
    if has_header(cells):
        lines = [0] * (len(cells) - 1)  # not used: they are in places
        named = Table(source, tuple(cell.strip() for cell in cells[0]), cells[1:], lines)
        left_column, right_column = choose_columns(named, None, None)
        note = f"{places[0]} is read as a header: {', '.join(named.header or ())}."
        cells, places, notes = cells[1:], places[1:], [note]
    else:
        (left_column, right_column), notes = (0, 1), []
    targets = [_target(row[right_column], task, place) for row, place in zip(cells, places, strict=True)]
    return LabeledData([row[left_column] for row in cells], targets, places, notes)


def _tagged(source: str, text: str) -> LabeledData:
    """The tagged sequences of a text: a token, a tab and a tag in each line."""
    rows = LabeledData([], [], [])
    tokens: list[str] = []
    tags: list[str] = []
    place = source
    for number, line in [*enumerate(split_lines(text), 1), (0, "")]:
        if is_blank(line):
            if tokens:
                rows.inputs.append(tokens)
                rows.targets.append(tags)
                rows.places.append(place)
            tokens, tags = [], []
            continue
        if not tokens:
            place = f"{source}, line {number}"
        token, tab, tag = line.partition("\t")
        if number == 1 and token.strip().lower() in TEXT_NAMES and tag.strip().lower() in LABEL_NAMES:
            rows.notes.append(f"{source}, line 1 is read as a header: {token.strip()}, {tag.strip()}.")
            continue
        if not tab or not token or not tag.strip():
            what = "no tab" if not tab else "an empty token" if not token else "an empty tag"
            raise DataError(f"{source}, line {number}", expected=FORMS["tag"], got=f"{what} in {shortened(line)}")
        tokens.append(token)
        tags.append(tag.strip())
    return rows


def _read_folder(folder: Path, task: str, encoding: str) -> LabeledData:
    if task not in ("classify", "generate"):
        raise DataError(f"{folder} is a folder", expected=f"a file: {FORMS[task]}")
    rows = LabeledData([], [], [])
    for path in _label_files(folder):
        for number, line in lines_of(str(path), encoding):
            if line.strip():
                rows.inputs.append(line.strip())
                rows.targets.append(path.stem)
                rows.places.append(f"{path}, line {number}")
    if len(set(rows.targets)) < 2:
        expected, got = "a file with lines for each of two or more labels", few(dict.fromkeys(rows.targets)) or "none"
        raise DataError(f"{folder}", expected=expected, got=got)
    return rows


def _label_files(folder: Path) -> list[Path]:
    found = (path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    return sorted(
        path for path in found if path.stem.lower() not in ABOUT or (_format_of(path) or "")[:1] == ("examples",)
    )


def guess_task(source: str, *, text_column: Column | None = None, label_column: Column | None = None) -> str:
    """Guess the task of a file or folder.

    Parameters
    ----------
    source : str
        The path.
    text_column, label_column : str or int, optional
        As in read_examples. A file whose columns are chosen is read as a table.

    Returns
    -------
    str
        classify, regress, tag, translate, or lm for a text; never generate.

    Notes
    -----
    A file is a table if its name ends in .csv, if columns are chosen, or if nearly all lines have the same number of
    tabs, two or more. A table is never taken for a text (lm): if it has only one column, or only numbers in its first
    row, DataError says what to do. DataError is also raised if nearly all lines have one tab, but a few have none or
    more.
    """
    path = Path(source)
    if path.is_dir():
        return _task_of_folder(path)
    lines = _first_lines(path)
    filled = [(number, line) for number, line in enumerate(lines, 1) if not is_blank(line)]
    tabs = Counter(line.count("\t") for _, line in filled)
    most, agreeing = tabs.most_common(1)[0] if tabs else (0, 0)
    wide = most > 1 and agreeing >= NEARLY_ALL * len(filled) and len(filled) > 1
    if path.suffix.lower() == ".csv" or wide or text_column is not None or label_column is not None:
        return _task_of_table(source, text_column, label_column)
    pairs = [line.split("\t") for _, line in filled if line.count("\t") == 1]
    others = [(number, line) for number, line in filled if line.count("\t") != 1]
    if not pairs or (others and (len(pairs) < 2 or len(pairs) < NEARLY_ALL * len(filled))):
        return "lm"
    task = _task_of_pairs(pairs[1:] if has_header(pairs) else pairs, blanks=len(lines) - len(filled))
    if others:
        raise DataError(
            f"{source}, line {others[0][0]}",
            expected=f"one tab, as in {len(pairs):,} of {len(filled):,} lines",
            got=shortened(others[0][1]),
            do=f"Correct the file, or choose {option('task', task)}, which it seems to be, or {option('task', 'lm')} "
            "if it is a text.",
        )
    return task


def _task_of_table(source: str, text_column: Column | None, label_column: Column | None) -> str:
    text = read_bytes(source).decode("utf-8", "replace").removeprefix("\ufeff")
    as_text = f"{option('task', 'lm')} reads the file as a text."
    table = parse_table(source, text, chosen=(text_column, label_column))
    if not table.rows:
        raise DataError(f"{source} is a table without rows")
    if all(number_in(cell) is not None for cell in table.rows[0]):
        do = f"In Python elman.data.read_series reads it. {as_text}"
        raise DataError(f"{source} is a table of numbers", expected="a text column and a label column", do=do)
    if table.width < 2:
        raise DataError(f"{source} is a table of one column", expected="a text column and a label column", do=as_text)
    left, right = choose_columns(table, text_column, label_column)
    return _task_of_pairs([[row[left], row[right]] for row in table.rows], blanks=0)


def _task_of_pairs(pairs: list[list[str]], blanks: int) -> str:
    """The task of pairs of cells; `blanks` is the number of blank lines between them."""
    if blanks and all(" " not in left for left, _ in pairs) and blanks * 2 < len(pairs):
        return "tag"  # tokens, and a blank line after each sequence of more than two on average
    targets = {right.strip() for _, right in pairs}
    numbers = [number_in(target) for target in targets]
    if all(number is not None for number in numbers):
        finite = [number for number in numbers if number is not None and abs(number) < 1e300]  # int(inf) is an error
        whole = all(number == int(number) for number in finite)
        return "classify" if whole and len(targets) <= MAX_CLASSES else "regress"
    # labels repeat, each at least four times on average; translations rarely repeat
    return "classify" if len(targets) <= max(2, len(pairs) // 4) and len(targets) < 1000 else "translate"


def _first_lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            start = file.read(GUESS_BYTES)
    except OSError:
        return []  # taken for empty; the error is reported when the file is read for training
    lines = split_lines(start.decode("utf-8", "replace"))
    is_cut = len(start) == GUESS_BYTES  # the last line may be incomplete
    return lines[: min(GUESS_LINES, max(len(lines) - is_cut, 1))]


def _task_of_folder(folder: Path) -> str:
    """classify (one file per label) or lm (one text in several files), by most of the files; DataError if unclear."""
    paths = _label_files(folder)
    if any(path.suffix.lower() in PACKED for path in paths):  # only texts are unpacked
        return "lm"
    formats = [(path, found) for path in paths if (found := _format_of(path)) is not None]
    kinds = [kind for _, (kind, _) in formats]
    examples, texts = kinds.count("examples"), kinds.count("text")
    if len(formats) < 2 or 2 * texts > len(formats) or (not examples and (texts or "long" not in kinds)):
        return "lm"
    suffixes = Counter(path.suffix.lower() for path, _ in formats)
    contrary = [(path, why) for path, (kind, why) in formats if kind != "examples"]
    if not texts and 2 * examples >= len(formats):
        if len(suffixes) == 1:
            return "classify"
        most = max(suffixes, key=suffixes.__getitem__)
        others = [path for path, _ in formats if path.suffix.lower() != most]
        contrary = [(path, "another suffix than the other files") for path in others]
    path, why = contrary[0]
    raise DataError(
        f"{folder} may be one text or have one file per label: {path.name} has {why}",
        do=f"Choose {option('task', 'classify')} if each line is an example of its file's label, "
        f"{option('task', 'lm')} if it is one text.",
    )


def _format_of(path: Path) -> tuple[str, str] | None:
    """What a file looks like, and why it may be no file of examples; None if it is empty.

    The first of the two is "examples" or "text"; or, if the file may be either, "parts" (short lines with many blank
    ones between them) or "long" (longer lines).
    """
    lines = "\n".join(map(str.strip, _first_lines(path))).rstrip().split("\n")
    filled = [line for line in lines if line]
    if not filled:
        return None
    mean, first = sum(map(len, filled)) / len(filled), lines.index(filled[0])
    short, broken = mean < SHORT and max(map(len, filled)) < 4 * SHORT, lines[first:].count("") > MAX_BLANK * len(lines)
    if short and not broken:
        return "examples", ""
    why = (
        f"blank lines (the first is line {lines.index('', first) + 1})" if broken else f"lines of {mean:.0f} characters"
    )
    if short:
        return "parts", why
    return "text" if broken or mean >= 4 * SHORT else "long", why
