"""What several examples use: arguments, the path of a corpus, a progress line, numbers in words."""

import argparse
import os
import sys

from elman.data import find_source
from elman.errors import ElmanError
from elman.training import ProgressLine

progress = ProgressLine()  # a listener; it writes only to a terminal or a notebook


def arguments(doc: str, corpus: str | None = None) -> argparse.Namespace:
    """The arguments of the command line: quick and, if the example needs a corpus, its path.

    Unless a path is given, the corpus is downloaded once. If that fails, or there is no such file, exit with code 2.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="train for a few seconds only")
    if corpus:
        parser.add_argument("path", nargs="?", help=f"your own copy of the corpus {corpus} (see elman data list)")
    args = parser.parse_args()
    if corpus:
        try:
            args.path = args.path or str(find_source(corpus))
        except ElmanError as error:
            sys.exit(_error(str(error)))
        if not os.path.exists(args.path):
            sys.exit(_error(f"There is no {args.path}. Without a path, the corpus {corpus} is downloaded."))
    return args


def _error(message: str) -> int:
    """Print the message to stderr and return the exit code."""
    print(message, file=sys.stderr)
    return 2


ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
        "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]  # fmt: skip
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def number_in_words(n: int) -> str:
    """A number below a million in words: 42 is "forty two"."""
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10 - 2] + (f" {ONES[n % 10]}" if n % 10 else "")
    unit, name = (1000, "thousand") if n >= 1000 else (100, "hundred")
    return f"{number_in_words(n // unit)} {name}" + (f" {number_in_words(n % unit)}" if n % unit else "")
