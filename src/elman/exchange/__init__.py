"""Models that travel: ONNX, PyTorch, a page, plain arrays; and back."""

from elman.exchange.model_file import to_run
from elman.exchange.npz import write_npz
from elman.exchange.onnx_read import read_onnx
from elman.exchange.onnx_write import write_onnx
from elman.exchange.torch_read import read_torch
from elman.exchange.torch_write import write_torch

__all__ = ["read_onnx", "read_torch", "to_run", "write_npz", "write_onnx", "write_torch"]
