"""One HTML file that runs a language model or a translator in a browser. It contains the weights."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Sequence
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from elman.config import SEQUENCE_TASKS
from elman.data import BPEVocabulary
from elman.data.inputs import TokenInputs
from elman.data.symbols import SPECIAL
from elman.data.targets import TokenTargets
from elman.errors import DataError, ElmanError, RunError
from elman.exchange.cells import unit_kind
from elman.exchange.model_file import ExportResult, refuse_existing, write_new
from elman.exchange.quantize import Precision, store
from elman.models import runs
from elman.models.evaluation import evaluate_examples, mean_loss
from elman.models.fitted import FittedModel
from elman.models.sampling import max_length
from elman.network import EncoderDecoder, HeadNetwork, Network, Parameters, Stack
from elman.training.run import Run

TOKEN_NAMES = {"char": "characters", "byte": "bytes", "word": "words", "bpe": "subwords"}
TEXT_SCRIPTS = "load.js", "random.js", "model.js", "page.js"
TRANSLATOR_SCRIPTS = "load.js", "model.js", "translate.js", "translate_page.js"


class Measured(NamedTuple):
    """The validation loss in nats per token, of the original and of the stored weights; None if it is unknown."""

    original: float | None = None
    stored: float | None = None


def export_html(
    run: str | Path, out: str | Path, *, precision: Precision = "float32", force: bool = False
) -> ExportResult:
    """Export the best model of a run as one HTML page that generates text or translates in a browser, offline.

    Parameters
    ----------
    run : str or Path
        The run folder of a language model or of a translator of texts.
    out : str or Path
        The .html file to write.
    precision : {"float32", "float16", "int8"}
        How weights are stored in the page. The page shows how much this changes the validation loss.
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
    >>> folder = model.save("runs/hello")
    >>> export_html("runs/hello", "hello.html", precision="int8").paths[0].name
    'hello.html'
    """
    out = Path(out)
    refuse_existing(out, force=force)
    known = Run(Path(run)).config.get("task")
    if known in SEQUENCE_TASKS and known != "translate":
        raise RunError(
            f"{run}",
            expected="a language model or a translator, because an HTML page runs no other model",
            got=f"a model to {known}",
            do="Export it to onnx, torch or npz instead.",
        )
    task = "translate" if known == "translate" else "lm"
    opened, fitted = runs.load(Path(run), task)
    page = _translator_page if task == "translate" else _text_page
    path = write_new(out, page(opened, fitted, precision), force=force)
    does = "translates" if task == "translate" else "generates text"
    return ExportResult([path], f"Open it in a browser: it {does} offline.")


def _text_page(run: Run, fitted: FittedModel, precision: Precision) -> bytes:
    network, parameters, vocabulary = fitted.head_network, fitted.parameters, fitted.spec.vocabulary
    stored = store(parameters, precision)
    measured = _measure(run, network, parameters, stored.parameters)
    stack, token_name = network.stack, TOKEN_NAMES[vocabulary.kind]
    facts = {
        "name": _name(run),
        **_vocabulary(vocabulary.kind, vocabulary.tokens, vocabulary),
        "end": vocabulary.end,
        "token_name": token_name,
        **_network(stack, precision),
        "loss": measured.original,
        "loss_as_stored": measured.stored,
        "arrays": network.shapes,
    }
    texts = {
        "network": f"A recurrent language model: {_size(stack)}, {parameters.buffer.size:,} parameters, "
        f"{len(vocabulary)} different {token_name}.",
        "tokens": token_name,
        "measured": _loss_sentence(measured, precision, token_name),
        "same": " as with <code>elman sample</code>" if precision == str(parameters.buffer.dtype) == "float32" else "",
    }
    return _page("page.html", TEXT_SCRIPTS, run, texts, facts, stored.data)


def _translator_page(run: Run, fitted: FittedModel, precision: Precision) -> bytes:
    network, inputs, targets = fitted.network, fitted.spec.inputs, fitted.spec.targets
    if not isinstance(inputs, TokenInputs):
        raise RunError(f"{run.path} reads numbers", expected="a translator of texts", do="Export it to ONNX instead.")
    assert isinstance(network, EncoderDecoder)
    assert network.encoder is not None
    assert isinstance(targets, TokenTargets)
    stored = store(fitted.parameters, precision)
    measured = _measure(run, network, fitted.parameters, stored.parameters)
    source, target = (_vocabulary(s.kind, s.tokens[len(SPECIAL) :], s.bpe) for s in (inputs.symbols, targets.symbols))
    facts = {
        "name": _name(run),
        **_network(network.decoder, precision),
        "directions": len(network.encoder.directions),
        "parts": network.decoder.cell.parts,
        "source": source,
        "target": target,
        "limit": max_length(targets.symbols),
        "loss": measured.original,
        "loss_as_stored": measured.stored,
        "arrays": network.shapes,
    }
    attention = " with attention" if network.attention else ""
    kind, where = "recurrent", "each of them"
    if len(network.encoder.directions) > 1:
        kind, where = "bidirectional", "the decoder and in each direction of the encoder"
    texts = {
        "network": f"A {kind} encoder and a decoder{attention}: {_size(network.decoder)} in {where}, "
        f"{fitted.parameters.buffer.size:,} parameters.",
        "measured": _loss_sentence(measured, precision, "tokens"),
    }
    return _page("translate.html", TRANSLATOR_SCRIPTS, run, texts, facts, stored.data)


def _name(run: Run) -> object:
    data = run.config.get("data")
    return data.get("name") if isinstance(data, dict) else None


def _vocabulary(kind: str, tokens: Sequence[str], bpe: object) -> dict[str, Any]:
    """The arguments of the class Vocabulary of page/model.js."""
    return {
        "tokens": kind,
        "vocabulary": None if kind in ("byte", "bpe") else tokens,
        "merges": bpe.merges if isinstance(bpe, BPEVocabulary) else None,
    }


def _network(stack: Stack, precision: Precision) -> dict[str, Any]:
    return {
        "cell": stack.cell.name,
        "activation": stack.cell.activation,
        "layers": stack.layers,
        "hidden": stack.hidden,
        "embedding": stack.embedding,
        "precision": precision,
    }


def _size(stack: Stack) -> str:
    size = f"{stack.layers} × {stack.hidden}" if stack.layers > 1 else f"{stack.hidden}"
    return f"{size} {unit_kind(stack.cell.name, stack.cell.activation)} units"


def _measure(run: Run, network: Network, original: Parameters, stored: Parameters) -> Measured:
    try:
        loss = _validation_loss(run, network)
        before = loss(original)
        same = original.buffer.dtype == stored.buffer.dtype and (original.buffer == stored.buffer).all()
        return Measured(before, before if same else loss(stored))
    except (ElmanError, OSError):  # there are none, or they have changed
        return Measured()


def _validation_loss(run: Run, network: Network) -> Callable[[Parameters], float]:
    """A function that computes the validation loss of parameters."""
    if isinstance(network, HeadNetwork):
        ids = runs.open_text_setup(run).validation
        return lambda p: mean_loss(network, p, ids)
    setup = runs.open_setup(run)
    assert isinstance(setup, runs.ExampleSetup)
    if not len(setup.split.validation):
        raise DataError("the validation part", expected="at least one example", got="none")
    held_out = setup.examples.take(setup.split.validation)
    return lambda p: evaluate_examples(network, p, held_out).loss


def _loss_sentence(measured: Measured, precision: str, token_name: str) -> str:
    if measured.original is None or measured.stored is None:
        return "<p>The validation loss was not measured: there are no validation data, or they have changed.</p>"
    token, cost = token_name.removesuffix("s"), measured.stored - measured.original
    whole = f"The validation loss is {measured.original:.4f} nats per {token}"
    if not cost:
        return f"<p>{whole}; with the weights as stored here, in {precision}, it is the same.</p>"
    as_stored = f"{measured.stored:.4f} ({cost:+.4f})"
    return f"<p>{whole}; with the weights as stored here, in {precision}, it is {as_stored}.</p>"


def _page(
    template: str, scripts: Sequence[str], run: Run, texts: dict[str, str], facts: dict[str, Any], weights: bytes
) -> bytes:
    """The HTML page, made from its template."""
    folder, name = files("elman.exchange") / "page", facts["name"]
    parts = texts | {
        "title": escape(name if isinstance(name, str) and name else run.path.resolve().name),
        "version": version("elman"),
        "style": (folder / "page.css").read_text("utf-8"),
        "script": "".join((folder / name).read_text("utf-8") for name in scripts),
        # base 85 is shorter than base 64; its < becomes a comma, so that nothing ends the script element early
        "weights": base64.b85encode(zlib.compress(weights, 9)).decode().replace("<", ","),
        "facts": json.dumps(facts, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
    }
    before, *rest = (folder / template).read_text("utf-8").split("{{")
    page = before  # not str.replace: a token of the vocabulary may look like a placeholder
    for piece in rest:
        part, after = piece.split("}}", 1)
        page += parts[part] + after
    return page.encode("utf-8", "backslashreplace")  # a lone surrogate becomes \ud800, which JSON reads
