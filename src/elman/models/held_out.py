"""Evaluation on the held-out part of the data of a run."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from elman.data.ragged import Ragged
from elman.data.targets import Labels, Numbers, TokenTargets
from elman.errors import DataError, option
from elman.models import runs
from elman.models.evaluation import (
    ClassScores,
    Evaluation,
    Likelihood,
    RegressionScores,
    SequenceScores,
    evaluate_dynamically,
    evaluate_examples,
    evaluate_model,
    evaluate_text,
)
from elman.models.loading import load_predictor
from elman.training.run import Run


def evaluate_held_out(
    path: str | Path,
    *,
    dynamic: bool = False,
) -> tuple[str, Evaluation | ClassScores | SequenceScores | Likelihood | RegressionScores]:
    """Evaluate a run on its test part if it has one, else on its validation part.

    Parameters
    ----------
    path : path
        A run folder made by elman train, or by fit with out=.
    dynamic : bool
        For a language model: train a copy of it on each piece of the text after predicting it (dynamic evaluation).

    Returns
    -------
    part : str
        "test" or "validation".
    scores
        `Evaluation` for a language model, else the scores of the task: see elman.models.evaluation.
    """
    run = Run(Path(path))
    if run.config.get("data", "") is None:
        raise DataError(
            f"{run.path} has no held-out data: it was imported, or saved without its data",
            do=f"Give a file: elman eval {quote(str(run.path))} FILE.",
        )
    setup = runs.open_setup(run)
    if isinstance(setup, runs.TextSetup):
        parts: dict[str, Any] = {"test": setup.split.test, "validation": setup.split.validation}
        part = next((name for name, ids in parts.items() if len(ids) > 1), None)
        ids = _held_out_part(run, part, parts)
        _, fitted = runs.load(run.path, "lm")
        vocabulary = fitted.spec.vocabulary
        plain = vocabulary.kind == "char" and vocabulary.end is None
        characters = len(ids) if plain else len(vocabulary.decode(ids))
        evaluate = evaluate_dynamically if dynamic else evaluate_text
        return str(part), evaluate(fitted.head_network, fitted.parameters, ids, characters)
    assert isinstance(setup, runs.ExampleSetup)
    parts = {"test": setup.split.test, "validation": setup.split.validation}
    part = next((name for name, rows in parts.items() if len(rows)), None)
    examples = setup.examples.take(_held_out_part(run, part, parts))
    model = load_predictor(run.path)
    targets, y = setup.spec.targets, examples.y
    if setup.spec.task == "generate":
        nats = evaluate_examples(model.fitted_.network, model.fitted_.parameters, examples).loss
        return str(part), Likelihood(len(examples), nats, float(np.exp(nats)))
    decoded: list[Any]  # the targets, decoded: unknown tokens are <unknown>
    if isinstance(targets, Numbers):
        assert isinstance(y, np.ndarray)
        decoded = list(targets.decode(y))
    elif isinstance(targets, TokenTargets):
        assert isinstance(y, Ragged)
        decoded = [targets.symbols.decode(ids.tolist()) for ids in y]
    else:
        assert isinstance(targets, Labels)
        decoded = [targets.classes[ids].tolist() for ids in y]
    return str(part), evaluate_model(model, examples.x, decoded)  # type: ignore[arg-type]


def _held_out_part(run: Run, part: str | None, parts: dict[str, Any]) -> Any:
    if part is None:
        raise DataError(
            f"{run.path} has no held-out part: it was trained on all of its data",
            do=f"Give a file, or train with {option('validation_fraction')} or {option('test_fraction')}.",
        )
    return parts[part]
