"""Models with random weights in run folders, and onnxruntime to check exports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from elman.config import Config
from elman.data import ByteVocabulary, CharVocabulary, WordVocabulary
from elman.exchange.model_file import PortableModel, save_run
from elman.models.fitted import build_network
from elman.models.task_spec import TaskSpec

VOCABULARIES = {
    "char": CharVocabulary("abcdefgh .\né"),
    "byte": ByteVocabulary(),
    "word": WordVocabulary(["<unk>", "\n", " and", " the", " cat", "the"]),
}


def random_model(kind="char", **options) -> PortableModel:
    """A model whose weights make every token depend on those before it."""
    vocabulary = VOCABULARIES[kind]
    config = Config().with_options(**{"hidden": 12, "layers": 2, "tokens": kind, **options})
    spec = TaskSpec.language_model(vocabulary)
    network = build_network(spec, config)
    dtype = np.dtype(config.dtype)
    rng = np.random.default_rng(0)
    p = network.initial(rng, recurrent="orthogonal", gain=0.9, token_scale=1.0, dtype=dtype)
    for name in p:
        if p[name].ndim == 1:
            p[name][...] = 0.3 * rng.standard_normal(p[name].shape)
    p["head.W_hy"][...] *= 4
    return PortableModel(p, config, spec)


def random_run(path: Path, kind="char", **options) -> Path:
    return save_run(random_model(kind, **options), path).path


def session(data: bytes | Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    data = data.read_bytes() if isinstance(data, Path) else data
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def check_onnx(data: bytes) -> None:
    model = onnx.load_from_string(data)
    onnx.checker.check_model(model, full_check=True)
    assert (model.ir_version, model.opset_import[0].version) == (10, 22)
