"""What the examples share: their arguments, where a corpus lies, and a line that shows how training gets on."""

import argparse
import os
import sys

from elman.training import ProgressLine

progress = ProgressLine()  # a listener: it writes only where somebody watches
CORPORA = {  # what each holds, and where it comes from
    "names": "a folder with one file a language, one surname a line (data/names in github.com/spro/practical-pytorch)",
    "sentiment.tsv": "a sentence, a tab, positive or negative a line (UCI's Sentiment Labelled Sentences)",
    "part-of-speech.tsv": "a word, a tab, its tag a line, blank lines between sentences (Universal Dependencies' EWT)",
    "pronunciation.tsv": "a spelling, a tab, its phonemes a line (github.com/cmusphinx/cmudict)",
    "english-french.tsv": "an English sentence, a tab, a French one a line (tatoeba.org)",
}


def arguments(doc: str, corpus: str | None = None) -> argparse.Namespace:
    """args.quick, and args.path of the corpus; where that is missing the script ends here, with exit code 2."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="learn for a few seconds only")
    if corpus:
        default = os.path.join(os.environ.get("ELMAN_DATA", ""), corpus)
        parser.add_argument("path", nargs="?", default=default, help=f"{corpus}: {CORPORA[corpus]}")
    args = parser.parse_args()
    if corpus and not os.path.exists(args.path):
        print(f"There is no {args.path}: {CORPORA[corpus]}.", file=sys.stderr)
        fetch = " elman data fetch names downloads it and prints its path." if corpus == "names" else ""
        print(f"Name its path, or set ELMAN_DATA to a folder with {corpus} in it.{fetch}", file=sys.stderr)
        sys.exit(2)
    return args
