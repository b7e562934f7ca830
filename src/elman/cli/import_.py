"""elman import: make a run from a PyTorch or ONNX file."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path
from shlex import quote
from typing import Literal

from elman.cli.console import console, errors
from elman.cli.flags import argument, flag
from elman.errors import ArgumentError

FORMATS = {".onnx": "onnx", ".safetensors": "torch", ".pt": "torch", ".pth": "torch"}


@dataclass(frozen=True)
class Import:
    """Make a run from a file that elman export wrote as onnx or torch, or from the PyTorch state dict of another
    project: a language model with an RNN, GRU or LSTM and a linear output.

    A file that elman export wrote gives the same model, bit for bit (an export to ONNX rounds float64 to float32). A
    state dict of another project needs --vocabulary: a vocabulary.json, a JSON list of the characters or a text file
    with each character once, both in the order of their ids, or the training text if the ids follow the sorted order
    of its characters.

    For instance:
        elman import novel.safetensors --out runs/again
        elman import theirs.pt --from torch --vocabulary letters.json --activation relu --out runs/theirs
    """

    file: Path = argument("FILE", "a state dict (.safetensors, .pt, .pth) or an ONNX file of elman export (.onnx)")
    out: Path = flag(MISSING, "the run folder to write (required)")
    from_: Literal["torch", "onnx"] | None = flag(None, "format of FILE (default: from its suffix)", name="from")
    vocabulary: Path | None = flag(None, "file with the tokens of the model, if FILE does not contain them")
    activation: Literal["tanh", "relu"] | None = flag(
        None, "activation of nn.RNN, for a state dict that does not name it (default: tanh)"
    )
    force: bool = flag(False, "replace the run folder, unless it is being trained")

    def run(self) -> int:
        from elman.exchange.cells import unit_kind
        from elman.exchange.foreign_vocabulary import refuse_options
        from elman.exchange.model_file import save_run
        from elman.exchange.onnx_read import read_onnx
        from elman.exchange.pytorch import read_torch
        from elman.training.run import refuse_existing

        kind = self.from_ or FORMATS.get(self.file.suffix)
        if kind is None:
            suffix = self.file.suffix
            do = "Export the run with --to onnx or torch." if suffix in (".npz", ".html") else None
            raise ArgumentError(
                f"{self.file}",
                expected="a name that ends in .safetensors, .pt, .pth or .onnx, or --from",
                got=f"{suffix}, which cannot be imported" if do else suffix or "no suffix",
                do=do or "See elman import --help.",
            )
        refuse_existing(self.out, force=self.force)
        with errors.rich.status(f"reading {self.file}"):
            if kind == "torch":
                model = read_torch(self.file, activation=self.activation, vocabulary=self.vocabulary)
            else:
                model = read_onnx(self.file)
                refuse_options(self.file, activation=self.activation, vocabulary=self.vocabulary)
            save_run(model, self.out, force=self.force)
        network = model.config
        units = unit_kind(network.cell, network.activation)
        console.print(f"{self.out}: {network.layers} × {network.hidden} {units} units. Use it:", markup=False)
        console.print(f"elman {'sample' if model.task == 'lm' else 'predict'} {quote(str(self.out))}", markup=False)
        return 0
