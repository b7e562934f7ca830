"""What the README shows works: its Python runs, and its commands have the flags that they use."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest
import requests

from elman.cli.flags import parse
from elman.cli.main import COMMANDS
from elman.models import LanguageModel

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
IN_BLOCKS = re.findall(r"^ {4}(?:\$ |.*\| |mpirun -n \d+ )?(elman .*?)(?: +#.*)?$", README, re.MULTILINE)
IN_SENTENCES = re.findall(r"`(elman [^`]+)`", README)
PLACES = {"SOURCE": "novel.txt", "RUN": "runs/novel", "[FILE|-]": "-", "FOLDER": "lab", "FILE": "lab/bptt.py"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    (folder / "novel.txt").write_text("It is a truth universally acknowledged, that some other text exists. " * 30)
    return folder


def test_python_of_the_readme_runs(folder, monkeypatch):
    """All of it in one test: a snippet loads what the one before has saved."""
    monkeypatch.chdir(folder)
    for code in SNIPPETS:
        if "OpenAI" not in code:
            quick = code.replace("hidden=256, epochs=15", "hidden=16, steps=5").replace(
                "layers=2", "layers=2, epochs=1"
            )
            exec(compile(quick, f"README.md, {code.splitlines()[0]}", "exec"), {})


def wait_until_ready(url, seconds=120):
    """The first start compiles kernels, which takes longer than a client retries."""
    end = time.monotonic() + seconds
    while requests.get(url, timeout=60).status_code != 200:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_the_openai_client_of_the_readme_runs(folder):
    pytest.importorskip("openai")
    (code,) = (code for code in SNIPPETS if "OpenAI" in code)
    run = folder / "runs" / "pride-and-prejudice"
    LanguageModel(hidden=8, steps=2, batch_size=2, window=8).fit("It is a truth. " * 20).save(run)
    command = [sys.executable, "-m", "elman", "serve", "--port", "0", str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as service:
        assert service.stdout is not None
        url = re.search(r"http://[^\s/]+", service.stdout.readline())
        try:
            assert url is not None
            wait_until_ready(f"{url[0]}/health")
            answer = (
                code.replace("http://127.0.0.1:8765", url[0])
                .strip()
                .replace("client.completions", "text = client.completions")
            )
            scope: dict[str, object] = {}
            exec(answer, scope)
            assert len(str(scope["text"])) == 100
        finally:
            service.terminate()


@pytest.mark.parametrize("line", sorted({*IN_BLOCKS, *IN_SENTENCES}))
def test_commands_of_the_readme_have_the_flags_that_they_use(line):
    for place, word in PLACES.items():
        line = line.replace(place, word)
    _, *words = shlex.split(line)
    if not words or words[0].startswith("-") or "COMMAND" in words:
        return
    assert words[0] in COMMANDS
    if "--help" in words:
        return
    module, kind = COMMANDS[words[0]][0].split(":")
    assert parse(getattr(import_module(module), kind), words[0], words[1:])
