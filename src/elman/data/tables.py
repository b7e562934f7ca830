"""Tables in text files: CSV (commas or semicolons, quoted cells) and TSV (tabs, no quoted cells).

A header line is recognized by its names, or because it is above a column of numbers. Columns are chosen by name or
by number, counted from 1.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elman.data.checks import did_you_mean, few
from elman.data.decoding import read_text, split_lines
from elman.errors import ArgumentError, DataError, option
from elman.maths.arrays import Array

Column = str | int  # a name, or a number from 1; from the shell both are strings

# usual names of columns, in lower case
TEXT_NAMES = {
    "text", "sentence", "sentences", "review", "comment", "message", "content", "body", "question", "title",
    "utterance", "tweet", "document", "phrase", "input", "inputs", "source", "src", "name", "surname", "word", "words",
    "token", "tokens", "string", "sequence", "query", "headline", "description", "english", "en", "spelling", "x",
}  # fmt: skip
LABEL_NAMES = {
    "label", "labels", "class", "classes", "category", "target", "targets", "tag", "tags", "sentiment", "topic", "type",
    "kind", "intent", "language", "output", "outputs", "rating", "score", "stars", "polarity", "answer", "value",
    "price", "number", "translation", "french", "fr", "german", "de", "spanish", "es", "pos", "upos", "pronunciation",
    "phonemes", "y",
}  # fmt: skip
GUESS_ROWS = 1000  # rows that are read to recognize the delimiter and a header


@dataclass(frozen=True)
class Table:
    """A table of strings.

    Attributes
    ----------
    source : str
        The file, for messages.
    header : tuple of str or None
        The names of the columns, if the file has a header.
    rows : list of list of str
        The cells, row by row, without the header. All rows have the same length.
    lines : list of int
        The line of the file on which each row begins.
    """

    source: str
    header: tuple[str, ...] | None
    rows: list[list[str]]
    lines: list[int]

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.rows[0]) if self.rows else len(self.header or ())

    def place(self, row: int) -> str:
        """The file and line of a row, for messages.

        Parameters
        ----------
        row : int
            Its index.

        Returns
        -------
        str
        """
        return f"{self.source}, line {self.lines[row]}"

    def column(self, choice: Column, chosen_by: str) -> int:
        """The index of a column that the user chose.

        Parameters
        ----------
        choice : str or int
            The name of the column, or its number from 1.
        chosen_by : str
            The name of the option, for messages.

        Returns
        -------
        int
        """
        names = self.header or ()
        if isinstance(choice, str) and choice in names:
            return names.index(choice)
        number = int(choice) if isinstance(choice, int) or choice.isdecimal() else 0
        if 1 <= number <= self.width:
            return number - 1
        folded = [name.lower() for name in names]
        if isinstance(choice, str) and folded.count(choice.lower()) == 1:
            return folded.index(choice.lower())
        expected = f"a number from 1 to {self.width}" + (f" or one of {', '.join(names)}" if names else "")
        do = did_you_mean(str(choice), names) if names else "The file has no header: choose columns by number."
        raise ArgumentError(chosen_by, expected=expected, got=repr(choice), do=do or None)

    def numbers(self, column: int) -> Array:
        """A column as numbers; DataError if a cell is not a finite number.

        Parameters
        ----------
        column : int
            The index of the column.

        Returns
        -------
        array (n,) of float64
        """
        values = np.empty(len(self.rows))
        for i, row in enumerate(self.rows):
            value = number_in(row[column])
            if value is None or not math.isfinite(value):
                expected = f"a finite number in {self.shown(column)}"
                raise DataError(self.place(i), expected=expected, got=repr(row[column]))
            values[i] = value
        return values

    def shown(self, column: int) -> str:
        """The name of a column in messages.

        Parameters
        ----------
        column : int
            The index of the column.

        Returns
        -------
        str
        """
        return f"column {self.header[column]!r}" if self.header else f"column {column + 1}"


def read_table(
    source: str | Path, *, encoding: str = "utf-8", header: bool | None = None, delimiter: str | None = None
) -> Table:
    r"""Read a CSV or TSV file.

    Parameters
    ----------
    source : str or Path
        The file, or "-" for standard input.
    encoding : str
        Its text encoding.
    header : bool, optional
        Whether the first line is a header. By default it is recognized.
    delimiter : str, optional
        The character between cells. By default a tab for .tsv. Otherwise it is the comma, semicolon or tab that has the
        same number of occurrences in the largest number of lines, which must be nine of ten unless the file is a .csv;
        a .csv without such a character has the one that is most frequent in its first line. Cells between tabs are not
        quoted.

    Returns
    -------
    Table

    Examples
    --------
    >>> from pathlib import Path
    >>> from elman.data import read_table
    >>> size = Path("reviews.csv").write_text('text,label\n"Good, really.",positive\nBad.,negative\n')
    >>> table = read_table("reviews.csv")
    >>> table.header, table.rows
    (('text', 'label'), [['Good, really.', 'positive'], ['Bad.', 'negative']])
    """
    return parse_table(str(source), read_text(str(source), encoding), header=header, delimiter=delimiter)


def parse_table(
    source: str,
    text: str,
    *,
    header: bool | None = None,
    delimiter: str | None = None,
    chosen: Sequence[Column | None] = (),
) -> Table:
    """The table in the text of the file `source`. If the first row has the chosen names, it is a header."""
    delimiter = delimiter or delimiter_of(source, text)
    if delimiter is None:
        raise DataError(f"{source} is not a table", expected="cells separated by commas, semicolons or tabs")
    rows: list[list[str]] = []
    lines: list[int] = []
    for line, cells in _cells(source, text, delimiter):
        if not any(cell.strip() for cell in cells):
            continue
        if rows and len(cells) != len(rows[0]):
            place, expected = f"{source}, line {line}", f"{len(rows[0])} cells, as in line {lines[0]}"
            do = "A cell cannot contain a tab." if delimiter == "\t" else f"Quote cells that contain {delimiter!r}."
            raise DataError(place, expected=expected, got=len(cells), do=do)
        rows.append(cells)
        lines.append(line)
    if header is None:
        names = {name.lower() for name in chosen if isinstance(name, str) and not name.isdecimal()}
        header = has_header(rows) or bool(names and rows and names <= {cell.strip().lower() for cell in rows[0]})
    start = 1 if header and rows else 0
    return Table(source, tuple(cell.strip() for cell in rows[0]) if start else None, rows[start:], lines[start:])


def _cells(source: str, text: str, delimiter: str) -> Iterable[tuple[int, list[str]]]:
    if delimiter == "\t":  # quotation marks are part of the text
        yield from ((number, line.split("\t")) for number, line in enumerate(split_lines(text), 1))
        return
    reader, line = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), 1
    try:
        for row in reader:
            yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        do = "Double the quotation marks inside a quoted cell."
        raise DataError(f"{source}, line {reader.line_num} is not valid CSV: {error}", do=do) from None


def delimiter_of(source: str, text: str) -> str | None:
    """The character between cells; None if the text does not look like a table."""
    suffix = Path(source).suffix.lower()
    if suffix == ".tsv":
        return "\t"
    lines = [line for line in split_lines(text[: 1 << 18]) if line.strip()][:GUESS_ROWS]
    best, most = None, 0
    for candidate in ("\t", ",", ";"):
        (count, agreeing) = Counter(line.count(candidate) for line in lines).most_common(1)[0] if lines else (0, 0)
        if count and agreeing > most and (suffix == ".csv" or agreeing >= 0.9 * len(lines)):
            best, most = candidate, agreeing
    if suffix == ".csv":  # most lines may have no delimiter, because a quoted cell can have many lines
        return best or max(",;\t", key=lambda candidate: lines[0].count(candidate) if lines else 0)
    return best


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names the columns."""
    if len(rows) < 2:
        return False
    first, rest = [cell.strip() for cell in rows[0]], rows[1 : GUESS_ROWS + 1]
    if "" in first or len(set(first)) < len(first) or any(number_in(cell) is not None for cell in first):
        return False
    columns = list(zip(*rest, strict=False))
    if any(all(number_in(cell) is not None for cell in column) for column in columns):
        return True
    if any(name in map(str.strip, column) for name, column in zip(first, columns, strict=False)):
        return False
    known = sum(name.lower() in TEXT_NAMES | LABEL_NAMES for name in first)
    few_labels = any(2 * len(set(column)) < len(column) for column in columns)  # a column of labels: values repeat
    return known == len(first) or (known > 0 and few_labels)


def number_in(cell: str) -> float | None:
    """The number in a cell; None if it is not a number."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def choose_text(table: Table, text: Column | None) -> int:
    """The index of the text column of a table that may have no labels."""
    if text is not None:
        return table.column(text, option("text_column"))
    found = _only([name.lower() for name in table.header or ()], TEXT_NAMES, None)
    if found is None and table.width > 1:
        found = choose_columns(table, None, None)[0]
    return found or 0


def choose_columns(table: Table, text: Column | None, label: Column | None) -> tuple[int, int]:
    """The indices of the text and the label column: as chosen, by their names, or both columns of a table of two."""
    left = None if text is None else table.column(text, option("text_column"))
    right = None if label is None else table.column(label, option("label_column"))
    names = [name.lower() for name in table.header or ()]
    if table.width == 2:
        if (
            left is None
            and right is None
            and len(names) == 2
            and names[0] in LABEL_NAMES
            and names[1] in TEXT_NAMES - LABEL_NAMES
        ):
            return 1, 0
        left = left if left is not None else 1 - right if right is not None else 0
        return left, right if right is not None else 1 - left
    if right is None:
        right = _only(names, LABEL_NAMES, left)
    if left is None:
        left = _only(names, TEXT_NAMES, right)
    if left is None or right is None:
        shown = f"{table.width} columns: {few(table.header)}" if table.header else f"{table.width} columns"
        do = f"Choose two, by name or by number from 1: {option('text_column')} and {option('label_column')}."
        raise DataError(f"{table.source}", expected="a text column and a label column", got=shown, do=do)
    return left, right


def _only(names: Sequence[str], known: set[str], taken: int | None) -> int | None:
    """The index of the only column, except `taken`, with a known name; None if there is none or more than one."""
    found = [i for i, name in enumerate(names) if name in known and i != taken]
    return found[0] if len(found) == 1 else None


class Series(NamedTuple):
    """Numbers over time.

    Attributes
    ----------
    values : ndarray (T, X)
        One row per step, one column per variable, float64.
    names : tuple of str
        The names of the X columns; their numbers, from "1", if there is no header.
    """

    values: Array
    names: tuple[str, ...]


def read_series(source: str | Path, columns: Sequence[Column] | None = None, *, encoding: str = "utf-8") -> Series:
    r"""Read a series of numbers from a table: one step per row.

    Parameters
    ----------
    source : str or Path
        A CSV or TSV file, or a file with one number per line; "-" for standard input.
    columns : sequence of str or int, optional
        The columns to read, by name or by number from 1. By default all with a number in the first row: a column of
        dates, for example, is left out.
    encoding : str
        The text encoding of the file.

    Returns
    -------
    Series

    Examples
    --------
    >>> from pathlib import Path
    >>> from elman.data import read_series
    >>> size = Path("weather.csv").write_text("day,degrees\n2024-01-01,3.5\n2024-01-02,4.0\n")
    >>> read_series("weather.csv").values.tolist()
    [[3.5], [4.0]]
    """
    text = read_text(str(source), encoding)
    table = parse_table(str(source), text, delimiter=delimiter_of(str(source), text) or "\t", chosen=columns or ())
    if not table.rows:
        raise DataError(f"{source} has no numbers")
    if columns is None:
        chosen = [j for j in range(table.width) if number_in(table.rows[0][j]) is not None]
        if not chosen:
            raise DataError(f"{source} has no column of numbers", got=few(table.rows[0]))
    else:
        chosen = [table.column(column, option("columns")) for column in columns]
    values = np.stack([table.numbers(j) for j in chosen], axis=1)  # (T, X)
    return Series(values, tuple(table.header[j] if table.header else str(j + 1) for j in chosen))
