"""elman lab: files with gaps, a table of verdicts, and exit codes."""

from __future__ import annotations

from pathlib import Path


def test_start_writes_files_and_check_says_what_is_missing(elman):
    status, out, err = elman("lab", "start", "here")
    assert (status, err) == (0, "")
    assert "here/rnn.py" in out
    assert "Fill in the gaps" in out
    status, out, err = elman("lab", "check", "here/rnn.py")
    assert (status, err) == (1, "")
    assert "softmax                 not written yet" in out
    assert "0 of 9 gaps are right" in out


def test_check_names_a_mistake(elman):
    assert "Fill in the gaps" not in elman("lab", "start", "here", "--solutions").out
    assert elman("lab", "check", "here/lstm.py").status == 0
    path = Path("here/rnn.py")
    text = path.read_text()
    path.write_text(text.replace("d_h * (1 - h_next**2)", "d_h"))
    status, out, _ = elman("lab", "check", path, "--seed", "5")
    assert status == 1
    assert "what you get if 1 − h² is missing: docs/maths.md, section 6" in " ".join(out.split())
    assert "8 of 9 gaps are right" in out


def test_bad_input_is_refused(elman):
    elman("lab", "start", "here")
    for words in (("start", "here"), ("check", "none.py"), ("check", "here/rnn.py", "--seconds", "0")):
        status, _, err = elman("lab", *words)
        assert status == 2
        assert err.startswith("elman: ")
