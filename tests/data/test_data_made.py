"""Corpora made by a program: every label is true, judged by other means than those that made it."""

import calendar
import hashlib
import re
from collections import Counter
from datetime import datetime

import pytest

from elman.data import fetch, guess_task, list_corpora, named, read_examples

NEW = ("sums", "brackets", "roman-numerals", "appointments", "number-words", "dates")
SHA256 = {  # the same on every platform and in every version of Python
    "sums": "4d513a8bf8e1f01a424527072519360fcdf3cd19e1e234b9dd8e9d7be83d1aee",
    "brackets": "c63a969c29ebe2168da008656466ad0d5b20efc1f8e03f86928e1fdeca49af57",
    "roman-numerals": "9e7df6d5eb95a0dfc6bfea1450d1a0b344157e16264ac42e482b2a8b0b7928dd",
    "appointments": "187537bec3bb19008613e428c3c9125cd84c84c3a7018d60896f0cc68155774e",
    "number-words": "277d86f32d12e1e7ebb0dfc7d93f5b1cd4a95a46d316646e59dc55a305175110",
    "dates": "61577a682acfcc625fce8e7f10014e7de37817529d23b803e11955ae526fb8dd",
}
NUMERALS = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
# strict: at most three equal letters, only one in front of a larger one
CORRECT = re.compile("M{0,3}(CM|CD|D?C{0,3})(XC|XL|L?X{0,3})(IX|IV|V?I{0,3})")


def pairs(name):
    rows = read_examples(str(fetch(name)), "translate")  # both columns as they are
    return list(zip(rows.inputs, rows.targets, strict=True))


def value(numeral):
    values = [NUMERALS[letter] for letter in numeral]
    return sum(v if v >= after else -v for v, after in zip(values, [*values[1:], 0], strict=True))


def closes_all(text):
    opened = []
    for bracket in text:
        if bracket in "([{":
            opened.append(bracket)
        elif not opened or opened.pop() + bracket not in ("()", "[]", "{}"):
            return False
    return not opened


@pytest.mark.parametrize("name", NEW)
def test_everyone_has_the_same_file_and_its_size_is_listed(name):
    (row,) = [row for row in list_corpora() if row.name == name]
    assert row.where is None
    assert "made by a program, needs no network" in row.description
    path = fetch(name)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == SHA256[name]
    assert row.size == path.stat().st_size
    written = path.stat().st_mtime_ns
    assert fetch(name) == path
    assert path.stat().st_mtime_ns == written
    path.write_text("damaged")
    assert hashlib.sha256(fetch(name).read_bytes()).hexdigest() == SHA256[name]


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("sums", "lm"),
        ("brackets", "classify"),
        ("roman-numerals", "regress"),
        ("appointments", "tag"),
        ("number-words", "classify"),
        ("dates", "translate"),
    ],
)
def test_the_task_is_guessed_and_stands_in_the_description(name, task):
    assert guess_task(str(fetch(name))) == task
    assert ("a text" if task == "lm" else task) in named.CORPORA[name].description.rpartition(":")[2]


def test_sums_are_right_and_complete():
    lines = fetch("sums").read_text().splitlines()
    rows = [tuple(map(int, re.fullmatch(r"(\d+)\+(\d+)=(\d+)", line).groups())) for line in lines]
    assert all(a + b == c for a, b, c in rows)
    assert sorted((a, b) for a, b, _ in rows) == [(a, b) for a in range(100) for b in range(100)]
    assert len({a for a, _, _ in rows[:200]}) > 50  # in random order


def test_brackets_are_balanced_where_the_label_says_so():
    rows = pairs("brackets")
    assert len(rows) == len(dict(rows)) == 6000
    assert all((label == "balanced") == closes_all(text) for text, label in rows)
    labels = Counter(label for _, label in rows)
    assert set(labels) == {"balanced", "unbalanced"}
    assert 0.35 < labels["balanced"] / len(rows) < 0.65
    # counting is not enough: every string has as many closing as opening brackets of each kind
    assert all(text.count(left) == text.count(right) for text, _ in rows for left, right in ("()", "[]", "{}"))


def test_roman_numerals_have_their_values():
    rows = pairs("roman-numerals")
    assert sorted(int(number) for _, number in rows) == list(range(1, 4000))
    assert all(CORRECT.fullmatch(numeral) and value(numeral) == int(number) for numeral, number in rows)


def kind_by_neighbors(before, word, after):
    """The tag of a word of an appointment, from the words before and after it."""
    months = list(calendar.month_name)[1:]
    if word in calendar.day_name:
        return "WEEKDAY"
    if word in months and (before in ("on", "in") or before.isdigit()):
        return "MONTH"
    if word.istitle():
        return "NAME"
    if not word.isdigit():
        return "OTHER"
    if before == "room":
        return "ROOM"
    if before == "for" or after == "people":
        return "PEOPLE"
    if before == ":" or after == "past":
        return "MINUTE"
    if before in ("at", "from", "to", "past", "before"):
        return "HOUR"
    if after in months:
        return "DAY"
    if before in (*months, ","):
        return "YEAR" if len(word) == 4 else "DAY"
    assert before == "in"
    return "ROOM"


def test_tags_of_appointments_follow_from_their_neighbors():
    rows = read_examples(str(fetch("appointments")), "tag")
    assert len({tuple(words) for words in rows.inputs}) == len(rows) == 1500
    for words, tags in zip(rows.inputs, rows.targets, strict=True):
        around = zip(["", *words], words, [*words[1:], ""], strict=False)
        assert [kind_by_neighbors(*three) for three in around] == tags, words
    kinds = Counter(tag for tags in rows.targets for tag in tags)
    assert min(kinds.values()) > 300
    assert len(kinds) == 10


def spelled(text):
    """The number that words mean: units are added, hundred and thousand multiply what precedes them."""
    digits = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    units = {word: n for n, word in enumerate(f"{digits} seventeen eighteen nineteen".split())}
    tens = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
    units |= {word: 10 * n for n, word in enumerate(tens, 2)}
    thousands, rest = 0, 0
    for word in re.split("[ -]", text):
        if word == "thousand":
            thousands, rest = rest, 0
        elif word == "hundred":
            rest *= 100
        else:
            rest += units[word]
    return 1000 * thousands + rest


def test_numbers_in_words_are_odd_or_even():
    rows = pairs("number-words")
    numbers = [spelled(text) for text, _ in rows]
    assert len(set(numbers)) == len(rows) == 4000
    assert min(numbers) >= 0
    assert max(numbers) < 10_000
    assert all(label == ("odd" if n % 2 else "even") for n, (_, label) in zip(numbers, rows, strict=True))


def test_dates_mean_the_iso_date():
    rows = pairs("dates")
    assert len(set(rows)) == len(rows) == 2000
    formats = Counter()
    for written, iso in rows:
        day, _, rest = written.partition(".")
        month, _, year = rest.partition(".")
        arabic = f"{day}.{value(month):02}.{year}" if month.isalpha() else written
        for form in ("%d %B %Y", "%B %d, %Y", "%d.%m.%Y", "%m/%d/%Y", "%d-%b-%Y", "%Y, %B %d"):
            try:
                found = datetime.strptime(arabic, form)
            except ValueError:
                continue
            assert found.date().isoformat() == iso
            formats[form, month.isalpha()] += 1
    assert sum(formats.values()) == len(rows)  # one reading each
    assert len(formats) == 7
    assert min(formats.values()) > 200
