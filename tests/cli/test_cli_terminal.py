"""Text from files on a terminal: its control characters are made visible, never sent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from elman import LanguageModel, SequenceClassifier
from elman.cli.console import visible

pty = pytest.importorskip("pty", reason="needs a pseudo-terminal")

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f"


def on_terminal(*words: object, stdin: str = "") -> str:
    """All that a command writes to a terminal, as stdout and as stderr."""
    terminal, side = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "elman", *map(str, words)], stdin=subprocess.PIPE, stdout=side, stderr=side
    ) as process:
        os.close(side)
        assert process.stdin is not None
        process.stdin.write(stdin.encode())
        process.stdin.close()
        seen = b""
        try:
            while chunk := os.read(terminal, 1 << 16):
                seen += chunk
        except OSError:  # EIO: the other side is closed
            pass
        process.wait(timeout=60)
    os.close(terminal)
    return seen.decode()


def harmless(seen: str) -> bool:
    return not any(code in seen for code in ("\x1b]0", "\x1b[2J", "\x9b", "\x7f", "\x07"))


def spoil(run: Path, name: str, change: dict[str, object]) -> None:
    file = run / name
    file.write_text(json.dumps(json.loads(file.read_bytes()) | change))


def test_text_keeps_its_lines_tabs_and_letters() -> None:
    assert visible("ä\tb\n€ 漢 \N{GRINNING FACE}") == "ä\tb\n€ 漢 \N{GRINNING FACE}"
    assert visible("\x1b[1m\x9b\r\0") == r"\x1b[1m\x9b\x0d\x00"


@pytest.mark.parametrize("terminal", [True, False])
def test_show_and_resume_escape_control_characters_of_config_json(run: Path, terminal: bool) -> None:
    config = json.loads((run / "config.json").read_bytes())
    spoil(run, "config.json", {"data": config["data"] | {"name": EVIL}, "environment": {"cpu": EVIL}})
    for words in (["show", run], ["train", "--resume", run, "--steps", 41]):
        if terminal:
            seen = on_terminal(*words)
        else:
            done = subprocess.run(
                [sys.executable, "-m", "elman", *map(str, words)], check=False, capture_output=True, text=True
            )
            seen = done.stdout + done.stderr
        assert r"\x1b]0;owned" in seen
        assert harmless(seen)


def test_an_error_escapes_control_characters_of_a_file(run: Path) -> None:
    spoil(run, "config.json", {"task": EVIL})
    seen = on_terminal("sample", run)
    assert "expected a language model" in seen
    assert harmless(seen)
    (run / "config.json").unlink()
    (run / "config.json").symlink_to("missing")
    odd = run.rename(f"run{EVIL}")
    assert harmless(on_terminal("show", odd))


def test_a_sample_is_exact_in_a_pipe_and_escaped_on_a_terminal() -> None:
    prompt = "\x1b]0;owned\x07"
    LanguageModel(hidden=8, batch_size=2, window=8, steps=2, epochs=None).fit(f"{prompt}ab\n" * 60, out=Path("run"))
    words = ["sample", "run", "--prompt", prompt, "--length", "30"]
    piped = subprocess.run([sys.executable, "-m", "elman", *words], check=True, capture_output=True, text=True).stdout
    assert piped.startswith(prompt)
    seen = on_terminal(*words)
    assert harmless(seen)
    assert seen.replace("\r\n", "\n") == visible(piped)
    several = on_terminal(*words, "--count", "2")
    assert harmless(several)


def test_a_class_from_a_file_is_escaped_on_a_terminal() -> None:
    SequenceClassifier(hidden=4, steps=2, epochs=None).fit(["ab", "cd"] * 8, [EVIL, "x"] * 8, out="run")
    for flags in ([], ["--proba"], ["--proba", "--json"]):
        assert harmless(on_terminal("predict", "run", "-", *flags, stdin="ab\ncd\n"))
