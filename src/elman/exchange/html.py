"""One HTML file that writes with a language model in a browser: the weights are inside, and nothing is loaded."""

from __future__ import annotations

import base64
import json
import zlib
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from elman.errors import ElmanError
from elman.exchange.cells import unit_kind
from elman.exchange.model_file import refuse_existing, write_new
from elman.exchange.quantize import Precision, store
from elman.models import language_run
from elman.models.evaluation import mean_loss
from elman.network import HeadNetwork, Parameters
from elman.training.run import Run

UNITS = {"char": "characters", "byte": "bytes", "word": "words"}
SCRIPTS = ("random.js", "model.js", "page.js")


class Measured(NamedTuple):
    """What the weights cost on the run's validation text, in nats a token, before and after; or why that is unknown."""

    original: float | None = None
    stored: float | None = None
    why_not: str = ""


def write_html(run_path: Path, out: Path, *, precision: Precision = "float32", force: bool = False) -> Path:
    """A page for the best model of a run."""
    refuse_existing(out, force=force)
    run, network, parameters, vocabulary = language_run.load(run_path)
    stored = store(parameters, precision)
    measured = _measure(run, network, parameters, stored.parameters)
    corpus = run.config.get("corpus")
    name = corpus.get("name") if isinstance(corpus, dict) else None
    stack = network.stack
    facts = {
        "name": name,
        "tokens": vocabulary.kind,
        "units": UNITS[vocabulary.kind],
        "cell": stack.cell.name,
        "activation": stack.cell.activation,
        "layers": stack.layers,
        "hidden": stack.hidden,
        "precision": precision,
        "loss": measured.original,
        "loss_as_stored": measured.stored,
        "arrays": network.shapes,
        "vocabulary": None if vocabulary.kind == "byte" else vocabulary.tokens,
    }
    size = f"{stack.layers} × {stack.hidden}" if stack.layers > 1 else f"{stack.hidden}"
    units = unit_kind(stack.cell.name, stack.cell.activation)
    words = {
        "title": escape(name if isinstance(name, str) and name else run.path.resolve().name),
        "network": f"A recurrent network that has read it: {size} {units} units, "
        f"{parameters.buffer.size:,} weights, {len(vocabulary)} different {UNITS[vocabulary.kind]}.",
        "tokens": UNITS[vocabulary.kind],
        "measured": _in_words(measured, precision, UNITS[vocabulary.kind]),
        "same": " as with <code>elman sample</code>" if precision == str(parameters.buffer.dtype) == "float32" else "",
        "version": version("elman"),
    }
    return write_new(out, _page(words, facts, stored.data), force=force)


def _measure(run: Run, network: HeadNetwork, original: Parameters, stored: Parameters) -> Measured:
    try:
        ids = language_run.prepare(language_run.corpus_of(run), language_run.config_of(run)).judged
        before = mean_loss(network, original, ids)
        same = original.buffer.dtype == stored.buffer.dtype and (original.buffer == stored.buffer).all()
        return Measured(before, before if same else mean_loss(network, stored, ids))
    except (ElmanError, OSError) as error:  # the text is gone, has changed, or was never kept
        return Measured(why_not=str(error))


def _in_words(measured: Measured, precision: str, units: str) -> str:
    if measured.original is None or measured.stored is None:
        return f"<p>What {precision} costs was not measured: the validation text was not at hand.</p>"
    unit, cost = units.removesuffix("s"), measured.stored - measured.original
    whole = f"On its validation text the model costs {measured.original:.4f} nats a {unit}"
    if not cost:
        return f"<p>{whole}; these are its very weights, in {precision}.</p>"
    return f"<p>{whole}; as stored here, in {precision}, {measured.stored:.4f} ({cost:+.4f}).</p>"


def _page(words: dict[str, str], facts: dict[str, Any], weights: bytes) -> bytes:
    """The template filled in."""
    folder = files("elman.exchange") / "page"
    parts = words | {
        "style": (folder / "page.css").read_text("utf-8"),
        "script": "".join((folder / name).read_text("utf-8") for name in SCRIPTS),
        # nothing may end the script that holds it: base 85, which is shorter than base 64, has a comma for <
        "weights": base64.b85encode(zlib.compress(weights, 9)).decode().replace("<", ","),
        "facts": json.dumps(facts, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
    }
    before, *rest = (folder / "page.html").read_text("utf-8").split("{{")
    page = before  # each part goes in once: what looks like a placeholder in a token stays as it is
    for piece in rest:
        name, after = piece.split("}}", 1)
        page += parts[name] + after
    return page.encode("utf-8", "backslashreplace")  # of a lone surrogate: \ud800, which JSON reads
