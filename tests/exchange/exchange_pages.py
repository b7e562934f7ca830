"""Small trained runs of every kind, and the page used as in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from elman.models import LanguageModel

ENGLISH = "The cat sat on the mat, and the dog sat on the log. Who sat on the cat?\n" * 40 + "A zebra did it.\n"
ACCENTS = "Voilà: l'été à Škofja Loka, «привет» — 日本語, naïve café 🙂.\n" * 40
SMALL = {"hidden": 24, "batch_size": 4, "window": 16, "steps": 60, "warmup_steps": 0, "learning_rate": 0.02}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "one layer": (ENGLISH, {}),
    "two layers": (ENGLISH, {"layers": 2}),
    "one-hot": (ENGLISH, {"embedding": 0}),
    "bytes": (ACCENTS, {"tokens": "byte"}),
    "characters": (ACCENTS, {"layers": 3}),
    "words": (ENGLISH, {"tokens": "word"}),
    "relu": (ENGLISH, {"activation": "relu", "layers": 2}),
    "sigmoid": (ENGLISH, {"activation": "sigmoid"}),
    "identity": (ENGLISH, {"activation": "identity"}),
    "subwords": (ACCENTS, {"tokens": "bpe", "vocabulary_size": 290, "cell": "gru"}),
    "gru": (ENGLISH, {"cell": "gru", "layers": 2}),
    "lstm": (ENGLISH, {"cell": "lstm", "layers": 2}),
    "sequences": (ENGLISH.replace(" ", "\n"), {"sequences": "lines"}),
    "sequences of bytes": (ENGLISH.replace(" ", "\n"), {"sequences": "lines", "tokens": "byte"}),
    "sequences of subwords": (
        ACCENTS.replace(" ", "\n"),
        {"sequences": "lines", "tokens": "bpe", "vocabulary_size": 290},
    ),
    "no new line": (ENGLISH.replace("\n", " "), {}),
}


def train(kind: str, folder: Path) -> Path:
    """A run of this kind, trained on a file next to it."""
    text, options = RUNS[kind]
    (folder / "text.txt").write_text(text, encoding="utf-8")
    LanguageModel(**SMALL | options, validate_every=20, log_every=5).fit(folder / "text.txt", out=folder / "run")
    return folder / "run"


WRITE = """async fields => {
  const at = id => document.getElementById(id);
  for (const [name, value] of Object.entries(fields)) at(name).value = value;
  at("write").click();
  while (at("text").ariaBusy === "true") await new Promise(requestAnimationFrame);
  return at("text").textContent;
}"""


def write_on(page: Any, *, length: int = 200, **fields: object) -> str:
    """Fill in the form, press the button, wait, and read the text."""
    text: str = page.evaluate(WRITE, {name: str(value) for name, value in {"length": length, **fields}.items()})
    return text
