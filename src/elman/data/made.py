"""Texts and examples that a program makes: they need no network, and their labels are true by construction.

Each function gives the lines of a file that `elman train` reads, in random order. The draws use Random.random alone,
whose sequence for a seed is the same in every version of Python, so everyone has the same lines.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from random import Random

from elman.errors import DataError

ROMAN = {1000: "M", 900: "CM", 500: "D", 400: "CD", 100: "C", 90: "XC", 50: "L", 40: "XL", 10: "X", 9: "IX", 5: "V",
         4: "IV", 1: "I"}  # fmt: skip
SMALL = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
         "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]  # fmt: skip
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December"]  # fmt: skip
NOTATIONS = [  # of a date, with the names that dates() fills in
    "{day} {month} {year}", "{month} {day}, {year}", "{day:02}.{number:02}.{year}", "{number}/{day}/{year}",
    "{day}.{roman}.{year}", "{day}-{short}-{year}", "{year}, {month} {day}",
]  # fmt: skip
FIELDS = {  # the tag and the words of each field of an appointment
    "DAY": [str(day) for day in range(1, 29)],
    "MONTH": MONTHS,
    "YEAR": [str(year) for year in range(1990, 2040)],
    "WEEKDAY": ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"],
    "HOUR": [str(hour) for hour in range(24)],
    "MINUTE": [str(minute) for minute in range(60)],
    "ROOM": [str(room) for room in range(1, 100)],
    "PEOPLE": [str(people) for people in range(2, 40)],
    "NAME": ["Ada", "Boris", "Carla", "Deniz", "Emil", "Fatima", "Goran", "Hana", "May", "June", "April"],
}
OPENINGS = ["NAME and NAME meet", "dinner with NAME", "we may see NAME", "call NAME", "lunch", "the train leaves",
            "a march through town"]  # fmt: skip
DETAILS = [
    ["on WEEKDAY", "on DAY MONTH", "on MONTH DAY , YEAR", "on WEEKDAY , DAY MONTH YEAR", "in MONTH YEAR"],
    ["at HOUR", "at HOUR : MINUTE", "from HOUR to HOUR", "at MINUTE past HOUR", "before HOUR"],
    ["in room ROOM", "with PEOPLE people", "for PEOPLE in ROOM", "in ROOM for PEOPLE"],
]


def sums() -> Iterator[str]:
    """All sums of two numbers below 100: a text."""
    yield from _shuffled([f"{a}+{b}={a + b}" for a in range(100) for b in range(100)], Random(1))


def brackets(count: int = 6000) -> Iterator[str]:
    """Brackets of three kinds, and whether they are balanced; in half of them one is moved until they are not."""
    rng, lines = Random(2), dict[str, None]()  # each line once
    while len(lines) < count:
        text = _balanced(rng, 2 + int(8 * rng.random()))
        wrong = rng.random() < 0.5
        while wrong and _is_balanced(text):
            i, j = (int(len(text) * rng.random()) for _ in range(2))
            others = text[:i] + text[i + 1 :]
            text = others[:j] + text[i] + others[j:]
        lines[f"{text}\t{'unbalanced' if wrong else 'balanced'}"] = None
    yield from lines


def roman_numerals() -> Iterator[str]:
    """The numbers from 1 to 3,999 in Roman numerals, and in figures."""
    yield from _shuffled([f"{_roman(n)}\t{n}" for n in range(1, 4000)], Random(3))


def appointments(count: int = 1500) -> Iterator[str]:
    """The words of appointments, and the tag of each: a number is a day, an hour or a room, as its neighbors say."""
    rng = Random(4)
    for _ in range(count):
        parts = [_one_of(OPENINGS, rng), *_shuffled([_one_of(details, rng) for details in DETAILS], rng)]
        for word in " ".join(parts).split():
            yield f"{_one_of(FIELDS[word], rng)}\t{word}" if word in FIELDS else f"{word}\tOTHER"
        yield ""


def number_words(count: int = 4000) -> Iterator[str]:
    """Numbers below 10,000 in words, and whether they are odd or even."""
    lines = [f"{number_in_words(n)}\t{('even', 'odd')[n % 2]}" for n in range(10_000)]
    yield from _shuffled(lines, Random(5))[:count]


def dates(count: int = 2000) -> Iterator[str]:
    """Dates from 1900 to 2099 in several notations, and in that of ISO 8601."""
    rng, lines = Random(6), dict[str, None]()  # each line once
    first, last = date(1900, 1, 1).toordinal(), date(2100, 1, 1).toordinal()
    while len(lines) < count:
        day = date.fromordinal(first + int((last - first) * rng.random()))
        month = MONTHS[day.month - 1]
        written = _one_of(NOTATIONS, rng).format(
            day=day.day, number=day.month, year=day.year, month=month, short=month[:3], roman=_roman(day.month)
        )
        lines[f"{written}\t{day.isoformat()}"] = None
    yield from lines


def number_in_words(n: int) -> str:
    """A number below a million in words: 1042 is "one thousand forty-two"."""
    if n < 20:
        return SMALL[n]
    if n < 100:
        return TENS[n // 10 - 2] + (f"-{SMALL[n % 10]}" if n % 10 else "")
    unit, name = (1000, "thousand") if n >= 1000 else (100, "hundred")
    return f"{number_in_words(n // unit)} {name}" + (f" {number_in_words(n % unit)}" if n % unit else "")


def _roman(n: int) -> str:
    text = ""
    for value, letters in ROMAN.items():
        text += letters * (n // value)
        n %= value
    return text


def _balanced(rng: Random, pairs: int) -> str:
    """Balanced brackets: a pair around some of the pairs, beside the others."""
    if not pairs:
        return ""
    inside = int(pairs * rng.random())
    pair = _one_of(["()", "[]", "{}"], rng)
    return pair[0] + _balanced(rng, inside) + pair[1] + _balanced(rng, pairs - 1 - inside)


def _is_balanced(text: str) -> bool:
    while (shorter := text.replace("()", "").replace("[]", "").replace("{}", "")) != text:
        text = shorter
    return not text


def _one_of(items: Sequence[str], rng: Random) -> str:
    return items[int(len(items) * rng.random())]


def _shuffled(items: Sequence[str], rng: Random) -> list[str]:
    return sorted(items, key=lambda _: rng.random())


def python_docs() -> Iterator[str]:
    """The prose of Python's language reference, which is installed with Python: a text."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise DataError("python-docs is missing: this Python has no pydoc_data", do="Name a file.") from None
    yield "\n\n".join(textwrap.fill(paragraph, 72) for paragraph in prose(topics.values()))


_CODE = re.compile(r"[][{}<>=|\\_@#%&^~/+`\"]|::|\*\*|\.\.\.")
_WORD = re.compile(r"[(]?[A-Za-z][a-z]*(?:['’-][a-z]+)*[,.;:!?)]*")
MIN_WORDS = 12  # paragraphs with fewer words are left out


def prose(texts: Iterable[str]) -> Iterator[str]:
    """The paragraphs of technical texts, each once and on one line, without tables, grammar, signatures and listings.

    A sentence is kept if it begins with a capital letter, ends with a lower-case letter and a period, an exclamation or
    a question mark, closes every parenthesis, has five words or more, of which nine in ten are plain words, and has no
    characters of code.
    """
    seen: set[str] = set()
    for block in (block for text in texts for block in re.split(r"\n[ \t]*\n", text)):
        words = re.sub(r"^\s*(?:[*•]|\d+\.)\s+", "", block).split()  # without bullets and numbers of lists
        paragraph = re.sub(r"\*(\w[^*]*)\*", r"\1", " ".join(words))  # *emphasis*
        paragraph = re.sub(r'"([A-Za-z]+)"', r"\1", paragraph)  # "name"
        kept = " ".join(filter(_is_sentence, re.split(r"(?<=[.!?])\s+(?=[A-Z])", paragraph)))
        if len(kept.split()) >= MIN_WORDS and kept not in seen:
            seen.add(kept)
            yield kept


def _is_sentence(text: str) -> bool:
    words = text.split()
    plain = sum(_WORD.fullmatch(word) is not None for word in words)
    complete = re.match(r"[A-Z]", text) and re.search(r"[a-z)][.!?]$", text) and text.count("(") == text.count(")")
    return len(words) >= 5 and bool(complete) and not _CODE.search(text) and plain >= 0.9 * len(words)
