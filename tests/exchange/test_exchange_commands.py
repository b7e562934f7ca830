"""elman export and elman import: files are complete or not written, and errors are one clear message."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from exchange_tools import check_onnx, random_run

from elman.cli import main
from elman.models import LanguageModel


@pytest.fixture
def elman(tmp_path, monkeypatch, capsys):
    """The command in a folder of its own, with a run in it."""
    monkeypatch.chdir(tmp_path)
    random_run(Path("runs") / "novel")

    def run(*words):
        with pytest.raises(SystemExit) as caught:
            main([str(word) for word in words])
        out, err = capsys.readouterr()
        return caught.value.code, out, err

    return run


def there():
    return sorted(path.name for path in Path().iterdir())


@pytest.mark.parametrize(("to", "name", "says"), [
    ("onnx", "novel.onnx", "x (T, B), h0 (2, B, 12) → logits (T, B, 12), h_n (2, B, 12)"),
    ("torch", "novel.safetensors", "rnn.weight_ih_l0"),
    ("html", "novel.html", "Open it in a browser"),
    ("npz", "novel.npz", "np.load reads it"),
])  # fmt: skip
def test_a_run_becomes_a_file_here(elman, to, name, says):
    status, out, err = elman("export", "runs/novel", "--to", to)
    assert (status, err) == (0, "")
    assert there() == sorted([name, "runs"])
    assert out.startswith(f"{name}, ")
    assert says in out


@pytest.mark.parametrize(("to", "name"), [("onnx", "x.onnx"), ("torch", "x.safetensors")])
def test_an_export_is_imported_exactly(elman, to, name):
    assert elman("export", "runs/novel", "--to", to, "--out", name)[0] == 0
    status, out, err = elman("import", name, "--out", "runs/back")
    assert (status, err) == (0, "")
    assert out.splitlines()[-1] == "elman sample runs/back"
    before, after = LanguageModel.load("runs/novel"), LanguageModel.load("runs/back")
    assert after.parameters_.buffer.tobytes() == before.parameters_.buffer.tobytes()
    sample = ("--length", 40, "--seed", 3)
    assert elman("sample", "runs/back", *sample) == elman("sample", "runs/novel", *sample)
    assert elman("show", "runs/back")[0] == 0


@pytest.mark.parametrize("to", ["onnx", "torch", "html", "npz"])
def test_a_file_that_exists_is_replaced_only_by_force(elman, to):
    Path("mine").write_text("mine")
    status, out, err = elman("export", "runs/novel", "--to", to, "--out", "mine")
    assert (status, out) == (2, "")
    assert err == "elman: mine exists already. Choose another name; --force replaces it.\n"
    assert Path("mine").read_text() == "mine"
    assert elman("export", "runs/novel", "--to", to, "--out", "mine", "--force")[0] == 0
    assert len(Path("mine").read_bytes()) > 1000
    assert there() == ["mine", "runs"]


@pytest.mark.parametrize(("words", "why"), [
    (("export", "runs/nothing", "--to", "onnx"), "There is no run at runs/nothing"),
    (("export", "runs/novel", "--to", "onnx", "--out", "runs"), "runs is a folder"),
    (("export", "runs/novel", "--to", "npz", "--out", "no/such/x.npz"), "no/such/x.npz could not be written"),
    (("export", "runs/novel", "--to", "onnx", "--precision", "int8"), "--precision: expected --to html"),
    (("export", "runs/novel", "--to", "torch", "--force", "--out", "runs/novel/model.safetensors"),
     "a file of the run itself"),
    (("export", "runs/novel", "--to", "gguf"), "--to: expected one of onnx, torch, html, npz, got 'gguf'"),
    (("import", "nothing.onnx", "--out", "x"), "nothing.onnx: No such file"),
    (("import", "some.txt", "--out", "x"),
     "expected a name that ends in .safetensors, .pt, .pth or .onnx, or --from, got .txt. See elman import --help."),
    (("import", "some", "--out", "x"), "got no suffix"),
    (("import", "x.npz", "--out", "x"), "got .npz, which cannot be imported. Export the run with --to onnx or torch."),
    (("import", "some.txt", "--out", "x", "--from", "torch"), "is not a safetensors file"),
    (("import", "some.txt", "--out", "x", "--from", "onnx"), "is not a valid ONNX file"),
    (("import", "some.txt", "--from", "onnx", "--out", "runs/novel"), "runs/novel exists already"),
])  # fmt: skip
def test_errors_are_one_message_and_leave_nothing_behind(elman, words, why):
    Path("some.txt").write_text("some text")
    before = Path("runs/novel/model.safetensors").read_bytes()
    status, out, err = elman(*words)
    assert (status, out) == (2, "")
    assert why in " ".join(err.split())
    assert "Traceback" not in err
    assert there() == ["runs", "some.txt"]
    assert Path("runs/novel/model.safetensors").read_bytes() == before


@pytest.mark.parametrize("where", ["onnx", "torch"])
def test_an_empty_file_is_refused(elman, where):
    Path("empty").write_bytes(b"")
    status, _, err = elman("import", "empty", "--from", where, "--out", "x")
    assert status == 2
    assert "empty is not a" in err
    assert there() == ["empty", "runs"]


def test_an_onnx_file_of_elman_export_needs_no_options(elman):
    elman("export", "runs/novel", "--to", "onnx")
    words = ("import", "novel.onnx", "--out", "x", "--activation", "relu", "--vocabulary", "runs/novel/vocabulary.json")
    status, _, err = elman(*words)
    assert status == 2
    assert "got --activation, --vocabulary. Leave --activation and --vocabulary out." in " ".join(err.split())
    assert there() == ["novel.onnx", "runs"]


def test_an_onnx_file_of_another_project_is_refused(elman):
    import onnx

    elman("export", "runs/novel", "--to", "onnx")
    model = onnx.load("novel.onnx")
    del model.metadata_props[:]
    onnx.save(model, "novel.onnx")
    status, out, err = elman("import", "novel.onnx", "--out", "x", "--vocabulary", "runs/novel/vocabulary.json")
    assert (status, out) == (2, "")
    assert " ".join(err.split()) == (
        "elman: novel.onnx is not an ONNX file of elman export, and Elman reads no others. Import the PyTorch state "
        "dict of the model instead (.safetensors or .pt)."
    )


def test_a_run_that_exists_is_replaced_by_force(elman):
    elman("export", "runs/novel", "--to", "onnx")
    random_run(Path("runs") / "other", "byte")
    assert elman("import", "novel.onnx", "--out", "runs/other", "--force")[0] == 0
    assert LanguageModel.load("runs/other").vocabulary_ == LanguageModel.load("runs/novel").vocabulary_


def test_a_damaged_run_is_refused(elman):
    Path("runs/novel/model.safetensors").write_bytes(b"x")
    for to in ("onnx", "torch", "html", "npz"):
        status, _, err = elman("export", "runs/novel", "--to", to)
        assert status == 2
        assert "damaged" in err
    assert there() == ["runs"]


def test_rounding_of_float64_is_printed(elman):
    random_run(Path("runs") / "double", dtype="float64")
    assert "Rounded to float32" in elman("export", "runs/double", "--to", "onnx")[1]
    assert "Rounded" not in elman("export", "runs/double", "--to", "torch")[1]
    check_onnx(Path("double.onnx").read_bytes())


def test_without_the_extra_the_message_says_what_to_install(elman, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    status, _, err = elman("export", "runs/novel", "--to", "onnx")
    assert status == 2
    assert "pip install 'elman[onnx]'" in err
    monkeypatch.setitem(sys.modules, "torch", None)
    Path("x.pt").write_bytes(b"x")
    status, _, err = elman("import", "x.pt", "--out", "x")
    assert status == 2
    assert "pip install torch" in err


def test_a_foreign_state_dict_is_imported_with_its_vocabulary(elman):
    from safetensors.numpy import save_file

    rng = np.random.default_rng(0)
    shapes = {"rnn.weight_ih_l0": (4, 3), "rnn.weight_hh_l0": (4, 4), "linear.weight": (3, 4), "linear.bias": (3,)}
    save_file({name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}, "x.safetensors")
    status, _, err = elman("import", "x.safetensors", "--out", "x")
    assert status == 2
    assert "Give --vocabulary, the path of a vocabulary.json" in " ".join(err.split())
    Path("letters.txt").write_text("cab\n")
    words = ("--vocabulary", "letters.txt", "--activation", "relu", "--out", "x")
    assert elman("import", "x.safetensors", *words)[0] == 0
    assert set(elman("sample", "x", "--prompt", "abc", "--length", 9)[1].strip()) <= set("abc")
