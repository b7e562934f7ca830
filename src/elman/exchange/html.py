"""One HTML file that runs a language model in a browser: the weights are inside, and nothing is loaded."""

from __future__ import annotations

import base64
import json
import zlib
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from elman.data import BPEVocabulary
from elman.errors import ElmanError
from elman.exchange.cells import unit_kind
from elman.exchange.model_file import ExportResult, refuse_existing, write_new
from elman.exchange.quantize import Precision, store
from elman.models import runs
from elman.models.evaluation import mean_loss
from elman.network import HeadNetwork, Parameters, Stack
from elman.training.run import Run

UNITS = {"char": "characters", "byte": "bytes", "word": "words", "bpe": "subwords"}
SCRIPTS = ("random.js", "model.js", "page.js")


class Measured(NamedTuple):
    """Loss on the validation text in nats per token, of the weights before and after storing; or why it is unknown."""

    original: float | None = None
    stored: float | None = None
    why_not: str = ""


def export_html(
    run: str | Path, out: str | Path, *, precision: Precision = "float32", force: bool = False
) -> ExportResult:
    """Export the best language model of a run as one HTML page that writes text in a browser, offline.

    Parameters
    ----------
    run : str or Path
        The run folder.
    out : str or Path
        The .html file to write.
    precision : {"float32", "float16", "int8"}
        How weights are stored in the page. The page says what that costs on the validation text.
    force : bool
        Replace the file if it exists.

    Returns
    -------
    ExportResult

    Examples
    --------
    >>> import elman
    >>> from elman.exchange import export_html
    >>> model = elman.LanguageModel(hidden=8, steps=5).fit("hello world\\n" * 40, listeners=[])
    >>> run = model.save("runs/hello")
    >>> export_html("runs/hello", "hello.html", precision="int8").paths[0].name
    'hello.html'
    """
    out = Path(out)
    refuse_existing(out, force=force)
    opened, fitted = runs.load(Path(run), "lm")
    network, parameters = _without_embedding(fitted.head_network, fitted.parameters)
    vocabulary = fitted.spec.vocabulary
    stored = store(parameters, precision)
    measured = _measure(opened, network, parameters, stored.parameters)
    corpus = opened.config.get("data")
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
        "vocabulary": None if vocabulary.kind in ("byte", "bpe") else vocabulary.tokens,
        "merges": vocabulary.merges if isinstance(vocabulary, BPEVocabulary) else None,
    }
    size = f"{stack.layers} × {stack.hidden}" if stack.layers > 1 else f"{stack.hidden}"
    units = unit_kind(stack.cell.name, stack.cell.activation)
    words = {
        "title": escape(name if isinstance(name, str) and name else opened.path.resolve().name),
        "network": f"A recurrent network trained on this text: {size} {units} units, "
        f"{parameters.buffer.size:,} weights, {len(vocabulary)} different {UNITS[vocabulary.kind]}.",
        "tokens": UNITS[vocabulary.kind],
        "measured": _in_words(measured, precision, UNITS[vocabulary.kind]),
        "same": " as with <code>elman sample</code>" if precision == str(parameters.buffer.dtype) == "float32" else "",
        "version": version("elman"),
    }
    path = write_new(out, _page(words, facts, stored.data), force=force)
    return ExportResult([path], "Open it in a browser: it writes without a network.")


def _without_embedding(network: HeadNetwork, parameters: Parameters) -> tuple[HeadNetwork, Parameters]:
    """The same network for one-hot tokens: W_xh has a row for each token, which is its embedding times W_xh."""
    stack = network.stack
    if not stack.embedding:
        return network, parameters
    plain = HeadNetwork(Stack(stack.inputs, stack.hidden, stack.layers, cell=stack.cell), network.outputs)
    p = Parameters(plain.shapes, parameters.buffer.dtype)
    for name in plain.shapes:
        first = name == "layers.0.W_xh"
        p[name][...] = parameters["embedding.W"] @ parameters[name] if first else parameters[name]
    return plain, p


def _measure(run: Run, network: HeadNetwork, original: Parameters, stored: Parameters) -> Measured:
    try:
        ids = runs.open_text_setup(run).validation
        before = mean_loss(network, original, ids)
        same = original.buffer.dtype == stored.buffer.dtype and (original.buffer == stored.buffer).all()
        return Measured(before, before if same else mean_loss(network, stored, ids))
    except (ElmanError, OSError) as error:  # the text is missing or has changed
        return Measured(why_not=str(error))


def _in_words(measured: Measured, precision: str, units: str) -> str:
    if measured.original is None or measured.stored is None:
        return f"<p>The cost of storing weights as {precision} was not measured: the validation text is missing.</p>"
    unit, cost = units.removesuffix("s"), measured.stored - measured.original
    whole = f"The loss on its validation text is {measured.original:.4f} nats per {unit}"
    if not cost:
        return f"<p>{whole}; the page has the same weights, in {precision}.</p>"
    return f"<p>{whole}; as stored here, in {precision}, {measured.stored:.4f} ({cost:+.4f}).</p>"


def _page(words: dict[str, str], facts: dict[str, Any], weights: bytes) -> bytes:
    """The template filled in."""
    folder = files("elman.exchange") / "page"
    parts = words | {
        "style": (folder / "page.css").read_text("utf-8"),
        "script": "".join((folder / name).read_text("utf-8") for name in SCRIPTS),
        # base 85 is shorter than base 64; its < becomes a comma, so that nothing ends the script element early
        "weights": base64.b85encode(zlib.compress(weights, 9)).decode().replace("<", ","),
        "facts": json.dumps(facts, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
    }
    before, *rest = (folder / "page.html").read_text("utf-8").split("{{")
    page = before  # each part is inserted once, so that a token that looks like a placeholder stays as it is
    for piece in rest:
        name, after = piece.split("}}", 1)
        page += parts[name] + after
    return page.encode("utf-8", "backslashreplace")  # of a lone surrogate: \ud800, which JSON reads
