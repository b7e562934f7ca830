"""What the README shows works: its Python runs, and its commands have the flags that they use."""

from __future__ import annotations

import json
import os
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
from elman.files import cache_root
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
    run = folder / "runs" / "first"
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


OF_THE_READER = {"novel.txt", "letters.txt", "names.txt", "other.txt"}
# instead of what takes minutes
LONG = {"elman compile": "elman compile --cell rnn --task lm", "elman gradcheck": "elman gradcheck --quick"}


def first_commands():
    """The commands before the first section that needs an extra, in their order: those in blocks and in sentences.

    Left out are those that read a file of the reader's, or have a word such as RUN in place of a name.
    """
    shown, _, _ = README.partition("## Inspect a model")
    for in_block, in_sentence in re.findall(r"^ {4}\$ (.+?)(?: +#.*)?$|`(elman [^`]+)`", shown, re.MULTILINE):
        line = (in_block or in_sentence).strip()
        words = set(shlex.split(line.rpartition(" | ")[2]))
        if not words & {*OF_THE_READER, *PLACES, "TASK"}:
            yield line


def short(line):
    """The command with two training steps instead of its seconds or epochs."""
    if not line.startswith("elman train") or {"--help", "--resume"} & set(line.split()):
        return LONG.get(line, line)
    return re.sub(r" --seconds \d+", "", line) + " --steps 2"


def test_commands_of_the_readme_run_in_their_order_without_a_network(tmp_path):
    """In processes, in an empty folder and with an empty cache, which shares only the compiled kernels."""
    folder, cache, kernels = tmp_path / "here", tmp_path / "cache", cache_root() / "kernels"
    for path in (folder, cache, kernels):
        path.mkdir(parents=True, exist_ok=True)
    (cache / "kernels").symlink_to(kernels, target_is_directory=True)
    env = {name: value for name, value in os.environ.items() if name.lower() not in ("no_proxy", "elman_data")}
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        env[name] = "http://127.0.0.1:9"  # no server listens there
    env |= {"ELMAN_CACHE": str(cache), "PYTHONIOENCODING": "utf-8"}
    printed = {}
    for line in first_commands():
        echo, _, command = short(line).rpartition(" | ")
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(command)],
            input=" ".join(shlex.split(echo)[1:]),
            env=env,
            cwd=folder,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        assert done.stdout, line
        printed[line] = done.stdout
    assert "pride-and-prejudice could not be fetched" in next(text for text in printed.values() if "Run folder" in text)
    tasks = [json.loads(path.read_text())["task"] for path in folder.glob("runs/*/config.json")]
    assert {*tasks} == {"lm", "classify", "regress", "tag", "generate", "translate"}
