"""Files of torch.save, which are pickles: torch opens them, told to load weights only. No other module imports it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elman.errors import CheckpointError, MissingExtraError
from elman.maths.arrays import Array

OLDEST = (2, 6)  # before it a file could run code in spite of weights_only (CVE-2025-32434)


def read_pt(path: Path) -> dict[str, Array]:
    """The tensors of a state dict, alone in the file or one level down, beside an optimizer for instance."""
    try:
        import torch
    except ImportError:
        raise MissingExtraError(
            f"{path} is a pickle, which only PyTorch opens safely",
            do="Install it: pip install torch. Or save with safetensors.torch.save_file(model.state_dict(), FILE).",
        ) from None
    if tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) < OLDEST:
        raise MissingExtraError(
            f"{path} is a pickle, and PyTorch runs code from such a file",
            expected=f"PyTorch {'.'.join(map(str, OLDEST))} or newer, whose weights_only is safe",
            got=torch.__version__,
            do="Update it: pip install --upgrade torch. Or save with safetensors.torch.save_file.",
        )
    try:
        loaded: Any = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # of many kinds: a file may hold anything
        why = str(error).partition("\n")[0][:200] or "it is empty"
        raise CheckpointError(
            f"{path} is no file of weights alone: {why}", do="Save model.state_dict(), not the model."
        ) from None
    for candidate in (loaded, *(loaded.values() if isinstance(loaded, Mapping) else ())):
        if isinstance(candidate, Mapping) and candidate and all(map(torch.is_tensor, candidate.values())):
            return {str(name): _array(path, str(name), tensor) for name, tensor in candidate.items()}
    raise CheckpointError(f"{path}", expected="a state dict", got=type(loaded).__name__)


def _array(path: Path, name: str, tensor: Any) -> Array:
    try:
        claimed, held = tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()
        if claimed > held:  # an expanded tensor: a small file could ask for any amount of memory
            got = f"{held} for shape {tuple(tensor.shape)}"
            do = "Save contiguous tensors."
            raise CheckpointError(f"{path}, {name}", expected=f"{claimed} bytes of numbers", got=got, do=do)
        array: Array = (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy(force=True)
    except (TypeError, RuntimeError):  # sparse, quantized, or of eight bits: NumPy has none of them
        got = f"{tensor.layout} of {tensor.dtype}".replace("torch.", "")
        do = "Save dense tensors of model.float().state_dict() instead."
        raise CheckpointError(f"{path}, {name}", expected="numbers that NumPy knows", got=got, do=do) from None
    return array
