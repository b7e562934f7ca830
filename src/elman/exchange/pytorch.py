"""PyTorch state dicts: nn.RNN, nn.GRU or nn.LSTM with nn.Linear and nn.Embedding. They are written as safetensors
files, without a pickle and without torch. The names of our parameters and of their tensors:

    layers.0.W_xh   rnn.weight_ih_l0                  head.W_hy             linear.weight
    layers.0.W_hh   rnn.weight_hh_l0                  head.b_y              linear.bias
    layers.0.b_h    rnn.bias_ih_l0, bias_hh_l0        embedding.W           embedding.weight
    layers.0.h0     h0 (layers · directions, 1, H)    bridge.W_ch, b_h      bridge.weight, bridge.bias
    attention.W_q, W_k, w_a, W_c                      attention.query, key, score and combine.weight

The tensor of a matrix is its transpose, except that of the embedding. W_fh, the input-feeding weights of a decoder with
attention, follows W_xh in the first weight_ih of the decoder, whose input is [x, h_tilde].

The tensors of a layer depend on its cell (cells.py). In an encoder-decoder network the names of the layers, the
embedding and h0 begin with `encoder.` or `decoder.`. A file of torch.save is a pickle: torch itself opens it, with
weights_only=True. No other module imports torch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from elman.errors import CheckpointError, MissingExtraError
from elman.exchange.cells import FORMATS, TENSORS, format_of, known_modules, unknown_activation
from elman.exchange.foreign_vocabulary import refuse_options, with_vocabulary
from elman.exchange.model_file import (
    KEY,
    ExportResult,
    PortableModel,
    check_names,
    checked_model,
    first_few,
    load_run,
    read_metadata,
    save_run,
    write_new,
)
from elman.maths.arrays import Array
from elman.models.fitted import build_network
from elman.network import Network, Stack
from elman.training.arrays import read_arrays

OTHERS = {  # parameters outside the stacks of layers: the names of their tensors
    "head.W_hy": "linear.weight",
    "head.b_y": "linear.bias",
    "bridge.W_ch": "bridge.weight",
    "bridge.b_h": "bridge.bias",
    "attention.W_q": "attention.query.weight",
    "attention.W_k": "attention.key.weight",
    "attention.w_a": "attention.score.weight",
    "attention.W_c": "attention.combine.weight",
}
FEEDING = "decoder.rnn.weight_ih_l0"  # with attention W_xh and W_fh, (G·H, E + H); E is the size of an input
# a tensor of a recurrent module; groups: prefix, weight or bias, ih or hh, layer, reverse direction
RNN_TENSOR = re.compile(r"(.*?)(weight|bias)_(ih|hh)_l(\d{1,4})(_reverse)?")
MIN_TORCH = (2, 6)  # in older versions weights_only does not prevent code execution (CVE-2025-32434)
FLOATS = {"F16", "F32", "F64"}
MAX_HEADER = 100_000_000  # bytes, the limit of safetensors itself; the header may contain a vocabulary


# -- writing ----------------------------------------------------------------------------------------------------------


def export_torch(run: str | Path, out: str | Path, *, force: bool = False) -> ExportResult:
    """Export the best model of a run as a PyTorch state dict in a safetensors file.

    Its modules are `rnn` (nn.RNN, nn.GRU or nn.LSTM), `linear` (nn.Linear) and, where there is one, `embedding`;
    docs/translation.md shows those of a translator. The numbers keep the run's dtype. torch is not needed.

    Parameters
    ----------
    run : str or Path
        The run folder.
    out : str or Path
        The .safetensors file to write.
    force : bool
        Replace the file if it exists.

    Returns
    -------
    ExportResult

    Examples
    --------
    >>> import elman
    >>> from elman.exchange import export_torch
    >>> model = elman.LanguageModel(hidden=8, steps=5).fit("hello world\\n" * 40, listeners=[])
    >>> folder = model.save("runs/hello")
    >>> export_torch("runs/hello", "hello.safetensors").paths[0].name
    'hello.safetensors'
    """
    model = load_run(Path(run))
    state = to_torch(model.network, model.parameters)
    # one entry of metadata: safetensors writes several in a random order
    data = save({name: np.ascontiguousarray(array) for name, array in state.items()}, {KEY: model.metadata()})
    what = f"A state dict for nn.{format_of(model.network.stacks[0].cell).name} and nn.Linear: {', '.join(state)}."
    return ExportResult([write_new(Path(out), data, force=force)], what)


# -- reading ----------------------------------------------------------------------------------------------------------


def import_torch(
    file: str | Path,
    out: str | Path,
    *,
    vocabulary: str | Path | None = None,
    activation: str | None = None,
    force: bool = False,
) -> Path:
    """Make a run from a PyTorch state dict.

    A file that `export_torch` wrote gives the same model, bit for bit, whatever its task. A state dict of another
    project must be a language model: nn.RNN, nn.GRU or nn.LSTM, nn.Linear, and possibly nn.Embedding.

    Parameters
    ----------
    file : str or Path
        A .safetensors file, or a .pt or .pth file of torch.save, which needs torch 2.6 or newer.
    out : str or Path
        The run folder to write.
    vocabulary : str or Path, optional
        For files of other projects: a vocabulary.json, a JSON list of characters in the order of their ids, a text with
        each character once, in that order, or the training text if the ids are in the order of its sorted characters.
    activation : {"tanh", "relu"}, optional
        For files of other projects: the nonlinearity of nn.RNN; tanh by default.
    force : bool
        Replace the folder if it is a run that is not being trained.

    Returns
    -------
    Path
        The run folder.

    Examples
    --------
    >>> import elman
    >>> from elman.exchange import export_torch, import_torch
    >>> model = elman.LanguageModel(hidden=8, steps=5).fit("hello world\\n" * 40, listeners=[])
    >>> folder = model.save("runs/first")
    >>> file = export_torch("runs/first", "first.safetensors").paths[0]
    >>> again = elman.LanguageModel.load(import_torch(file, "runs/again"))
    >>> again.sample(20, seed=1) == model.sample(20, seed=1)
    True
    """
    vocabulary_file = None if vocabulary is None else Path(vocabulary)
    return save_run(
        read_torch(Path(file), activation=activation, vocabulary=vocabulary_file), Path(out), force=force
    ).path


def read_torch(path: Path, *, activation: str | None = None, vocabulary: Path | None = None) -> PortableModel:
    """The model in a file."""
    if path.suffix in (".pt", ".pth"):
        state, metadata = read_pt(path), None
    else:
        state, metadata = _read_safetensors(path)
    if metadata is None:
        parameters, cell = from_other_module(path, state)
        return with_vocabulary(path, parameters, cell, activation or "tanh", vocabulary)
    refuse_options(path, activation=activation, vocabulary=vocabulary)
    config, spec = read_metadata(path, metadata)
    return checked_model(path, from_torch(path, state, build_network(spec, config)), config, spec)


def _read_safetensors(path: Path) -> tuple[dict[str, Array], str | None]:
    """The arrays, and the metadata that export_torch wrote; None if another project wrote the file."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        text = file.read(size) if size <= MAX_HEADER else b""
    try:
        header: Any = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise CheckpointError(f"{path} is not a safetensors file", do="A file of torch.save must be named .pt or .pth.")
    metadata = header.pop("__metadata__", None)
    dtypes = {str(entry.get("dtype")) if isinstance(entry, dict) else "none" for entry in header.values()}
    if unknown := sorted(dtypes - FLOATS):
        expected, do = f"dtypes {', '.join(sorted(FLOATS))}", "Save model.float().state_dict() instead."
        raise CheckpointError(f"{path}", expected=expected, got=", ".join(unknown), do=do)
    ours = metadata.get(KEY) if isinstance(metadata, dict) else None
    return read_arrays(path, max_header=MAX_HEADER), ours if isinstance(ours, str) else None


# -- names ------------------------------------------------------------------------------------------------------------


def to_torch(network: Network, p: Mapping[str, Array]) -> dict[str, Array]:
    """The state dict of a network."""
    for cell in (stack.cell for stack in network.stacks):
        row = format_of(cell)
        if cell.activation not in row.torch_activations:
            do = "Export it as onnx or npz."
            raise unknown_activation(f"PyTorch's nn.{row.name}", cell, " or ".join(row.torch_activations), do=do)
    return _state_dict(network, p)


def from_torch(path: Path, state: Mapping[str, Array], network: Network) -> dict[str, Array]:
    """The parameters of a network, from a state dict that to_torch has made; CheckpointError for any other."""
    # views that take no memory, because only the shapes are needed and the metadata of a file may claim any size
    views = {name: np.broadcast_to(np.float32(0), shape) for name, shape in network.shapes.items()}
    expected = {name: array.shape for name, array in _state_dict(network, views).items()}
    check_names(path, "tensors", state, expected)
    for name, shape in expected.items():
        if state[name].shape != shape:
            raise CheckpointError(f"{path}, {name}", expected=f"shape {shape}", got=state[name].shape)
    p = {ours: state[theirs].T for ours, theirs in OTHERS.items() if theirs in state}
    if "attention.w_a" in p:
        p["attention.w_a"] = p["attention.w_a"][:, 0]
    if "attention.W_fh" in network.shapes:
        W_xh, p["attention.W_fh"] = np.split(state[FEEDING].T, [-network.shapes["attention.W_fh"][0]])
        state = {**state, FEEDING: W_xh.T}
    for stack in network.stacks:
        cell, prefix = stack.cell, stack.prefix
        if stack.embedding:
            p[f"{prefix}embedding.W"] = state[f"{prefix}embedding.weight"]
        for number, (name, end) in enumerate(_layers(stack)):
            tensors = {kind: state[f"{prefix}rnn.{kind}{end}"] for kind in TENSORS}
            p |= {f"{name}.{short}": array for short, array in format_of(cell).from_torch(tensors).items()}
            if stack.learned_state:
                p |= {f"{name}.{part}0": state[f"{prefix}{part}0"][number, 0] for part in cell.state_names}
    return p


def _state_dict(network: Network, p: Mapping[str, Array]) -> dict[str, Array]:
    state: dict[str, Array] = {}
    for stack in network.stacks:
        cell, prefix = stack.cell, stack.prefix
        if stack.embedding:
            state[f"{prefix}embedding.weight"] = p[f"{prefix}embedding.W"]
        for name, end in _layers(stack):
            weights = {short: p[f"{name}.{short}"] for short in cell.shapes(0, stack.hidden)}
            tensors = format_of(cell).to_torch(weights)
            state |= {f"{prefix}rnn.{kind}{end}": array for kind, array in tensors.items()}
        if stack.learned_state:
            for part in cell.state_names:
                rows = np.stack([p[f"{name}.{part}0"] for name in stack.names])
                state[f"{prefix}{part}0"] = rows[:, np.newaxis]  # (L·D, 1, H)
    if "attention.W_fh" in p:
        state[FEEDING] = np.concatenate([state[FEEDING], p["attention.W_fh"].T], axis=1)
    others = {theirs: p[ours].T for ours, theirs in OTHERS.items() if ours in p}
    return state | {
        name: array[np.newaxis] if name == OTHERS["attention.w_a"] else array for name, array in others.items()
    }


def _layers(stack: Stack) -> Iterator[tuple[str, str]]:
    """Our name of each layer and direction, and how the names of its tensors end: `layers.0.reverse`, `_l0_reverse`."""
    D = len(stack.directions)
    for number, name in enumerate(stack.names):
        yield name, f"_l{number // D}{'_reverse' if stack.directions[number % D] else ''}"


# -- modules of other projects ----------------------------------------------------------------------------------------


def from_other_module(path: Path, state: Mapping[str, Array]) -> tuple[dict[str, Array], str]:
    """The parameters of a language model and its cell, from a state dict of another project.

    An embedding is multiplied with W_xh: the product is our W_xh, one row per token.
    """
    cells = {name: match for name in state if (match := RNN_TENSOR.fullmatch(name))}
    module = known_modules()
    if not cells:
        raise _refused(path, f"the weights of {module} (rnn.weight_ih_l0, …)", first_few(state))
    if len(parts := sorted({match[1] for match in cells.values()})) > 1:
        raise _refused(path, f"one {module}", ", ".join(parts))
    if any(match[5] for match in cells.values()):
        raise _refused(path, "layers that read forwards only, as a language model must", "both directions")
    p: dict[str, Array] = {}
    kinds, hidden = set(), 0
    for layer in range(len({match[4] for match in cells.values()})):
        ih, hh = (state.get(f"{parts[0]}weight_{part}_l{layer}") for part in ("ih", "hh"))
        if ih is None or hh is None or ih.ndim != 2 or hh.ndim != 2:
            raise _refused(path, f"matrices weight_ih_l{layer} and weight_hh_l{layer}", first_few(cells))
        hidden = hh.shape[1]
        cell = next((name for name, row in FORMATS.items() if len(row.gates) * hidden == len(hh)), None)
        if cell is None:
            raise _refused(path, module, f"{parts[0]}weight_hh_l{layer} of shape {hh.shape}")
        kinds.add(cell)
        none = np.zeros(len(hh), hh.dtype)
        biases = {f"bias_{part}": state.get(f"{parts[0]}bias_{part}_l{layer}", none) for part in ("ih", "hh")}
        if any(bias.shape != none.shape for bias in biases.values()):
            shapes = ", ".join(str(bias.shape) for bias in biases.values())
            raise _refused(path, f"biases of shape {none.shape}", shapes)
        weights = FORMATS[cell].from_torch({"weight_ih": ih, "weight_hh": hh, **biases})
        p |= {f"layers.{layer}.{name}": array for name, array in weights.items()}
    if len(kinds) > 1:
        raise _refused(path, "one cell in all layers", ", ".join(sorted(kinds)))
    embedding, W_hy, b_y = _head(path, {name: array for name, array in state.items() if name not in cells}, hidden)
    p["head.W_hy"], p["head.b_y"] = W_hy.T, b_y
    if embedding is not None:
        if embedding.shape[1:] != p["layers.0.W_xh"].shape[:1]:
            shapes = f"shape {embedding.shape} before W_xh of shape {p['layers.0.W_xh'].shape}"
            raise _refused(path, "an embedding as wide as the first layer's input", shapes)
        if len(embedding) != len(W_hy):  # checked before the product, which could be of any size
            raise _refused(path, f"an embedding of {len(W_hy)} tokens, as the nn.Linear has", str(len(embedding)))
        p["layers.0.W_xh"] = embedding @ p["layers.0.W_xh"]  # (V, G·H)
    return p, kinds.pop()


def _head(path: Path, rest: Mapping[str, Array], hidden: int) -> tuple[Array | None, Array, Array]:
    """The embedding, if there is one, and weight and bias of nn.Linear. Any other tensor is an error."""
    embeddings = [name for name, array in rest.items() if array.ndim == 2 and "emb" in name.lower()]
    heads = [name for name, array in rest.items() if array.ndim == 2 and name not in embeddings]
    if len(heads) != 1 or len(embeddings) > 1 or rest[heads[0]].shape[1] != hidden:
        expected = f"besides {known_modules()} one nn.Linear of {hidden} inputs and at most one nn.Embedding"
        raise _refused(path, expected, first_few(rest))
    W_hy = rest[heads[0]]
    bias = heads[0].removesuffix("weight") + "bias"
    if unknown := sorted(set(rest) - {*embeddings, *heads, bias}):
        raise _refused(path, f"nothing besides nn.Embedding, {known_modules()} and nn.Linear", first_few(unknown))
    b_y = rest.get(bias, np.zeros(len(W_hy), W_hy.dtype))
    if b_y.shape != W_hy.shape[:1]:
        raise _refused(path, f"{bias} of shape {W_hy.shape[:1]}", str(b_y.shape))
    return (rest[embeddings[0]] if embeddings else None), W_hy, b_y


def _refused(path: Path, expected: str, got: str) -> CheckpointError:
    return CheckpointError(f"{path}", expected=expected, got=got)


# -- files of torch.save ----------------------------------------------------------------------------------------------


def read_pt(path: Path) -> dict[str, Array]:
    """The tensors of a state dict, alone in the file or one level down, for example next to an optimizer state."""
    try:
        import torch
    except ImportError:
        raise MissingExtraError(
            f"{path} is a pickle, which only PyTorch opens safely",
            do="Install it: pip install torch. Or save with safetensors.torch.save_file(model.state_dict(), FILE).",
        ) from None
    if tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) < MIN_TORCH:
        raise MissingExtraError(
            f"{path} is a pickle, and PyTorch runs code from such a file",
            expected=f"PyTorch {'.'.join(map(str, MIN_TORCH))} or newer, whose weights_only is safe",
            got=torch.__version__,
            do="Update it: pip install --upgrade torch. Or save with safetensors.torch.save_file.",
        )
    try:
        loaded: Any = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # torch raises many kinds
        why = str(error).partition("\n")[0][:200] or "it is empty"
        raise CheckpointError(
            f"{path} contains more than weights, or is damaged: {why}", do="Save model.state_dict(), not the model."
        ) from None
    for candidate in (loaded, *(loaded.values() if isinstance(loaded, Mapping) else ())):
        if isinstance(candidate, Mapping) and candidate and all(map(torch.is_tensor, candidate.values())):
            return {str(name): _array(path, str(name), tensor) for name, tensor in candidate.items()}
    raise CheckpointError(f"{path}", expected="a state dict", got=type(loaded).__name__)


def _array(path: Path, name: str, tensor: Any) -> Array:
    try:
        claimed, held = tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()
        if claimed > held:  # an expanded tensor: a small file could claim any amount of memory
            got = f"{held} for shape {tuple(tensor.shape)}"
            do = "Save contiguous tensors."
            raise CheckpointError(f"{path}, {name}", expected=f"{claimed} bytes of numbers", got=got, do=do)
        array: Array = (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy(force=True)
    except (TypeError, RuntimeError):  # NumPy has no sparse or quantized tensors, and no 8-bit floats
        got = f"{tensor.layout} of {tensor.dtype}".replace("torch.", "")
        expected, do = "a dense tensor of a dtype that NumPy has", "Save those of model.float().state_dict() instead."
        raise CheckpointError(f"{path}, {name}", expected=expected, got=got, do=do) from None
    return array
