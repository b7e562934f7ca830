"""What the card of a language model says besides: its figures, a sample, how much of that is copied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from elman.errors import ElmanError
from elman.exchange.markdown import fenced, plain
from elman.models import LanguageModel, language_run
from elman.models.evaluation import evaluation
from elman.training.run import Run


class Figures(NamedTuple):
    part: str  # of the data
    tokens: int | None
    values: Mapping[str, float]  # by unit


def language_figures(run: Run) -> list[Figures]:
    """Measured on what was held out; nothing where the text is not at hand any more."""
    try:
        prepared = language_run.prepare(language_run.corpus_of(run), language_run.config_of(run))
    except (ElmanError, OSError):
        return []
    _, network, parameters, _ = language_run.load(run.path)
    corpus, found = prepared.corpus, []
    for part, ids in (("validation", prepared.judged), ("test", prepared.split.test)):
        if len(ids) < 2:
            continue
        characters = round(len(ids) * corpus.characters / len(corpus.ids))  # as many as in the whole text, on average
        e = evaluation(network, parameters, ids, characters)
        values = {
            "nats a token": e.nats_per_token,
            "bits a token": e.bits_per_token,
            "bits a character": e.bits_per_character,
            "perplexity": e.perplexity,
        }
        found.append(Figures(part, e.tokens, values))
    return found


def language_sample(run: Run, *, seed: int, length: int, temperature: float) -> str:
    model = LanguageModel.load(run.path)
    text = model.sample(length, seed=seed, temperature=temperature)
    try:
        copied = f"Of this sample, {plain(str(model.copies(text)))}."
    except (ElmanError, OSError):
        copied = "How much of it is copied is not known: the training text was not at hand."
    return f"## A sample\n\nTemperature {temperature:g}, seed {seed}:\n\n{fenced(text, 'text')}\n\n{copied}"
