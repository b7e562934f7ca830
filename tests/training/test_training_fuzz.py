"""Files with arbitrary content: loading them raises nothing but ElmanErrors."""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from training_tools import small_config, start

from elman.config import from_json, to_json
from elman.data import vocabulary_from_json
from elman.errors import CheckpointError, ElmanError
from elman.models import runs
from elman.models.language_model import LanguageModel
from elman.training import Run, Trainer
from elman.training.arrays import read_arrays, to_bytes

fuzzed = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
TEXT = "to be or not to be, that is the question. " * 40

numbers = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([0, -1, 1, 2**31, 2**53 + 1, 2**63, 10**30, -(10**30), 1e308, 5e-324, True, False]),
)
scalars = st.one_of(
    st.none(), numbers, st.text(max_size=5), st.sampled_from(["char", "tanh", "\ud800", "\0", "../x", ""])
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)


@st.composite
def mutated(draw: st.DrawFn, good: Any) -> Any:
    """A good JSON value with one to three of its parts replaced, removed or added."""
    value = copy.deepcopy(good)
    for _ in range(draw(st.integers(1, 3))):
        at, key = value, None
        while isinstance(at, dict | list) and at and (key is None or draw(st.integers(0, 3))):
            keys = sorted(at) if isinstance(at, dict) else range(len(at))
            parent, key = at, draw(st.sampled_from(keys))
            at = parent[key]
        if key is None:
            return draw(values)
        what = draw(st.sampled_from(["replace", "replace", "remove", "add"]))
        if what == "remove":
            del parent[key]
        elif what == "add" and isinstance(parent, dict):
            parent[draw(st.text(max_size=4))] = draw(values)
        else:
            parent[key] = draw(numbers if isinstance(at, int | float) and draw(st.booleans()) else values)
    return value


@st.composite
def damaged(draw: st.DrawFn, good: bytes) -> bytes:
    """Bytes with a few places changed, cut out or inserted; many of them near the start, where headers are."""
    data = bytearray(good)
    for _ in range(draw(st.integers(1, 4))):
        near = draw(st.booleans())
        place = draw(st.integers(0, max(0, min(len(data), 300 if near else len(data)) - 1)))
        what = draw(st.sampled_from(["flip", "cut", "insert", "end"]))
        if what == "flip" and data:
            data[place] ^= draw(st.integers(1, 255))
        elif what == "cut":
            del data[place : place + draw(st.integers(1, 40))]
        elif what == "insert":
            data[place:place] = draw(st.binary(min_size=1, max_size=20))
        elif what == "end":
            del data[place:]
    return bytes(data)


def only_elman_errors(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except ElmanError:
        return None


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    (folder / "text.txt").write_text(TEXT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ELMAN_CACHE", str(folder / "cache"))
        start(folder / "text.txt", folder / "run", steps=6, save_every=3)
    return folder / "run"


@pytest.fixture
def run(good: Path, tmp_path: Path) -> Path:
    if not (tmp_path / "run").exists():
        shutil.copytree(good, tmp_path / "run")
    return tmp_path / "run"


GOOD_CONFIG = to_json(small_config())


@fuzzed
@given(st.one_of(mutated(GOOD_CONFIG), values))
def test_config(value: Any) -> None:
    try:
        config = from_json(value)
    except CheckpointError:
        return
    assert from_json(to_json(config)) == config


def test_config_with_a_number_too_large_for_a_float() -> None:
    value = copy.deepcopy(GOOD_CONFIG)
    value["hidden"] = 10**400
    with pytest.raises(CheckpointError):
        from_json(value)


@fuzzed
@given(value=st.data())
def test_config_file(value: st.DataObject, run: Path, good: Path) -> None:
    whole = (good / "config.json").read_bytes()
    if value.draw(st.booleans()):
        data = value.draw(st.one_of(damaged(whole), st.binary(max_size=60)))
    else:
        data = json.dumps(value.draw(mutated(json.loads(whole)))).encode()
    (run / "config.json").write_bytes(data)
    only_elman_errors(lambda: LanguageModel.load(run))
    only_elman_errors(lambda: runs.reopen(Run(run)))


@fuzzed
@given(value=st.data())
def test_vocabulary_file(value: st.DataObject, run: Path, good: Path) -> None:
    whole = (good / "vocabulary.json").read_bytes()
    if value.draw(st.booleans()):
        data = value.draw(st.one_of(damaged(whole), st.binary(max_size=60)))
    else:
        mutant = value.draw(mutated(json.loads(whole)))
        only_elman_errors(lambda: vocabulary_from_json(mutant))
        data = json.dumps(mutant).encode()
    (run / "vocabulary.json").write_bytes(data)
    only_elman_errors(lambda: LanguageModel.load(run))


@fuzzed
@given(value=st.data())
def test_model_file(value: st.DataObject, run: Path, good: Path) -> None:
    whole = (good / "model.safetensors").read_bytes()
    if value.draw(st.booleans()):
        data = value.draw(st.one_of(damaged(whole), st.binary(max_size=60)))
    else:
        size = int.from_bytes(whole[:8], "little")
        header = json.dumps(value.draw(mutated(json.loads(whole[8 : 8 + size])))).encode()
        data = len(header).to_bytes(8, "little") + header + whole[8 + size :]
    (run / "model.safetensors").write_bytes(data)
    model = only_elman_errors(lambda: LanguageModel.load(run))
    assert model is None or np.isfinite(model.parameters_.buffer).all()
    only_elman_errors(lambda: read_arrays(run / "model.safetensors"))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "float16", "complex64", "BF16", "F8_E4M3", "F4"])
def test_every_kind_of_number_that_safetensors_knows(dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    if dtype.islower():
        path.write_bytes(to_bytes({"x": np.zeros(4, dtype)}))
    else:
        header = json.dumps({"x": {"dtype": dtype, "shape": [4], "data_offsets": [0, 8]}}).encode()
        path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 8)
    only_elman_errors(lambda: read_arrays(path))
    with pytest.raises(CheckpointError):
        read_arrays(path, {"x": ((4,), np.dtype("float32"))})


@pytest.fixture(scope="module")
def trainer(good: Path, tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    """Of the good run, ready to load a checkpoint."""
    config = small_config(steps=6, save_every=3)
    prepared = runs.text_setup(runs.open_text(TEXT, config), config)
    copied = tmp_path_factory.mktemp("fuzzed") / "run"
    shutil.copytree(good, copied)
    return Trainer(prepared.new_task(prepared.new_model()), config, steps=6, run=Run(copied))


@fuzzed
@given(value=st.data())
def test_state_file_with_a_matching_manifest(value: st.DataObject, trainer: Trainer, good: Path) -> None:
    whole = (good / "checkpoints" / "step-6" / "state.json").read_bytes()
    folder = trainer.run.path / "checkpoints"
    if value.draw(st.booleans()):
        data = value.draw(st.one_of(damaged(whole), st.binary(max_size=60)))
    else:
        data = json.dumps(value.draw(mutated(json.loads(whole)))).encode()
    for step in folder.iterdir():
        (step / "state.json").write_bytes(data)
        facts = {"state.json": {"sha256": hashlib.sha256(data).hexdigest()}}
        (step / "manifest.json").write_text(json.dumps(facts))

    def load() -> None:
        checkpoint = trainer.run.newest()
        assert checkpoint is not None
        trainer.load(checkpoint)
        trainer.train()  # a checkpoint that was accepted must not fail later

    only_elman_errors(load)


@fuzzed
@given(value=st.data())
def test_manifest_and_arrays_of_a_checkpoint(value: st.DataObject, run: Path, good: Path) -> None:
    whole = good / "checkpoints" / "step-6"
    name = value.draw(st.sampled_from(["manifest.json", "state.safetensors", "state.json"]))
    data = value.draw(st.one_of(damaged((whole / name).read_bytes()), st.binary(max_size=60)))
    if name == "manifest.json" and value.draw(st.booleans()):
        data = json.dumps(value.draw(mutated(json.loads((whole / name).read_bytes())))).encode()
    (run / "checkpoints" / "step-6" / name).write_bytes(data)
    newest = Run(run).newest()
    assert newest is not None
    assert newest.step in (3, 6)


@fuzzed
@given(data=st.one_of(st.binary(max_size=200), damaged(b'{"step": 3, "loss": 1.5}\n{"step": 6, "loss": null}\n')))
def test_metrics_file(data: bytes, run: Path) -> None:
    (run / "metrics.jsonl").write_bytes(data)
    assert all(isinstance(row, dict) for row in Run(run).metrics())
