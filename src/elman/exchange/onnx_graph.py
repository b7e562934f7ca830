"""Building an ONNX graph and the content of its file.

Opset 22 and IR version 10 are the newest that all supported versions of onnxruntime run. onnxruntime's recurrent
operators support neither float64 nor layout 1 (batch-major).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from elman.errors import MissingExtraError, RangeError
from elman.maths.arrays import Array

OPSET, IR_VERSION = 22, 10
MAX_BYTES = 2**31 - 1  # of a protobuf message
INSTALL = "Install it: pip install 'elman[onnx]'"


def require_onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.numpy_helper
    except ImportError:
        raise MissingExtraError("ONNX files need onnx", do=INSTALL) from None
    return onnx


class Graph:
    """A graph under construction. Values are referred to by name; a node's first output has the node's name."""

    def __init__(self, name: str) -> None:
        self.onnx = require_onnx()
        self.name = name
        self.nodes: list[Any] = []
        self.weights: dict[str, Array] = {}
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def input(self, name: str, dtype: type[np.generic], shape: tuple[int | str, ...]) -> str:
        """Add an input. A string in the shape is a size that is known only at run time."""
        self.inputs.append(self._value(name, dtype, shape))
        return name

    def output(self, name: str, value: str, shape: tuple[int | str, ...], dtype: type[np.generic] = np.float32) -> None:
        """Make a value an output of the graph."""
        self.node("Identity", value, name=name)
        self.outputs.append(self._value(name, dtype, shape))

    def weight(self, name: str, array: Array) -> str:
        """Add a constant in float32."""
        self.weights[name] = np.ascontiguousarray(array, np.float32)
        return name

    def weight64(self, name: str, array: Array) -> str:
        """Add a constant in float64."""
        self.weights[name] = np.ascontiguousarray(array, np.float64)
        return name

    def ints(self, *numbers: int) -> str:
        """A constant vector of integers, such as axes or sizes."""
        name = "ints." + "_".join(map(str, numbers))
        self.weights[name] = np.array(numbers, np.int64)
        return name

    def scalar(self, value: float) -> str:
        """A constant number in float32."""
        name = f"scalar.{value}"
        self.weights[name] = np.array(value, np.float32)
        return name

    def node(self, operator: str, *inputs: str, name: str = "", also: tuple[str, ...] = (), **attributes: Any) -> str:
        """Add a node and return the name of its first output; `also` names its other outputs."""
        name = name or f"{operator}.{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, [name, *also], name=name, **attributes))
        return name

    def signature(self) -> str:
        """Inputs and outputs with their shapes, for messages."""

        def shown(values: list[Any]) -> str:
            shapes = ([d.dim_param or str(d.dim_value) for d in v.type.tensor_type.shape.dim] for v in values)
            sizes = (", ".join(shape) + "," * (len(shape) == 1) for shape in shapes)
            return ", ".join(f"{v.name} ({size})" for v, size in zip(values, sizes, strict=True))

        return f"{shown(self.inputs)} → {shown(self.outputs)}"

    def to_model(self, metadata: dict[str, str]) -> Any:
        """The graph as the message of a file."""
        helper, from_array = self.onnx.helper, self.onnx.numpy_helper.from_array
        weights = [from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, weights)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="elman",
        )
        helper.set_model_props(model, metadata)
        return model

    def to_bytes(self, metadata: dict[str, str]) -> bytes:
        """The content of the file, checked by onnx.checker."""
        size = sum(array.nbytes for array in self.weights.values())
        if size > MAX_BYTES:
            got, do = f"{size / 2**30:.1f} GB of weights", "Export it to torch or npz instead."
            raise RangeError("an ONNX file", expected="at most 2 GB", got=got, do=do)
        model = self.to_model(metadata)
        self.onnx.checker.check_model(model, full_check=True)
        data: bytes = model.SerializeToString(deterministic=True)
        return data

    def _value(self, name: str, dtype: type[np.generic], shape: tuple[int | str, ...]) -> Any:
        helper = self.onnx.helper
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
