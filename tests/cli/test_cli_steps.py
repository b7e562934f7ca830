"""elman steps: all steps at once, one screen per equation, a page, and errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from elman.look.steps import steps_data


def test_without_a_terminal_all_steps_are_printed(elman):
    status, out, err = elman("steps", "hell", "ello")
    assert (status, err) == (0, "")
    for step in steps_data("hell", "ello")["steps"]:
        assert step["here"] in out
        assert f"{step['lines'][0]['file']}:{step['lines'][0]['line']}" in out
    assert "46 of 46" in out
    assert "1.357" in out  # the loss


def test_the_update_follows_the_backward_pass_and_its_settings_are_flags(elman):
    status, out, err = elman("steps", "hell", "ello", "--lr", "0.5", "--clip-norm", "0.25", "--bptt-steps", "2")
    assert (status, err) == (0, "")
    data = steps_data("hell", "ello", learning_rate=0.5, clip_norm=0.25, bptt_steps=2)
    norm, scale = (
        next(s["result"]["values"] for s in data["steps"] if s["name"] == name) for name in ("norm", "scale")
    )
    assert scale == pytest.approx(0.25 / norm)
    rows = [line.split() for line in out.splitlines()]
    for row in (["norm", f"{norm:.3f}"], ["scale", f"{scale:.3f}"], ["limit", "0.250"], ["η", "0.500"]):
        assert row in rows
    assert out.index("d_h[0] = ") < out.index("norm = ") < out.index("scale = ") < out.index("W_xh ← W_xh - η · scale")
    assert "elman/maths/optimizers.py" in out
    assert "reads 'e', target 'l', back from the loss of t = 2" in out
    assert "back from the loss" not in elman("steps", "hell", "ello")[1]
    after = next(s["result"]["values"] for s in data["steps"] if s["symbol"] == "b_h")
    assert ["b_h", "after", "the", "step", "(3)", *(f"{value:.3f}" for value in after)] in rows


def test_a_page_takes_the_settings_too(elman):
    words = ("--lr", "0.5", "--clip-norm", "0.25", "--bptt-steps", "2", "--out", "page.html")
    assert elman("steps", "hell", "ello", *words)[0] == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert '"bptt_steps": 2, "learning_rate": 0.5, "clip_norm": 0.25' in page


def test_some_units_of_the_network_of_a_run_are_shown(elman, run):
    status, out, err = elman("steps", "the ", "he c", "--run", run)
    assert (status, err) == (0, "")
    assert "(16, 16)" in out
    assert "unit 4" in out
    assert "unit 5" not in out
    assert "…" in out


def test_a_page_is_written(elman, run):
    status, out, err = elman("steps", "the ", "he c", "--run", run, "--out", "page.html")
    assert (status, err) == (0, "")
    assert "page.html" in out
    page = Path("page.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "the run run" in page
    assert sorted(path.name for path in Path().iterdir()) == ["page.html", "run"]


def not_a_language_model(run):
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "task": "classify"}))


@pytest.mark.parametrize(("words", "message"), [
    (["hell", "ell"], "the same number of tokens"),
    (["", ""], "the input is empty"),
    (["the", "hez", "--run", "run"], "the target has characters that are not in the vocabulary: got 'z'. Leave them"),
    (["a", "b", "--run", "nowhere"], "There is no run at nowhere"),
    (["a", "b", "--out", "nowhere/page.html"], "could not be written: No such file or directory"),
    (["a" * 40, "b" * 40], "at most 32 tokens"),
    (["a", "b", "--bptt-steps", "0"], "--bptt-steps: expected a number of 1 or more, got 0"),
    (["a", "b", "--lr", "-1"], "--learning-rate: expected a number of 0 or more, got -1"),
])  # fmt: skip
def test_bad_input_is_refused_with_one_line(elman, run, words, message):
    status, out, err = elman("steps", *words)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == ["run"]


def test_a_run_of_another_task_is_refused(elman, run):
    not_a_language_model(run)
    status, out, err = elman("steps", "a", "b", "--run", run, "--out", "page.html")
    assert (status, out) == (2, "")
    assert "expected a language model" in err
    assert "classify" in err
    assert not Path("page.html").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
def test_in_a_terminal_enter_shows_the_next_step_b_the_one_before_and_q_quits():
    import pty

    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    process = subprocess.Popen(
        [sys.executable, "-m", "elman", "steps", "hell", "ello"],
        stdin=slave, stdout=slave, stderr=slave, env=environment, close_fds=True,
    )  # fmt: skip
    os.close(slave)

    def read_until(text):
        seen = b""
        while text not in seen:
            seen += os.read(master, 4096)
        return seen.decode()

    for key, expected in ((b"", "1 of 46"), (b"\n", "2 of 46"), (b"\n", "3 of 46"), (b"b\n", "2 of 46")):
        os.write(master, key)
        screen = read_until(b"q: quit > ")
        assert expected in screen
        assert screen.count(" of 46") == 1  # one screen per equation
    os.write(master, b"q\n")
    assert process.wait(20) == 0
    os.close(master)


def test_only_a_page_of_ours_is_replaced_and_only_by_force(elman):
    assert elman("steps", "hell", "ello", "--out", "page.html")[0] == 0
    page = Path("page.html").read_bytes()
    status, out, err = elman("steps", "hey", "eyo", "--out", "page.html")
    assert (status, out) == (2, "")
    assert err == "elman: page.html exists already. Choose another --out; --force replaces it.\n"
    assert Path("page.html").read_bytes() == page
    assert elman("steps", "hey", "eyo", "--out", "page.html", "--force")[0] == 0
    assert Path("page.html").read_bytes() != page
    Path("novel.txt").write_text("Chapter 1")
    status, out, err = elman("steps", "hell", "ello", "--out", "novel.txt", "--force")
    assert (status, out) == (2, "")
    assert "novel.txt exists and is not a page of elman steps" in err
    assert Path("novel.txt").read_text() == "Chapter 1"


def test_a_page_in_a_folder_that_is_not_there_is_refused_with_advice(elman):
    status, _, err = elman("steps", "hell", "ello", "--out", "nowhere/page.html")
    assert status == 2
    assert "No such file or directory. Create its folder first, or choose another one." in err
