"""A run as an ONNX file, or as two: what writes a sequence has one that gives its state, and one that takes a step.

float64 becomes float32: no runtime has a float64 RNN.
"""

from __future__ import annotations

from pathlib import Path

from elman.data.inputs import NumberInputs
from elman.data.targets import Labels, Numbers
from elman.exchange.model_file import KEY, Portable, Wrote, from_run, refuse_existing
from elman.exchange.onnx_graph import Graph
from elman.exchange.onnx_models import Scale, head_graph, start_graph, text_graph
from elman.models.task_spec import Terms
from elman.network import EncoderDecoder, HeadNetwork
from elman.training.storage import write_files


def write_onnx(run: Path, out: Path, *, force: bool = False) -> Wrote:
    model = from_run(run).single()
    files = {}
    signatures = []
    for part, graph in graphs(model).items():
        path = out.with_suffix(f".{part}{out.suffix}") if part else out
        refuse_existing(path, force=force)
        files[path] = graph.to_bytes({KEY: model.facts()})
        signatures.append(f"{part} {graph.signature()}".strip())
    write_files(files)  # both or none: one of two is of no use
    return Wrote(list(files), f"Any ONNX runtime runs it: {'; '.join(signatures)}.")


def graphs(model: Portable) -> dict[str, Graph]:
    """The graph of a model, or its parts encoder and decoder."""
    p, network, terms = model.parameters, model.network, model.terms
    if isinstance(network, HeadNetwork) and isinstance(terms, Terms):
        return {"": head_graph(network, p, scale=_scale(terms.inputs), told=_scale(terms.targets))}
    if isinstance(network, EncoderDecoder) and isinstance(terms, Terms):
        start = start_graph(
            network,
            p,
            labels=isinstance(terms.inputs, Labels),
            scale=_scale(terms.inputs),
            reverse=network.encoder is not None and model.config.options()["reverse_source"],
        )
        return {"encoder": start, "decoder": text_graph(network, p)}
    return {"": text_graph(network, p)}


def _scale(numbers: object) -> Scale | None:
    return (numbers.mean, numbers.deviation) if isinstance(numbers, NumberInputs | Numbers) else None
