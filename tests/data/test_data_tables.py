"""Tables: headers are recognized, columns chosen by name or number, numbers read; a table never becomes a text."""

from __future__ import annotations

import numpy as np
import pytest

from elman.data import guess_task, read_examples, read_series, read_table
from elman.errors import ArgumentError, DataError


@pytest.fixture
def file(tmp_path):
    def write(name: str, text: str) -> str:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write


REVIEWS = "".join(f"Review number {i}, fine.\t{'pos' if i % 2 else 'neg'}\n" for i in range(20))
CSV = "".join(f'{i},"Review {i}, ""so"" good",{"pos" if i % 2 else "neg"}\n' for i in range(20))


def test_csv_cells_may_be_quoted_and_span_lines(file):
    table = read_table(file("a.csv", 'text,label\n"a\nb, ""c""",x\n\nd,y\n'))
    assert table.header == ("text", "label")
    assert table.rows == [['a\nb, "c"', "x"], ["d", "y"]]
    assert table.lines == [2, 5]


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_the_delimiter_is_found(file, mark):
    table = read_table(file("a.csv", f"text{mark}label\nyes{mark}1\nno{mark}2\n"))
    assert table.rows == [["yes", "1"], ["no", "2"]]


def test_quotation_marks_in_tsv_are_text(file):
    assert read_table(file("a.tsv", '"Go" he said\tx\nIt"s\ty\n')).rows == [['"Go" he said', "x"], ['It"s', "y"]]


@pytest.mark.parametrize(("text", "header"), [
    ("text\tlabel\n" + REVIEWS, True),
    ("Sentence\tSentiment\n" + REVIEWS, True),
    ("review\tverdict\n" + REVIEWS, True),  # one known name above labels that repeat
    ("length\tname\n3\tabc\n4\tabcd\n", True),  # a name above numbers
    ("english\tfrench\ngo\tva\nstop\tarrête\n", True),
    (REVIEWS, False),
    ("word\tW ER D\ngo\tG OW\n", False),
    ("Price\tEnglish\nSmith\tEnglish\nRossi\tItalian\n", False),  # a label of other rows too
    ("5\tfive\n6\tsix\n", False),
])  # fmt: skip
def test_a_header_is_recognized_and_is_not_an_example(file, text, header):
    path = file("a.tsv", text)
    rows = read_examples(path, "translate")
    assert len(rows) == text.count("\n") - header
    assert bool(rows.notes) == header
    assert (read_table(path).header is not None) == header


def test_a_header_of_tagged_tokens_is_recognized(file):
    rows = read_examples(file("a.tsv", "token\ttag\nthe\tDET\ndog\tNOUN\n\nit\tPRON\n"), "tag")
    assert rows.inputs == [["the", "dog"], ["it"]]
    assert "line 1 is read as a header" in rows.notes[0]


def test_columns_are_found_by_their_names_or_chosen(file):
    path = file("a.csv", "id,text,label\n" + CSV)
    rows = read_examples(path, "classify")
    assert rows.inputs[0] == 'Review 0, "so" good'
    assert set(rows.targets) == {"pos", "neg"}
    assert rows.places[0].endswith("a.csv, line 2")
    assert read_examples(path, "classify", text_column="id", label_column="LABEL").inputs[:2] == ["0", "1"]
    assert read_examples(path, "classify", text_column=2, label_column="3").inputs == rows.inputs
    assert guess_task(path) == "classify"
    bare = file("b.csv", CSV)
    assert read_examples(bare, "classify", text_column="2", label_column=3).inputs == rows.inputs
    swapped = file("c.csv", "label,text\npos,Good one.\nneg,Bad one.\n")
    assert read_examples(swapped, "classify").inputs == ["Good one.", "Bad one."]


def test_a_chosen_name_makes_the_first_row_a_header(file):
    path = file("a.csv", "überschrift,urteil\nGut.,ja\nSchlecht.,nein\n")
    assert len(read_examples(path, "classify")) == 3
    rows = read_examples(path, "classify", text_column="überschrift", label_column="urteil")
    assert rows.inputs == ["Gut.", "Schlecht."]


@pytest.mark.parametrize(("columns", "why"), [
    ({}, "expected a text column and a label column, got 3 columns.*text_column and label_column"),
    ({"text_column": "txt", "label_column": 1}, "text_column: expected a number from 1 to 3 or one of id, a, b"),
    ({"text_column": 4}, "got 4"),
    ({"text_column": 0}, "got 0"),
])  # fmt: skip
def test_ambiguous_columns_are_refused_with_the_option_to_use(file, columns, why):
    path = file("a.csv", "id,a,b\n1,x y,z\n2,v w,z\n")
    with pytest.raises((ArgumentError, DataError), match=why):
        read_examples(path, "classify", **columns)


@pytest.mark.parametrize(("text", "why"), [
    ("text,label\na,b,c\n", "line 2: expected 2 cells, as in line 1, got 3"),
    ('text,label\n"a,b\n', "is not valid CSV"),
    ("text,label\na,\n", "line 2: expected a label in column 'label', got an empty cell"),
])  # fmt: skip
def test_a_bad_row_is_reported_with_its_line(file, text, why):
    with pytest.raises(DataError, match=why):
        read_examples(file("a.csv", text), "classify")


@pytest.mark.parametrize(("delimiter", "do"), [(",", "Quote cells that contain ','"), ("\t", "A cell cannot")])
def test_a_row_with_too_many_cells_is_refused_with_advice_that_helps(file, delimiter, do):
    text = "id,text,label\n1,a,b\n2,c,d,e\n".replace(",", delimiter)
    with pytest.raises(DataError, match=f"line 3: expected 3 cells, as in line 1, got 4. {do}"):
        read_table(file("a.csv", text))


def test_targets_can_be_numbers(file):
    path = file("a.csv", "name,price\nbread,2.5\nwine,1e1\n")
    rows = read_examples(path, "regress")
    assert rows.targets == [2.5, 10.0]
    assert guess_task(path) == "regress"
    assert guess_task(file("stars.tsv", "".join(f"text {i}\t{i % 5}\n" for i in range(50)))) == "classify"
    with pytest.raises(DataError, match=r"line 3: expected a finite number, got 'red'.*task='classify'"):
        read_examples(file("b.csv", "wine,2\nmilk,1\nrose,red\n"), "regress")
    with pytest.raises(DataError, match="expected a finite number, got 'nan'"):
        read_examples(file("c.csv", "a,1\nb,nan\n"), "regress")


def test_a_table_is_never_read_as_a_text(file):
    with pytest.raises(DataError, match=r"is a table of numbers.*read_series.*task='lm' reads the file as a text"):
        guess_task(file("temps.csv", "day,degrees\n1,20.5\n2,21.0\n"))
    with pytest.raises(DataError, match=r"is a table of one column.*task='lm'"):
        guess_task(file("one.csv", "text\nHello there.\nBye.\n"))
    with pytest.raises(DataError, match="got 3 columns"):
        guess_task(file("three.txt", "a b\tc d\te f\n" * 20))
    assert guess_task(file("novel.txt", "It is a truth, universally\nacknowledged, that\n" * 20)) == "lm"


def test_a_series_is_its_columns_of_numbers(file):
    path = file("w.csv", "day,degrees,rain\n2024-01-01,3.5,0\n2024-01-02,4,1.5\n")
    series = read_series(path)
    np.testing.assert_array_equal(series.values, [[3.5, 0], [4, 1.5]])
    assert series.names == ("degrees", "rain")
    assert read_series(path, ["rain"]).values.tolist() == [[0], [1.5]]
    assert read_series(path, [2]).names == ("degrees",)
    assert read_series(file("plain.txt", "1\n2.5\n-3e2\n")).values.tolist() == [[1], [2.5], [-300]]
    with pytest.raises(DataError, match=r"line 3: expected a finite number in column 'degrees', got ''"):
        read_series(file("gap.csv", "day,degrees\nmon,1\ntue,\n"), ["degrees"])
    with pytest.raises(DataError, match="has no column of numbers"):
        read_series(file("words.csv", "a,b\nc,d\n"))
