"""elman export: a trained model as a file for other tools."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from elman.cli.console import console, errors
from elman.cli.flags import argument, flag
from elman.errors import ArgumentError, RunError

if TYPE_CHECKING:
    from elman.exchange.model_file import ExportResult

SUFFIXES = {"onnx": ".onnx", "torch": ".safetensors", "html": ".html", "npz": ".npz"}

# files of a run, which an export never replaces
RUN_FILES = ("config.json", "vocabulary.json", "model.safetensors", "metrics.jsonl", "data.safetensors")


@dataclass(frozen=True)
class Export:
    """Write a trained model as a file for other tools.

    The formats are onnx, for ONNX runtimes; torch, a state dict for PyTorch (nn.RNN, nn.GRU or nn.LSTM, and nn.Linear);
    html, a page that runs a language model or a translator in a browser; and npz, plain arrays for NumPy.

    For instance:
        elman export runs/pride-and-prejudice --to onnx
        elman export runs/pride-and-prejudice --to html --precision int8 --out austen.html
    """

    run_folder: Path = argument("RUN", "a run made by elman train")
    to: Literal["onnx", "torch", "html", "npz"] = flag(MISSING, "format of the file (required)")
    out: Path | None = flag(
        None, "output file (default: the run's name and the suffix of the format, in the current folder)"
    )
    force: bool = flag(False, "replace the file if it exists")
    precision: Literal["float32", "float16", "int8"] = flag("float32", "html: precision of the weights in the page")

    def run(self) -> int:
        from elman.training.run import Run

        if self.precision != "float32" and self.to != "html":
            raise ArgumentError("--precision", expected="--to html", got=f"--to {self.to}")
        run = Run(self.run_folder)
        out = self.out or Path(run.path.resolve().name + SUFFIXES[self.to])
        if out.name in RUN_FILES and out.resolve().parent == run.path.resolve():
            raise RunError(f"{out} is a file of the run itself", do="Choose another --out.")
        with errors.rich.status(f"writing {out}"):
            result = self._write(out)
        if self.to == "onnx" and run.config["config"]["dtype"] == "float64":
            console.print("Rounded to float32: ONNX runtimes have no recurrent layer in float64.")
        for path in result.paths:
            console.print(f"{path}, {path.stat().st_size / 1024:,.0f} KB", markup=False)
        console.print(result.description, markup=False)
        return 0

    def _write(self, out: Path) -> ExportResult:
        from elman.exchange import export_html, export_npz, export_onnx, export_torch

        if self.to == "html":
            return export_html(self.run_folder, out, precision=self.precision, force=self.force)
        export = {"onnx": export_onnx, "torch": export_torch, "npz": export_npz}[self.to]
        return export(self.run_folder, out, force=self.force)
