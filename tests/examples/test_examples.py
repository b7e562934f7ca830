"""Every example runs quickly, and learns more than chance from small made-up corpora; some as a person would run it."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SOUNDS = {"a": "AH", "e": "EH", "o": "OW", "b": "B", "d": "D", "k": "K", "m": "M", "t": "T"}
FRENCH = {"I": "Je", "You": "Tu", "Tom": "Tom", "sleep": "dors", "eat": "manges", "run": "cours", "now": "maintenant",
          "here": "ici"}  # fmt: skip


def words(rng, endings, n):
    return ["".join(rng.choice(list("abdekmot"), rng.integers(2, 5))) + str(rng.choice(endings)) for _ in range(n)]


def names(folder, rng):
    (folder / "names").mkdir()
    for language, endings in {"Left": ["ov", "in"], "Right": ["son", "er"], "Middle": ["ez", "illo"]}.items():
        (folder / "names" / f"{language}.txt").write_text("\n".join(words(rng, endings, 800)) + "\n")
    return "names"


def sentiment(folder, rng):
    lines = []
    for _ in range(800):
        label = str(rng.choice(["positive", "negative"]))
        judged = rng.choice(["great", "good", "nice"] if label == "positive" else ["bad", "rude", "awful"])
        lines.append(f"The {rng.choice(['food', 'phone', 'film'])} was {judged}.\t{label}")
    (folder / "sentiment.tsv").write_text("\n".join(lines) + "\n")
    return "sentiment.tsv"


def part_of_speech(folder, rng):
    kinds = {"DET": ["the", "a"], "NOUN": ["dog", "man", "boat"], "VERB": ["saw", "ate"], "PUNCT": ["."]}
    order = ["DET", "NOUN", "VERB", "DET", "NOUN", "PUNCT"]
    blocks = ["\n".join(f"{rng.choice(kinds[tag])}\t{tag}" for tag in order) for _ in range(200)]
    (folder / "part-of-speech.tsv").write_text("\n\n".join(blocks) + "\n")
    return "part-of-speech.tsv"


def pronunciation(folder, rng):
    spelled = ["".join(rng.choice(list(SOUNDS), rng.integers(1, 4))) for _ in range(5000)]
    lines = [f"{word}\t{' '.join(SOUNDS[letter] for letter in word)}" for word in spelled]
    (folder / "pronunciation.tsv").write_text("\n".join(lines) + "\n")
    return "pronunciation.tsv"


def english_french(folder, rng):
    lines = []
    for _ in range(1500):
        chosen = [str(rng.choice(part)) for part in (["I", "You", "Tom"], ["sleep", "eat", "run"], ["now", "here"])]
        lines.append(f"{' '.join(chosen)}.\t{' '.join(FRENCH[word] for word in chosen)}.")
    (folder / "english-french.tsv").write_text("\n".join(lines) + "\n")
    return "english-french.tsv"


def novel(folder, rng):
    words = ["The", "letter", "of", "her", "sister", "made", "him", "happy", "before", "they", "came", "home"]
    sentences = [" ".join(rng.choice(words, size=8)) + ".\n" for _ in range(1500)]
    (folder / "pride-and-prejudice.txt").write_text("".join(sentences))
    return "pride-and-prejudice.txt"


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def in_a_process(name, *args, data):
    env = {**os.environ, "ELMAN_KERNELS": "reference", "PYTHONIOENCODING": "utf-8", "ELMAN_DATA": str(data)}
    words = [sys.executable, "-W", "error", str(EXAMPLES / name), *args]  # compiling would take longer
    done = subprocess.run(words, env=env, capture_output=True, text=True, encoding="utf-8", check=False)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def run(monkeypatch, capfd):
    """The example in this process, where all has been imported already."""

    def run_here(name, *args, data):
        monkeypatch.setattr(sys, "argv", [str(EXAMPLES / name), *args])
        monkeypatch.setenv("ELMAN_DATA", str(data))
        monkeypatch.setenv("ELMAN_THREADS", "1")
        monkeypatch.syspath_prepend(EXAMPLES)
        sys.modules.pop("shared", None)  # its progress writes to what was stderr when it was imported
        code = 0
        try:
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        except SystemExit as end:
            code = end.code
        return Done(code, *capfd.readouterr())

    yield run_here
    sys.modules.pop("shared", None)


PERCENT = r"([\d.]+)%"
CASES = {  # what makes a corpus, a figure in the output, and the least or the most that it may be
    "surname_to_language.py": (names, f"language of {PERCENT}", 60, 101),
    "language_to_surname.py": (names, r"others is ([\d.]+) nats per letter", 0, 2.2),
    "sentence_to_sentiment.py": (sentiment, f"others {PERCENT} are", 90, 101),
    "word_to_part_of_speech.py": (part_of_speech, f"others {PERCENT} of the tags", 90, 101),
    "spelling_to_pronunciation.py": (pronunciation, f"others {PERCENT} are right", 50, 101),
    "english_to_french.py": (english_french, r"I am happy\.  (Je) ", None, None),
    "hello.py": (None, '"hell" → "(hello)"', None, None),
    "digit_to_name.py": (None, f"others {PERCENT} are", 80, 101),
    "video_to_direction.py": (None, f"others {PERCENT} are", 60, 101),
    "number_to_words.py": (None, f"others {PERCENT} are", 60, 101),
    "sine.py": (None, r"1 step ahead ([\d.]+)", 0, 0.1),
    "adding.py": (None, r"identity, relu:  ([\d.]+)", 0, 0.02),
    "fine_tuning.py": (novel, r"loss on the novel: ([\d.]+) nats per character before", 0, 1.5),
    "copy_memory.py": (None, rf"identity, relu:  \S+  {PERCENT}", 30, 101),
}


def try_it(run, name, folder):
    make, figure, least, most = CASES[name]
    corpus = make(folder, np.random.default_rng(0)) if make else None
    on_command_line = corpus in ("sentiment.tsv", "pronunciation.tsv")  # the others are found in the folder
    done = run(name, "--quick", *([str(folder / corpus)] if on_command_line else []), data=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # nobody watches: no progress
    found = re.search(figure, done.stdout)
    assert found, done.stdout
    if least is not None:
        assert least <= float(found[1]) <= most, done.stdout


@pytest.mark.parametrize("name", CASES)
def test_it_runs_and_learns(tmp_path, name, run):
    try_it(run, name, tmp_path)


def test_it_runs_as_a_person_would_run_it(tmp_path):
    try_it(in_a_process, "sentence_to_sentiment.py", tmp_path)


@pytest.fixture
def no_network(monkeypatch, tmp_path):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ELMAN_CACHE", str(tmp_path / "cache"))


def is_refused(done, *words):
    assert done.returncode == 2
    assert done.stdout == ""
    assert all(word in done.stderr for word in words), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("no_network")
def test_a_corpus_that_cannot_be_downloaded_is_named(tmp_path, run):
    words = ["names could not be fetched", "https://", "set ELMAN_DATA"]
    is_refused(run("surname_to_language.py", data=tmp_path), *words)
    is_refused(run("surname_to_language.py", str(tmp_path / "mine"), data=tmp_path), f"There is no {tmp_path / 'mine'}")


@pytest.mark.usefixtures("no_network")
def test_a_corpus_that_cannot_be_downloaded_is_named_to_a_person(tmp_path):
    done = in_a_process("english_to_french.py", data=tmp_path)
    is_refused(done, "english-french could not be fetched", "lines of English sentence, a tab, French sentence")


def test_all_are_tried_and_listed():
    """The tests of the export run sample_onnx.py; rnn_in_one_file.py and vanilla_rnn.py have their own."""
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    assert scripts - {"sample_onnx.py", "shared.py", "rnn_in_one_file.py", "vanilla_rnn.py"} == set(CASES)
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in listed for name in scripts)
