"""A model from an ONNX file.

The graph of a language model, stacked recurrent operators and a linear output, is followed from the logits back to the
token ids. Only the operators listed here may occur on the way; any other operator is an error that names it, because
ignoring it would give another model. Models of other tasks are read only from files of export_onnx: the weights have
our names there, and the graph must be the one that export_onnx writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from elman.config import Config
from elman.errors import CheckpointError
from elman.exchange.cells import FORMATS, format_of, known_names
from elman.exchange.foreign_vocabulary import refuse_options, with_vocabulary
from elman.exchange.model_file import KEY, PortableModel, checked_model, read_metadata, save_run
from elman.exchange.onnx_graph import require_onnx
from elman.exchange.onnx_write import graphs
from elman.maths.arrays import Array
from elman.maths.cells import CELLS
from elman.models.fitted import build_network
from elman.models.task_spec import TaskSpec
from elman.network import Network

LAYOUT = {"Identity", "Squeeze", "Unsqueeze", "Transpose", "Reshape", "Flatten"}  # only rearrange numbers
STATE = LAYOUT | {"Split", "Slice", "Gather", "Expand", "Cast"}  # may also be between an initial state and its layer
SIDE = {"Concat", "Shape", "Constant", "ConstantOfShape"}  # compute shapes and initial states; _back stops at these
# Every node with one of these operators, and every recurrent one, must be on the path from the tokens to the logits.
PARTS = {"MatMul", "Gemm", "Add", "OneHot"}
STANDARD = ("", "ai.onnx")  # the domains of ONNX's own operators
NEVER_EMPTY = ("activations", "perm")  # attributes that must not be empty lists


def import_onnx(
    file: str | Path, out: str | Path, *, vocabulary: str | Path | None = None, force: bool = False
) -> Path:
    """Make a run from an ONNX file.

    A file that `export_onnx` wrote gives the same model, bit for bit (`export_onnx` rounds float64 to float32),
    whatever its task; if it wrote an encoder and a decoder, either file stands for both. A file of another project must
    be a language model: RNN, GRU or LSTM operators and a linear output. Needs the extra `onnx`.

    Parameters
    ----------
    file : str or Path
        The ONNX file.
    out : str or Path
        The run folder to write.
    vocabulary : str or Path, optional
        For files of other projects: a vocabulary.json, a JSON list of characters in the order of their ids, a text with
        each character once, in that order, or the training text if the ids are in the order of its sorted characters.
    force : bool
        Replace the folder if it is a run that is not being trained.

    Returns
    -------
    Path
        The run folder.

    Examples
    --------
    >>> import elman
    >>> from elman.exchange import export_onnx, import_onnx
    >>> model = elman.LanguageModel(hidden=8, steps=5).fit("hello world\\n" * 40, listeners=[])
    >>> folder = model.save("runs/hello")
    >>> file = export_onnx("runs/hello", "hello.onnx").paths[0]
    >>> again = elman.LanguageModel.load(import_onnx(file, "runs/again"))
    >>> again.sample(20, seed=1) == model.sample(20, seed=1)
    True
    """
    vocabulary_file = None if vocabulary is None else Path(vocabulary)
    return save_run(read_onnx(Path(file), vocabulary=vocabulary_file), Path(out), force=force).path


def read_onnx(path: Path, *, vocabulary: Path | None = None) -> PortableModel:
    """The model in a file, or in two files (encoder and decoder); `path` may be either of them."""
    onnx = require_onnx()
    path, *others = _files(path)
    model, reader = _load(path, onnx)
    metadata = {entry.key: entry.value for entry in model.metadata_props}.get(KEY)
    if metadata is None:
        return with_vocabulary(path, *reader.parameters(), vocabulary)
    refuse_options(path, vocabulary=vocabulary)
    config, spec = read_metadata(path, metadata)
    if spec.task != "lm":
        return _sequence_model(path, [model, *(_load(other, onnx)[0] for other in others)], config, spec, onnx)
    parameters, *found = reader.parameters(with_embedding=bool(config.embedding))
    expected = [config.cell, config.activation]
    if found != expected:
        raise CheckpointError(f"{path} is damaged", expected=" with ".join(expected), got=" with ".join(found))
    return checked_model(path, parameters, config, spec)


def _files(path: Path) -> list[Path]:
    """The file; or encoder and decoder, in this order, from the path of either or that given to export_onnx."""
    stem = path.with_suffix("")
    if not path.exists() and stem.with_suffix(f".encoder{path.suffix}").exists():
        stem = stem.with_suffix(".encoder")
    if stem.suffix not in (".encoder", ".decoder"):
        return [path]
    return [stem.with_suffix(f".{part}{path.suffix}") for part in ("encoder", "decoder")]


def _sequence_model(path: Path, models: list[Any], config: Config, spec: TaskSpec, onnx: Any) -> PortableModel:
    """The model in files that export_onnx wrote for another task than lm."""
    network = build_network(spec, config)
    weights = {weight.name: onnx.numpy_helper.to_array(weight) for m in models for weight in m.graph.initializer}
    try:
        parameters = _parameters(network, weights)
    except (KeyError, IndexError, ValueError):
        raise CheckpointError(f"{path} is damaged: weights are missing, or of another shape") from None
    model = checked_model(path, parameters, config, spec)
    expected = [onnx.load_from_string(graph.to_bytes({})).graph for graph in graphs(model).values()]
    if expected != [m.graph for m in models]:
        raise CheckpointError(f"{path}", expected="the operators that elman export writes", got="other operators")
    return model


def _parameters(network: Network, weights: Mapping[str, Array]) -> dict[str, Array]:
    """Our parameters, from the constants of graphs that export_onnx made."""
    p = {name: weights[name] for name in network.shapes if name in weights}
    for stack in network.stacks:
        D, row = len(stack.directions), format_of(stack.cell)
        for number, ours in enumerate(stack.names):
            layer, direction = divmod(number, D)
            name = f"{stack.prefix}layers.{layer}"
            found = row.from_onnx(*(weights[f"{name}.{part}"][direction] for part in "WRB"))
            if layer == 0 and f"{name}.W_xh" in weights:
                found["W_xh"] = np.split(weights[f"{name}.W_xh"], D, axis=1)[direction]  # (V, G·H)
            if stack.learned_state:
                found |= {f"{part}0": weights[f"{name}.{part}0"][direction, 0] for part in stack.cell.state_names}
            p |= {f"{ours}.{short}": array for short, array in found.items()}
    return p


def _load(path: Path, onnx: Any) -> tuple[Any, GraphReader]:
    """The model, which onnx.checker accepts, and a reader of its graph."""
    data = path.read_bytes()
    try:
        model = onnx.load_from_string(data)
        if any(weight.data_location == weight.EXTERNAL for weight in _tensors(model.graph)):
            raise CheckpointError(f"{path} keeps its weights in another file", do="Save it as one file.")
        _refuse_foreign(path, model)
        onnx.checker.check_model(model)
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        return model, GraphReader(path, model.graph, onnx, _widths(inferred))
    except CheckpointError:
        raise
    except Exception as error:  # onnx raises many kinds
        why = str(error).partition("\n")[0][:200] or "it is empty"
        raise CheckpointError(f"{path} is not a valid ONNX file: {why}") from None


def _tensors(graph: Any) -> Iterator[Any]:
    """Every tensor of a graph, including those in the attributes of its nodes."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for attribute in (a for node in graph.node for a in node.attribute):
        yield from (attribute.t, *attribute.tensors)
        for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
            yield from (sparse.values, sparse.indices)
        for inner in (attribute.g, *attribute.graphs) if attribute.HasField("g") or attribute.graphs else ():
            yield from _tensors(inner)


def _refuse_foreign(path: Path, model: Any) -> None:
    """Refuse operators that ONNX does not define: they could compute anything, and onnx.checker ignores them."""
    foreign = {f"{node.domain}.{node.op_type}" for node in model.graph.node if node.domain not in STANDARD}
    foreign |= {f"the file's own {function.name}" for function in model.functions if function.domain in STANDARD}
    if foreign:
        raise CheckpointError(f"{path}", expected="operators of ONNX itself", got=", ".join(sorted(foreign)))


def _widths(graph: Any) -> dict[str, int]:
    """The size of the last axis of each value, where the graph states it."""
    shapes = {v.name: v.type.tensor_type.shape.dim for v in (*graph.input, *graph.value_info, *graph.output)}
    return {name: shape[-1].dim_value for name, shape in shapes.items() if shape and shape[-1].dim_value}


class GraphReader:
    """Reads a language model from a graph; values and their arrays are looked up by name."""

    def __init__(self, path: Path, graph: Any, onnx: Any, widths: dict[str, int]) -> None:
        self.path, self.graph, self.widths, self.to_array = path, graph, widths, onnx.numpy_helper.to_array
        # the node that computes each value; the attributes of each node, by the name of its first output
        self.maker = {name: node for node in graph.node for name in node.output if name}
        self.attributes = {
            node.output[0]: {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute} for node in graph.node
        }
        for node in graph.node:
            for name, value in self.attributes[node.output[0]].items():
                if name in NEVER_EMPTY and not len(value):
                    raise self._refused(f"{node.op_type} with {name}", "an empty list")
        self.constants: dict[str, Array] = {w.name: onnx.numpy_helper.to_array(w) for w in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant" and "value" in self.attributes[node.output[0]]:
                value = self.attributes[node.output[0]]["value"]
                self.constants[node.output[0]] = onnx.numpy_helper.to_array(value)
        self.inputs = {value.name for value in graph.input} - set(self.constants)
        self.passed: list[Any] = []  # the nodes that were found on the path, as parts of the model

    def parameters(self, *, with_embedding: bool = False) -> tuple[dict[str, Array], str, str]:
        """The parameters of the network, its cell and its activation.

        An embedding is multiplied with W_xh, and the product is our W_xh, one row per token; with `with_embedding` it
        is a parameter instead.
        """
        operators = {node.op_type for node in self.graph.node}
        self.cells = {row.name: cell for cell, row in FORMATS.items()}  # our name of a cell, by that of its operator
        parts = PARTS | set(self.cells)
        if unknown := sorted(operators - STATE - SIDE - parts):
            raise self._refused(f"operators {known_names()} and a linear output", ", ".join(unknown))
        W_hy, b_y, value = self._head()
        layers: list[dict[str, Array]] = []  # the last one first
        kinds: dict[str, set[str]] = {"cell": set(), "activation": set()}
        while (rnn := self._made_by(value, *self.cells)) is not None:
            layer, activation = self._layer(rnn)
            layers.append(layer)
            kinds["cell"].add(self.cells[rnn.op_type])
            kinds["activation"].add(activation)
            value = self._back(rnn.input[0], LAYOUT, keep_width=True)
            if self._made_by(value, *self.cells) is not None:
                self._back(rnn.input[0], LAYOUT, keep_time=True)  # only checks the operators between two layers
        if not layers:
            raise self._refused(f"an operator {known_names()} before the linear output", "another input")
        for what, found in kinds.items():
            if len(found) > 1:
                raise self._refused(f"one {what} in all layers", ", ".join(sorted(found)))
        embedding = self._embedding(value)
        p = {"head.W_hy": W_hy, "head.b_y": b_y}
        if embedding is not None:
            if embedding.shape[1:] != layers[-1]["W_xh"].shape[:1]:
                raise self._refused("an embedding as wide as the first layer's input", embedding.shape)
            if len(embedding) != len(b_y):  # checked before the product, which could be of any size
                raise self._refused(f"an embedding for each of the {len(b_y)} tokens of the output", len(embedding))
            if with_embedding:
                p["embedding.W"] = embedding
            else:
                layers[-1]["W_xh"] = embedding @ layers[-1]["W_xh"]
        if unused := [node for node in self.graph.node if node.op_type in parts and node not in self.passed]:
            raise self._refused("one path from the tokens to the logits", f"{unused[0].op_type} outside it")
        p |= {f"layers.{i}.{name}": array for i, layer in enumerate(reversed(layers)) for name, array in layer.items()}
        return p, kinds["cell"].pop(), kinds["activation"].pop()

    def _head(self) -> tuple[Array, Array, str]:
        """W_hy, b_y, and the value that is multiplied with W_hy."""
        ends = {output.name: self.maker.get(self._back(output.name, LAYOUT)) for output in self.graph.output}
        linear = [name for name, end in ends.items() if end is not None and end.op_type in ("Add", "MatMul", "Gemm")]
        if len(linear) != 1:
            raise self._refused("one output that is linear in the states", len(linear))
        value, bias = self._back(linear[0], LAYOUT, keep_width=True), None
        if (add := self._made_by(value, "Add")) is not None:
            constant = [name for name in add.input if name in self.constants]
            rest = [name for name in add.input if name not in self.constants]
            if len(constant) != 1:
                raise self._refused("a constant b_y", f"Add of {len(constant)} constants")
            bias, value = self.constants[constant[0]], self._back(rest[0], LAYOUT, keep_width=True)
        node = self._made_by(value, "MatMul", "Gemm")
        if node is None:
            raise self._refused("MatMul or Gemm before Add", "another operator")
        W = self._constant(node, 1, 2)
        if node.op_type == "Gemm":
            a = self.attributes[node.output[0]]
            if a.get("transA", 0) or a.get("alpha", 1.0) != 1 or a.get("beta", 1.0) != 1 or bias is not None:
                found = [f"{name} = {value}" for name, value in sorted(a.items())]
                found += [] if bias is None else ["an Add after it"]
                raise self._refused("a Gemm that is h @ W_hy + b_y", f"one with {', '.join(found)}")
            W = W.T if a.get("transB", 0) else W
            bias = self._constant(node, 2, 1) if len(node.input) > 2 and node.input[2] else None
        b_y = np.zeros(W.shape[1], W.dtype) if bias is None else bias
        if b_y.shape != W.shape[1:]:
            raise self._refused(f"b_y of shape {W.shape[1:]}", b_y.shape)
        return W, b_y, self._back(node.input[0], LAYOUT, keep_width=True)

    def _layer(self, node: Any) -> tuple[dict[str, Array], str]:
        """The parameters of one recurrent operator, and its activation."""
        a, operator, cell = self.attributes[node.output[0]], node.op_type, self.cells[node.op_type]
        row, parts = FORMATS[cell], len(CELLS[cell].state_names)
        direction = a.get("direction", b"forward").decode("utf-8", "replace")
        if direction != "forward":
            raise self._refused("layers that read forwards only, as a language model must", direction)
        if "clip" in a:
            raise self._refused(f"{operator} without clip", a["clip"])
        for name, value in row.onnx_attributes.items():
            if a.get(name, 0) != value:
                raise self._refused(f"{operator} with {name} = {value}", a.get(name, 0))
        W, R = self._constant(node, 1, 3)[0], self._constant(node, 2, 3)[0]  # (G·H, X), (G·H, H)
        N = len(R)
        if len(W) != N or len(row.gates) * R.shape[1] != N:
            expected = f"{operator} with weights (1, N, inputs) and (1, N, units), N = {len(row.gates)} · units"
            raise self._refused(expected, f"{(1, *W.shape)} and {(1, *R.shape)}")
        B = self._constant(node, 3, 2)[0] if len(node.input) > 3 and node.input[3] else np.zeros(2 * N, R.dtype)
        if len(B) != 2 * N:
            raise self._refused(f"biases of shape (1, {2 * N})", f"(1, {len(B)})")
        for start in filter(None, node.input[5 : 5 + parts]):
            self._check_initial_state(start)
        if more := [name for name in node.input[5 + parts :] if name]:
            raise self._refused(f"{operator} without further inputs", ", ".join(more))
        ours = {theirs: ours for ours, theirs in row.onnx_activations.items()}
        found = tuple(name.decode("utf-8", "replace") for name in a.get("activations", ()))
        found = found or row.onnx_activations["tanh"]
        slope = (a.get("activation_alpha"), a.get("activation_beta"))
        if found not in ours or ("Affine" in found and slope != ([1.0], [0.0])):
            names = ", ".join(map("/".join, ours)).replace("Affine", "Affine (alpha 1, beta 0)")
            raise self._refused(f"an activation of {names}", "/".join(found))
        return row.from_onnx(W, R, B), ours[found]

    def _embedding(self, value: str) -> Array | None:
        """The embedding matrix (V, X) of the tokens; None if they are one-hot."""
        gather, one_hot = self._made_by(value, "Gather"), self._made_by(value, "OneHot")
        if gather is not None:
            embedding = self._constant(gather, 0, 2)
            if self.attributes[value].get("axis", 0) != 0:
                raise self._refused("Gather of rows", "Gather of columns")
            value = self._back(gather.input[1], LAYOUT | {"Cast"})
        elif one_hot is not None:
            values, axis = self._constant(one_hot, 2, 1), self.attributes[value].get("axis", -1)
            if not np.array_equal(values, [0, 1]) or axis not in (-1, 2):
                raise self._refused("OneHot of 0 and 1 along the last axis", f"{values} along {axis}")
            embedding, value = None, self._back(one_hot.input[0], LAYOUT | {"Cast"})
        else:
            embedding = None
        if value not in self.inputs:
            node = self.maker.get(value)
            raise self._refused("an input of tokens", node.op_type if node else f"a constant, {value}")
        return embedding

    def _check_initial_state(self, value: str) -> None:
        """Refuse an initial state that is neither an input nor zeros."""
        value = self._back(value, STATE)
        node = self.maker.get(value)
        zeros = node is not None and node.op_type == "ConstantOfShape" and not self._has_nonzero_fill(value)
        if value in self.constants:
            zeros = not self.constants[value].any()
        if value not in self.inputs and not zeros:
            raise self._refused("an initial state of zeros, or one that is an input", "another state")

    def _has_nonzero_fill(self, value: str) -> bool:
        filling = self.attributes[value].get("value")
        return filling is not None and bool(self.to_array(filling).any())

    def _back(self, value: str, through: set[str], *, keep_time: bool = False, keep_width: bool = False) -> str:
        """The value that this one comes from, through operators of these kinds only, each by its first input.

        keep_time: refuse a Transpose that moves the time axis, which is the first.
        keep_width: refuse operators for which _keeps_width is False.
        """
        while (node := self.maker.get(value)) is not None and node.op_type in through:
            if node.op_type == "Gather" and node.input[0] in self.constants:
                break  # an embedding
            if keep_time and node.op_type == "Transpose" and self.attributes[value].get("perm", [1])[0] != 0:
                raise self._refused("layers that keep the time axis", "Transpose of time between them")
            if keep_width and not self._keeps_width(node):
                raise self._refused("the units along the last axis", f"{node.op_type}, which may move them")
            value = node.input[0]
        return value

    def _keeps_width(self, node: Any) -> bool:
        """False for a Transpose that moves the last axis, and for a Reshape or Flatten that may change its size.

        Other operators are not checked.
        """
        if node.op_type == "Transpose":
            perm = self.attributes[node.output[0]].get("perm", [-1])  # the default reverses the axes
            return bool(perm[-1] == len(perm) - 1)
        before, after = (self.widths.get(name) for name in (node.input[0], node.output[0]))
        return node.op_type not in ("Reshape", "Flatten") or (before is not None and before == after)

    def _made_by(self, value: str, *operators: str) -> Any:
        """The node that computes this value as its first output, if it is one of these; it is added to `passed`."""
        node = self.maker.get(value)
        if node is None or node.op_type not in operators or node.output[0] != value:
            return None
        self.passed.append(node)
        return node

    def _constant(self, node: Any, index: int, rank: int) -> Array:
        array = self.constants.get(node.input[index])
        if array is None or array.ndim != rank or (rank == 3 and len(array) != 1):
            what = f"input {index} of {node.op_type}"
            axes = f"{rank} axes, the first of size 1" if rank == 3 else f"{rank} axes"
            got = "a computed value" if array is None else f"shape {array.shape}"
            raise self._refused(f"{what} as a constant with {axes}", got)
        return array

    def _refused(self, expected: str, got: object) -> CheckpointError:
        return CheckpointError(f"{self.path}", expected=expected, got=got)
