"""Damaged files: an older intact checkpoint is used instead; a damaged model is refused with a clear message."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_tools import Here, outcome, resume, rows, start

from elman.errors import CheckpointError, RunError, StorageError
from elman.models.language_model import LanguageModel
from elman.training import Event, Run, Started
from elman.training.arrays import read_arrays, to_bytes
from elman.training.storage import check_folder, write_file, write_folder

Damage = Callable[[bytes], bytes | None]


def flipped(at: float) -> Damage:
    def damage(data: bytes) -> bytes:
        place = int(at * len(data))
        return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]

    return damage


def header(data: bytes) -> tuple[dict[str, Any], bytes]:
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def with_header(text: str, rest: bytes) -> bytes:
    raw = text.encode()
    raw += b" " * (-len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw + rest


def duplicated(data: bytes) -> bytes:
    facts, rest = header(data)
    name = next(name for name in facts if name != "__metadata__")
    text = json.dumps(facts)
    return with_header(text[:-1] + f', "{name}": {json.dumps(facts[name])}}}', rest)


def reshaped(data: bytes) -> bytes:
    facts, rest = header(data)
    name = max((n for n in facts if n != "__metadata__"), key=lambda n: len(facts[n]["shape"]))
    facts[name]["shape"] = [1, *facts[name]["shape"]]
    return with_header(json.dumps(facts), rest)


def retyped(data: bytes) -> bytes:
    facts, rest = header(data)
    name = next(name for name in facts if name != "__metadata__")
    facts[name]["dtype"] = "I32"
    return with_header(json.dumps(facts), rest)


def renamed(data: bytes) -> bytes:
    facts, rest = header(data)
    name = next(name for name in facts if name != "__metadata__")
    facts["other"] = facts.pop(name)
    return with_header(json.dumps(facts), rest)


ARRAYS: dict[str, Damage] = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[:-1],
    "half": lambda data: data[: len(data) // 2],
    "a header that does not end": lambda data: data[:20],
    "longer": lambda data: data + b"\0" * 8,
    "a bit flipped in the header": flipped(0.01),
    "oversized header": lambda data: (1 << 40).to_bytes(8, "little") + data[8:],
    "header past the end": lambda data: (len(data)).to_bytes(8, "little") + data[8:],
    "two megabytes of header": lambda data: with_header(json.dumps(header(data)[0]) + " " * (2 << 20), header(data)[1]),
    "negative header": lambda data: b"\xff" * 8 + data[8:],
    "duplicate key": duplicated,
    "wrong shape": reshaped,
    "wrong dtype": retyped,
    "wrong name": renamed,
    "JSON": lambda data: b'{"a": 1}',
    "pickle": lambda data: b"\x80\x04K\x01.",
    "missing": lambda data: None,
}


def damage(path: Path, how: Damage) -> None:
    changed = how(path.read_bytes())
    path.unlink()
    if changed is not None:
        path.write_bytes(changed)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    (folder / "text.txt").write_text("to be or not to be, that is the question. " * 40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ELMAN_CACHE", str(folder / "cache"))
        start(folder / "text.txt", folder / "run", steps=10, save_every=4)
    return folder / "run"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def started_at(run: Path) -> int:
    events: list[Event] = []
    resume(run, [events.append])
    assert isinstance(events[0], Started)
    return events[0].step


PARTS = [
    *(("state.safetensors", name) for name in ARRAYS),
    *(("state.json", name) for name in ("empty", "truncated", "half", "JSON", "missing", "pickle")),
    *(("manifest.json", name) for name in ("empty", "half", "JSON", "missing", "pickle")),
]


@pytest.mark.parametrize(("part", "how"), PARTS)
def test_a_damaged_checkpoint_is_passed_over_for_an_older_one(part: str, how: str, run: Path) -> None:
    expected = outcome(run)
    damage(run / "checkpoints" / "step-10" / part, ARRAYS[how])
    assert started_at(run) == 8
    assert outcome(run) == expected


@pytest.mark.parametrize("at", [0.0, 0.3, 0.999])
@pytest.mark.parametrize("part", ["state.safetensors", "state.json", "manifest.json"])
def test_one_flipped_bit_anywhere_in_a_checkpoint_is_detected(part: str, at: float, run: Path) -> None:
    expected = outcome(run)
    damage(run / "checkpoints" / "step-10" / part, flipped(at))
    assert started_at(run) == 8
    assert outcome(run) == expected


def test_every_byte_of_a_manifest_matters(run: Path) -> None:
    folder = run / "checkpoints" / "step-10"
    good = (folder / "manifest.json").read_bytes()
    check_folder(folder)
    for place in range(0, len(good), 5):
        (folder / "manifest.json").write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        try:
            check_folder(folder)
        except CheckpointError:
            continue
        same = json.loads((folder / "manifest.json").read_bytes()), json.loads(good)
        assert {n: f["sha256"] for n, f in same[0].items()} == {n: f["sha256"] for n, f in same[1].items()}


def test_when_all_checkpoints_are_damaged_nothing_is_done(run: Path) -> None:
    for folder in (run / "checkpoints").iterdir():
        damage(folder / "state.safetensors", ARRAYS["truncated"])
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(CheckpointError, match=r"step-10.state\.safetensors was changed after it was written"):
        resume(run)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_an_incomplete_checkpoint_of_a_killed_process_is_ignored(run: Path) -> None:
    expected = outcome(run)
    shutil.move(run / "checkpoints" / "step-10", run / "checkpoints" / ".step-10.123")
    shutil.copytree(run / "checkpoints" / "step-8", run / "checkpoints" / ".step-12.123.old")
    (run / ".model.safetensors.123").write_bytes(b"half")
    (run / ".config.json.123").write_bytes(b"{")
    (run / "checkpoints" / "step-x").mkdir()
    (run / "checkpoints" / "notes.txt").write_text("mine")
    assert started_at(run) == 8
    shutil.rmtree(run / "checkpoints" / "step-x")
    (run / "checkpoints" / "notes.txt").unlink()  # other files are left alone
    assert outcome(run) == expected
    assert not list(run.rglob(".*"))


def resealed(folder: Path) -> None:
    """Write a manifest with the hashes of the present files."""
    parts = ("state.safetensors", "state.json")
    facts = {n: {"sha256": hashlib.sha256((folder / n).read_bytes()).hexdigest()} for n in parts}
    (folder / "manifest.json").write_text(json.dumps(facts))


@pytest.mark.parametrize("how", [name for name in ARRAYS if name not in ("missing",)])
def test_wrong_arrays_are_refused_even_if_the_manifest_matches(how: str, run: Path) -> None:
    for folder in (run / "checkpoints").iterdir():
        damage(folder / "state.safetensors", ARRAYS[how])
        resealed(folder)
    with pytest.raises(CheckpointError) as caught:
        resume(run)
    assert "state.json" not in str(caught.value)


WRONG: dict[str, Callable[[dict[str, Any]], object]] = {
    "a list": lambda f: [1],
    "nothing": lambda f: {},
    "no progress": lambda f: f | {"progress": None},
    "a field that is not known": lambda f: f | {"progress": {"step": 10, "another": 1}},
    "step as text": lambda f: f | {"progress": f["progress"] | {"step": "10"}},
    "another step": lambda f: f | {"progress": f["progress"] | {"step": 3}},
    "negative count": lambda f: f | {"progress": f["progress"] | {"worse": -1}},
    "NaN": lambda f: f | {"progress": f["progress"] | {"smoothed": float("nan")}},
    "best as text": lambda f: f | {"progress": f["progress"] | {"best_loss": "2"}},
    "an end that is not known": lambda f: f | {"progress": f["progress"] | {"finished": "boredom"}},
    "a damaged snapshot": lambda f: f | {"snapshot": f["snapshot"] | {"progress": {"step": None}}},
    "cursor past the end": lambda f: f | {"task": {"cursor": {"epoch": 0, "window": 10**6}}},
    "no cursor": lambda f: f | {"task": {}},
    "infinite retries": lambda f: f | {"retries": float("inf")},
    "rate factor 0": lambda f: f | {"rate_factor": 0},
    "rate factor NaN": lambda f: f | {"rate_factor": float("nan")},
    "no offset": lambda f: f | {"metrics_offset": None},
    "negative offset": lambda f: f | {"metrics_offset": -1},
    "endless offset": lambda f: f | {"metrics_offset": float("inf")},
}  # fmt: skip


@pytest.mark.parametrize("how", WRONG)
def test_wrong_metadata_are_refused_even_if_the_manifest_matches(how: str, run: Path) -> None:
    for folder in (run / "checkpoints").iterdir():
        facts = folder / "state.json"
        facts.write_text(json.dumps(WRONG[how](json.loads(facts.read_bytes()))))
        resealed(folder)
    with pytest.raises(CheckpointError):
        resume(run, steps=12)


def test_an_offset_beyond_the_end_of_the_metrics_does_not_make_the_file_longer(run: Path) -> None:
    before = rows(run)
    for folder in (run / "checkpoints").iterdir():
        facts = json.loads((folder / "state.json").read_bytes())
        (folder / "state.json").write_text(json.dumps(facts | {"metrics_offset": 10**12}))
        resealed(folder)
    resume(run, steps=12)
    assert rows(run)[:-1] == before


@pytest.mark.parametrize("how", ARRAYS)
def test_a_damaged_model_is_refused(how: str, run: Path) -> None:
    damage(run / "model.safetensors", ARRAYS[how])
    with pytest.raises(RunError, match=r"model\.safetensors|no model yet") as caught:
        LanguageModel.load(run)
    assert isinstance(caught.value, CheckpointError) == (how != "missing")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused(bad: float, run: Path) -> None:
    arrays = read_arrays(run / "model.safetensors")
    arrays["layers.0.W_hh"][3, 4] = bad
    (run / "model.safetensors").write_bytes(to_bytes(arrays))
    with pytest.raises(CheckpointError, match=r"layers\.0\.W_hh.*finite"):
        LanguageModel.load(run)


def test_a_model_of_other_sizes_than_the_config_says_is_refused_before_it_is_made(run: Path) -> None:
    config = json.loads((run / "config.json").read_bytes())
    for hidden, layers in ((16, 1), (8, 2), (40_000, 1), (10**9, 1), (8, 10**12), (2**53, 2**53)):
        config["config"] |= {"hidden": hidden, "layers": layers}
        (run / "config.json").write_text(json.dumps(config))
        with pytest.raises(Exception, match=r".") as caught:
            LanguageModel.load(run)
        assert type(caught.value).__module__ == "elman.errors"


@pytest.mark.parametrize("how", ["truncated", "oversized header", "duplicate key", "a bit flipped in the header"])
def test_the_command_says_what_is_wrong_with_a_model_and_exits_with_2(how: str, run: Path, elman_here: Here) -> None:
    damage(run / "model.safetensors", ARRAYS[how])
    done = elman_here("sample", run)
    assert done.returncode == 2
    assert "model.safetensors" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


# -- writing ----------------------------------------------------------------------------------------------------------


def test_a_file_and_a_folder_are_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(tmp_path / "a", b"old")
    write_folder(tmp_path / "b", {"x": b"old"})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    for write in (
        lambda: write_file(tmp_path / "a", b"new"),
        lambda: write_folder(tmp_path / "b", {"x": b"new"}),
        lambda: write_folder(tmp_path / "c", {"x": b"new"}),
    ):
        with pytest.raises(StorageError, match=r"No space left on device.*is unchanged"):
            write()
    assert (tmp_path / "a").read_bytes() == b"old"
    assert (tmp_path / "b" / "x").read_bytes() == b"old"
    check_folder(tmp_path / "b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_folder_whose_replacement_cannot_be_renamed_keeps_its_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "b", {"x": b"old"})
    rename, renamed = Path.rename, []

    def second_fails(self: Path, target: Path) -> Path:
        renamed.append(self)
        if len(renamed) == 2:
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", second_fails)
    with pytest.raises(StorageError, match=r"Input/output error.*is unchanged"):
        write_folder(tmp_path / "b", {"x": b"new"})
    assert (tmp_path / "b" / "x").read_bytes() == b"old"
    check_folder(tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_force_replaces_a_run_and_nothing_else(run: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    for force, why in ((False, "exists already"), (True, "runs of Elman only")):
        with pytest.raises(RunError, match=why):
            Run.create(mine, {}, {}, force=force)
    assert (mine / "thesis.txt").read_text() == "years of work"
    with pytest.raises(RunError, match="exists already"):
        Run.create(run, {}, {})
    assert (run / "model.safetensors").exists()
    Run.create(run, {"task": "new"}, {}, force=True)
    assert sorted(path.name for path in run.iterdir()) == ["config.json"]
    (tmp_path / "empty").mkdir()
    Run.create(tmp_path / "empty", {}, {})
    with pytest.raises(RunError):
        Run.create(mine / "thesis.txt", {}, {}, force=True)
    with pytest.raises(StorageError):
        Run.create(mine / "thesis.txt" / "run", {}, {})
    with pytest.raises(StorageError):
        Run.create(tmp_path / ("n" * 300), {}, {})


def test_the_current_folder_may_become_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Run.create(Path("."), {}, {})
    assert (tmp_path / "here" / "config.json").exists()
