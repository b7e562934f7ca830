"""Exchange models with other tools: ONNX, PyTorch, HTML pages, NumPy arrays, and model cards.

Export functions take a run folder and write one or two files. Import functions take a file and write a run folder.
"""

from elman.exchange.card import write_card
from elman.exchange.html import export_html
from elman.exchange.model_file import ExportResult
from elman.exchange.npz import export_npz
from elman.exchange.onnx_read import import_onnx
from elman.exchange.onnx_write import export_onnx
from elman.exchange.pytorch import export_torch, import_torch

__all__ = [
    "ExportResult",
    "export_html",
    "export_npz",
    "export_onnx",
    "export_torch",
    "import_onnx",
    "import_torch",
    "write_card",
]
