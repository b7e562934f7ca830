"""Sequences: ragged arrays, vocabularies with an unknown token, examples from files, and errors in rows."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elman.config import resolve
from elman.data.examples import Examples
from elman.data.inputs import form_of, learn_inputs
from elman.data.labeled_data import guess_task, read_examples
from elman.data.ragged import Ragged
from elman.data.symbols import EDGE_ID, UNKNOWN_ID, Symbols, kind_of
from elman.data.targets import Labels
from elman.errors import ArgumentError, CheckpointError, DataError, EncodingError, UnknownNameError, VocabularyError

TEXTS = st.lists(st.text(max_size=12), min_size=1, max_size=8)


@given(st.lists(st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=6), st.data())
def test_padding_keeps_every_sequence_and_adds_only_zeros(sequences, data):
    ragged = Ragged.of([np.array(s, np.int64) for s in sequences], np.empty(0, np.int64))
    rows = np.array(data.draw(st.lists(st.integers(0, len(sequences) - 1), min_size=1, max_size=5)))
    padded = ragged.padded(rows)
    assert padded.shape == (max(1, *(len(sequences[i]) for i in rows)), len(rows))
    for column, i in zip(padded.T, rows, strict=True):
        assert column[: len(sequences[i])].tolist() == sequences[i]
        assert not column[len(sequences[i]) :].any()
    assert [s.tolist() for s in ragged.take(rows)] == [sequences[i] for i in rows]


@pytest.mark.parametrize("sequences", [[], np.empty(0), np.empty((0, 3)), np.empty((0, 3, 2))])
def test_without_sequences_there_is_nothing_to_learn_from(sequences):
    assert form_of(sequences) == "nothing"
    with pytest.raises(ArgumentError, match="sequences: expected at least one, got none"):
        learn_inputs(sequences, resolve("regress"), np.arange(0))


@pytest.mark.parametrize("kind", ["char", "byte"])
@given(texts=TEXTS)
def test_strings_are_decoded_to_themselves(kind, texts):
    symbols = Symbols.of(texts, kind, vocabulary_size=1000, min_count=1)
    for text in texts:
        assert symbols.decode(symbols.encode(text)) == (
            text if kind == "char" else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        )


@given(texts=st.lists(st.text("ab ,.!", max_size=12), min_size=1, max_size=8))
def test_words_are_decoded_to_a_string_without_outer_space(texts):
    symbols = Symbols.of(texts, "word", vocabulary_size=1000, min_count=1)
    assert [symbols.decode(symbols.encode(text)) for text in texts] == [text.strip() for text in texts]


def test_unseen_tokens_are_unknown_and_only_words_fall_back_to_lower_case():
    symbols = Symbols.of(["the dog"], "word", vocabulary_size=10, min_count=1)
    assert symbols.encode("The cat").tolist() == [symbols.encode("the")[0], UNKNOWN_ID]
    for kind, seen, unseen in (("list", ["the", "z"], ["The", "Z"]), ("char", "thez", "TZ")):
        symbols = Symbols.of([seen], kind, vocabulary_size=10, min_count=1)
        assert symbols.encode(unseen).tolist() == [UNKNOWN_ID, UNKNOWN_ID]
    symbols = Symbols.of([["the", "dog"]], "list", vocabulary_size=10, min_count=1)
    assert symbols.decode([*symbols.encode(["dog"]), EDGE_ID, 3]) == ["dog"]


def test_rare_tokens_are_read_as_unknown_more_often_than_common_ones():
    symbols = Symbols.of(["aaaaaaaaab"], "char", vocabulary_size=10, min_count=1)
    shares = dict(zip(symbols.tokens, symbols.unknown_probability(0.25), strict=True))
    assert shares["b"] == pytest.approx(0.25 / 1.25)
    assert shares["a"] == pytest.approx(0.25 / 9.25)
    assert shares["<unknown>"] == shares["<edge>"] == 0


def test_tokens_survive_json_and_damage_is_refused():
    symbols = Symbols.of(["one two", "two"], "word", vocabulary_size=10, min_count=1)
    again = Symbols.from_json(symbols.to_json())
    assert (again.tokens, again.counts.tolist(), again.longest) == (symbols.tokens, symbols.counts.tolist(), 2)
    for damage in ({"kind": "?"}, {"tokens": ["x", "x"]}, {"counts": [1]}, {"longest": None}):
        with pytest.raises(CheckpointError):
            Symbols.from_json({**symbols.to_json(), **damage})


def test_strings_of_several_words_are_split_into_words():
    assert kind_of(["Rossi", "Schmidt"], "auto") == "char"
    assert kind_of(["a good film", "a bad one"], "auto") == "word"
    assert kind_of(["a good film"], "byte") == "byte"


def test_a_split_is_a_partition_and_examples_survive_a_file():
    x = Ragged.of([np.arange(i) for i in range(20)], np.empty(0, np.int64))
    examples = Examples(x, np.arange(20), np.ones(20))
    train, held = examples.split(0.25, np.random.default_rng(0))
    assert len(held) == 5
    assert sorted([*train.y, *held.y]) == list(range(20))
    again = Examples.from_arrays(examples.arrays())
    assert [s.tolist() for s in again.x] == [s.tolist() for s in x]
    grouped = replace(examples, groups=np.arange(20) // 2)
    assert Examples.from_arrays(grouped.arrays()).take(np.array([3, 4])).groups.tolist() == [1, 2]
    for damaged in ({"x.lengths": np.arange(19)}, {"groups": np.arange(19)}, {"groups": -np.arange(20)},
                    {"groups": np.arange(20) + 1}, {"groups": np.arange(20.0)}):  # fmt: skip
        with pytest.raises(CheckpointError):
            Examples.from_arrays(examples.arrays() | damaged)


# -- files -------------------------------------------------------------------------------------------------------------


def written(tmp_path, text, name="data.tsv"):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(tmp_path / name)


def test_each_form_of_file_is_read(tmp_path):
    rows = read_examples(written(tmp_path, "\ufeffgood\tpos\r\n\r\nbad\tneg\r\n"), "classify")
    assert (rows.inputs, rows.targets) == (["good", "bad"], ["pos", "neg"])
    assert rows.places[1].endswith("line 3")
    rows = read_examples(written(tmp_path, "a\tX\nb\tY\n\n\nc\tX"), "tag")
    assert (rows.inputs, rows.targets) == ([["a", "b"], ["c"]], [["X", "Y"], ["X"]])
    rows = read_examples(written(tmp_path, "go on\tva y\n"), "translate")
    assert (rows.inputs, rows.targets) == (["go on"], ["va y"])
    folder = tmp_path / "names"
    folder.mkdir()
    written(folder, "Rossi\nBianchi\n", "Italian.txt")
    written(folder, "Kim\n", "Korean.txt")
    rows = read_examples(str(folder), "generate")
    assert (rows.inputs, rows.targets) == (["Rossi", "Bianchi", "Kim"], ["Italian", "Italian", "Korean"])


@pytest.mark.parametrize(
    ("task", "text", "says"),
    [
        ("classify", "good\tpos\nno tab here\n", "line 2: expected a tab"),
        ("classify", "good\tpos\nbad\t \n", "line 2.*an empty label"),
        ("translate", "go\t\n", "line 1.*an empty target"),
        ("classify", "a\tb\nc\td\te\n", "line 2: expected one tab, got 2"),
        ("tag", "the\tDET\ndog\n", "line 2.*no tab in 'dog'"),
        ("tag", "the\tDET\n\tNOUN\n", "line 2.*an empty token"),
        ("tag", "the\tDET\ndog\t\n", "line 2.*an empty tag"),
        ("classify", "\n\n", "has no example"),
        ("classify", "good\tpos\n\t\nbad\tneg\n", "line 2.*an empty label"),
        ("generate", "good\tpos\n \t \n", "line 2.*an empty label"),
        ("translate", "go\tva\n\n\t\n", "line 3.*an empty target"),
        ("tag", "the\tDET\n\t\ndog\tNOUN\n", "line 2.*an empty token"),
        ("classify", "good\tpos\nbad\u2028\tneg\nno tab\n", "line 3: expected a tab"),
    ],
)
def test_a_bad_row_is_reported_with_its_line(tmp_path, task, text, says):
    with pytest.raises(DataError, match=says):
        read_examples(written(tmp_path, text), task)


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        read_examples(str(tmp_path / "missing"), "classify")
    with pytest.raises(UnknownNameError, match=r"task: expected one of classify, .*got 'lm'"):
        read_examples(written(tmp_path, "a\tx\n"), "lm")
    with pytest.raises(DataError, match="there is no file"):
        guess_task(str(tmp_path / "missing.csv"))
    says = r"data\.tsv, line 2: expected text in utf-8, got the byte 0xe9\. Name its encoding"
    with pytest.raises(EncodingError, match=says):
        read_examples(written(tmp_path, b"a\tx\nRen\xe9\tx\n"), "classify")
    (tmp_path / "one").mkdir()
    written(tmp_path / "one", "a\n", "only.txt")
    with pytest.raises(DataError, match="a file with lines for each of two or more labels, got 'only'"):
        read_examples(str(tmp_path / "one"), "classify")


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("It is a truth universally acknowledged\nthat a single man\n", "lm"),
        ("".join(f"text {i}\t{'pos' if i % 2 else 'neg'}\n" for i in range(40)), "classify"),
        ("the\tDET\ndog\tNOUN\nbarks\tVERB\n\nit\tPRON\nsleeps\tVERB\n", "tag"),
        ("".join(f"word {i}\tmot {i}\n" for i in range(40)), "translate"),
        ("a\tb\nno tab\n", "lm"),
        ("", "lm"),
    ],
)
def test_the_task_is_guessed_from_the_form_of_the_file(tmp_path, text, task):
    assert guess_task(written(tmp_path, text)) == task


LABELLED = "".join(f"text {i}\t{'pos' if i % 2 else 'neg'}\n" for i in range(18))


@pytest.mark.parametrize(
    ("text", "place", "task"),
    [
        (f"{LABELLED}\n no tab\n", "line 20: expected one tab, as in 18 of 19 lines, got ' no tab'", "classify"),
        (f"{LABELLED}one\nx\ty\tz\n", "line 19: expected one tab, as in 18 of 20 lines, got 'one'", "classify"),
        ("a\tDET\ndog\tNOUN\nbarks\tVERB\n\n" * 6 + "it\n", "line 25: expected one tab, as in 18 of 19", "tag"),
        ("".join(f"a {i}\tb {i}\n" for i in range(99)) + "a\tb\tc\n", "line 100: expected one tab", "translate"),
    ],
)
def test_a_few_bad_lines_do_not_turn_examples_into_a_text(tmp_path, text, place, task):
    path = written(tmp_path, text)
    with pytest.raises(DataError) as caught:
        guess_task(path)
    assert f"{path}, {place}" in str(caught.value)
    assert f"task='{task}', which it seems to be, or task='lm' if it is a text" in str(caught.value)


@pytest.mark.parametrize("text", [f"{LABELLED}one\ntwo\nthree\n", "a\tb\none\n", "one\n" * 30 + "a\tb\n"])
def test_many_lines_without_a_tab_are_a_text(tmp_path, text):
    assert guess_task(written(tmp_path, text)) == "lm"


def test_a_misspelled_label_gives_a_suggestion():
    labels = Labels.of(["Italian", *(f"a rather long label {i}" for i in range(20))])
    with pytest.raises(VocabularyError, match=r"'Italien'\. Did you mean Italian\?$"):
        labels.encode(["Italien"])
    with pytest.raises(VocabularyError, match=r"got 'xyz'$"):
        labels.encode(["xyz"])
    with pytest.raises(VocabularyError, match=r"got 77\. Did you mean 777\?$"):
        Labels.of([777, 1]).encode([77])


@pytest.mark.parametrize("odd", ["\u2028", "\u0085", "\x0c", "\x1c", "\r"])
def test_the_task_is_guessed_from_the_lines_that_are_read(tmp_path, odd):
    """Only \\n ends a line: other line separators of Unicode may occur inside one."""
    text = "".join(f"text{odd}{i}\t{'pos' if i % 2 else 'neg'}\n" for i in range(40))
    path = written(tmp_path, f"\ufeff{text}")
    assert guess_task(path) == "classify"
    rows = read_examples(path, "classify")
    assert (rows.inputs[0], rows.targets[0], len(rows)) == (f"text{odd}0", "neg", 40)
    assert guess_task(written(tmp_path, text.replace("\n", "\r\n"))) == "classify"


def test_a_line_with_a_tab_is_not_a_blank_line(tmp_path):
    tagged = "the\tDET\ndog\tNOUN\nbarks\tVERB\n\t\nit\tPRON\nsleeps\tVERB\n"
    assert guess_task(written(tmp_path, tagged)) != "tag"


def test_weights_of_classes_survive_a_file():
    x = Ragged.of([np.arange(i) for i in range(4)], np.empty(0, np.int64))
    plain = Examples(x, x, np.ones(4))
    assert "class_weights" not in plain.arrays()
    kept = Examples(x, x, np.ones(4), np.array([1.0, 2.0, 3.0])).take(np.array([3, 1]))
    assert Examples.from_arrays(kept.arrays()).class_weights.tolist() == [1, 2, 3]
    assert Examples.from_arrays(kept.arrays(), classes=3).class_weights.tolist() == [1, 2, 3]


@pytest.mark.parametrize("wrong", [np.ones(2), np.ones(4), np.ones((3, 1)), np.float64(1), np.array(["a", "b", "c"])])
def test_class_weights_that_are_not_one_for_each_class_are_refused(wrong):
    x = Ragged(np.arange(3), np.array([3]))
    kept = Examples(x, x, np.ones(1), np.ones(3)).arrays()
    with pytest.raises(CheckpointError, match=r"the examples of a run are damaged: .*class_weights"):
        Examples.from_arrays(kept | {"class_weights": np.asarray(wrong)}, classes=3)
    with pytest.raises(CheckpointError, match="class_weights"):  # also where the number of classes is not known
        Examples.from_arrays(kept | {"class_weights": np.ones(2)})


def test_a_folder_of_short_lines_is_for_classes_and_one_of_texts_for_a_language_model(tmp_path):
    for name, text in (("a.txt", "Rossi\nBianchi\n"), ("b.txt", "Kim\nPark\n")):
        written(tmp_path, text, name)
    assert guess_task(str(tmp_path)) == "classify"
    for name in ("c.txt", "d.txt", "e.txt"):
        written(tmp_path, "A long line of prose that goes on and on. " * 20, name)
    assert guess_task(str(tmp_path)) == "lm"


NAMES = "Rossi\nBianchi\nVerdi\nNeri\n"
GAPS = "Rossi\n\nBianchi\nVerdi\n\nNeri\n"
MANY = "Rossi\nBianchi\n" * 30 + "\n" + "Verdi\n"
PROSE = ("It was a line of prose, as long as the lines of a book are, with words\n" * 5 + "\n") * 4
TALK = ("Said one of them to the other, in a line of a book.\n" * 3 + "\n") * 4  # or a poem
SENTENCES = "A sentence about a film that somebody saw and did not like all that much.\n" * 9
PARAGRAPHS = "A paragraph that goes on. " * 30 + "\n"


@pytest.mark.parametrize(
    ("files", "task"),
    [
        ([NAMES, NAMES], "classify"),
        ([NAMES, GAPS], "classify"),  # blank lines in one or two files are mistakes
        ([GAPS, NAMES, NAMES], "classify"),
        ([MANY, MANY], "classify"),  # and so are a few among many lines
        ([NAMES, NAMES, ""], "classify"),
        ([f"\n \n{NAMES}\n\n"] * 2, "classify"),
        ([GAPS, GAPS], "lm"),  # a poem
        ([TALK, TALK, TALK], "lm"),
        ([TALK, TALK, SENTENCES], None),
        ([TALK, NAMES, GAPS], None),
        ([SENTENCES, SENTENCES], None),
        ([NAMES, PROSE], None),
        ([NAMES, NAMES, PARAGRAPHS], None),
        ([PROSE, PROSE], "lm"),
        ([PROSE, TALK, TALK], "lm"),
        ([PROSE, PROSE, NAMES], "lm"),
        ([PARAGRAPHS, PARAGRAPHS], "lm"),
        ([PARAGRAPHS, PROSE], "lm"),
        ([NAMES], "lm"),
        ([GAPS, ""], "lm"),
        (["", ""], "lm"),
        ([], "lm"),
    ],
)
def test_the_task_of_a_folder_is_guessed_or_refused_as_ambiguous(tmp_path, files, task):
    for number, text in enumerate(files):
        written(tmp_path, text, f"{number}.txt")
    if task is not None:
        assert guess_task(str(tmp_path)) == task
        return
    says = r"(blank lines \(the first is line [246]\)|lines of (73|779) characters)"
    asks = "task='classify' if each line is an example of its file's label, task='lm' if it is one text"
    with pytest.raises(DataError, match=rf"may be one text or have one file per label: \d.txt has {says}.* {asks}"):
        guess_task(str(tmp_path))


PACKED = "\x1f packed\nshort\nlines\n"
SOURCES = "import os\n\n\ndef f(x):\n    return x\n\n\nclass A:\n    pass\n" * 20


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"a.txt.gz": PACKED, "b.txt.gz": PACKED, "c.txt.zst": PACKED}, None),
        ({"a.txt": PROSE, "b.txt.gz": PACKED}, None),
        ({"a.txt": NAMES, "b.txt": NAMES, "old.gz": PACKED}, None),
        ({"a.txt": NAMES, "more.md": NAMES, "b.txt": NAMES}, "more.md has another suffix than the other files"),
        ({"about.md": SENTENCES, "a.txt": NAMES, "b.txt": NAMES}, "about.md has another suffix than the other files"),
        ({"a.py": SOURCES, "b.py": SOURCES, "c.py": SOURCES}, None),
        ({"names.md": NAMES, "a.txt": PROSE, "b.txt": PROSE}, None),
    ],
)
def test_a_folder_with_files_of_several_kinds_is_a_text_or_refused_as_ambiguous(tmp_path, files, says):
    for name, text in files.items():
        written(tmp_path, text, name)
    if says is None:
        assert guess_task(str(tmp_path)) == "lm"
        return
    with pytest.raises(DataError, match=rf"one file per label: {says}.* task='classify'"):
        guess_task(str(tmp_path))


def test_capitals_in_suffixes_and_files_without_lines_do_not_matter(tmp_path):
    for name, text in {"a.txt": NAMES, "b.TXT": NAMES, "empty.md": ""}.items():
        written(tmp_path, text, name)
    assert guess_task(str(tmp_path)) == "classify"


@pytest.mark.parametrize("name", ["README.txt", "readme.md", "README", "LICENSE", "Licence.txt"])
def test_a_readme_in_a_labeled_folder_is_not_a_label(tmp_path, name):
    written(tmp_path, PROSE, name)
    written(tmp_path, NAMES, "Italian.txt")
    written(tmp_path, NAMES, "Korean.txt")
    assert guess_task(str(tmp_path)) == "classify"
    assert set(read_examples(str(tmp_path), "classify").targets) == {"Italian", "Korean"}


def test_a_label_may_be_called_readme(tmp_path):
    for name in ("memo.txt", "notice.txt", "readme.txt"):
        written(tmp_path, NAMES, name)
    assert guess_task(str(tmp_path)) == "classify"
    assert set(read_examples(str(tmp_path), "classify").targets) == {"memo", "notice", "readme"}


def test_blank_lines_in_a_labeled_folder_are_no_examples(tmp_path):
    written(tmp_path, GAPS, "Italian.txt")
    written(tmp_path, " \nKim\n\t\nPark\n\n", "Korean.txt")
    rows = read_examples(str(tmp_path), "classify")
    assert rows.inputs == ["Rossi", "Bianchi", "Verdi", "Neri", "Kim", "Park"]
    assert rows.targets == ["Italian"] * 4 + ["Korean"] * 2
    assert rows.places[1].endswith("Italian.txt, line 3")
