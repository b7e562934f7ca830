"""The page without a run, a key or a service; and elman train --watch, which opens it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from serve_tools import TEXT, Server, in_thread, until

from elman.cli.main import attempt
from elman.training.run import Run

SHOWN = "document.getElementById('{}').innerText"


@pytest.fixture
def bare(tmp_path):
    """A service without a run."""
    with in_thread(runs=tmp_path) as found:
        yield found


def test_without_a_run_the_page_says_what_to_do(open_page, bare):
    watched = open_page(bare.url)
    page = watched.page
    page.wait_for_selector("#empty h1")
    assert "elman serve runs/novel" in page.inner_text("#empty")
    page.click("#empty >> text=train a small model here")
    page.wait_for_selector("#train-form textarea")
    page.check("[name=source][value=corpus]")
    page.wait_for_selector("[name=corpus] option[value=pride-and-prejudice]", state="attached")
    page.click("nav >> text=Steps")
    page.wait_for_selector(".formula")  # Steps needs no run
    watched.check()
    page.click("nav >> text=Learn")
    page.check("[name=source][value=text]")
    page.click("#train-form [type=submit]")
    page.wait_for_selector("#train-status.wrong")
    assert page.inner_text("#train-status") == "Paste some text first."
    page.fill("#train-form textarea", "x")
    page.click("#train-form [type=submit]")
    until(page, f"{SHOWN.format('train-status')}.includes('at least two tokens')")
    assert "standard input" not in page.inner_text("#train-status")


def test_the_page_asks_for_the_key_and_keeps_it_for_the_tab(open_page, server):
    page = open_page(f"{server.url}/#write/char").page
    page.wait_for_selector("#key-dialog[open]")
    page.click("#no-key")
    until(page, f"{SHOWN.format('banner')}.includes('key')")
    page.click("#banner button")
    page.fill("#key", "open barley")
    page.keyboard.press("Enter")
    until(page, f"{SHOWN.format('key-status')}.startsWith('That key is wrong')")
    page.fill("#key", "open sesame")
    page.keyboard.press("Enter")
    page.wait_for_selector("#text span")  # which is streamed
    assert page.is_hidden("#banner")
    page.reload()
    page.wait_for_selector("#text span")
    assert page.evaluate("Object.keys(localStorage).length") == 0
    stranger = page.context.new_page()  # another tab has no key
    stranger.goto(server.url)
    stranger.wait_for_selector("#key-dialog[open]")


def test_the_page_notices_when_the_service_stops_and_when_it_is_back(open_page, runs, tmp_path):
    server = Server(runs / "char")
    page = open_page(f"{server.url}/#learn").page
    page.wait_for_selector("#loss-figure.drawn", timeout=20_000)
    code, _, err = server.stop()
    assert (code, err) == (0, "")  # an open page does not delay the shutdown
    page.wait_for_selector("#banner:not([hidden])")
    assert "elman serve runs/char" in page.inner_text("#banner")
    assert page.is_visible("#loss-figure")  # what it knew last
    with in_thread(runs / "char", runs=tmp_path, port=int(server.url.rpartition(":")[2])):
        page.wait_for_selector("#banner", state="hidden", timeout=20_000)
        page.click("nav >> text=Write")
        page.wait_for_selector("#text span")


# -- elman train --watch -----------------------------------------------------------------------------------------------


def train(folder: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    (folder / "cats.txt").write_text(TEXT * 4)
    clean = {name: value for name, value in os.environ.items() if name not in ("ELMAN_API_KEY", "BROWSER", "DISPLAY")}
    return subprocess.Popen(
        [sys.executable, "-m", "elman", "train", "cats.txt", "--watch", "--hidden", "16", "--batch-size", "4",
         "--patience", "0", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env={**clean, **environment},
    )  # fmt: skip


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"http://\S+", line):
            return found[0]
    raise AssertionError(process.communicate())


def test_watch_opens_the_run_in_a_browser_and_ends_with_it(open_page, tmp_path):
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > "{tmp_path}/opened"\n')
    browser.chmod(0o755)
    process = train(tmp_path, "--steps", "1000000", "--log-every", "50", BROWSER=str(browser))
    address = address_of(process)
    watched = open_page(address, home=address.partition("#")[0])
    page = watched.page
    page.wait_for_selector("#loss-figure.drawn", timeout=20_000)
    assert "training" in page.inner_text("#run-head").lower()
    assert (tmp_path / "opened").read_text().strip() == address
    watched.check()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "everything is saved" in out
    assert "ERROR" not in err
    steps = [row["step"] for row in Run(tmp_path / "runs" / "cats").metrics()]
    until(page, f"document.getElementById('loss-figure').data[0].x.at(-1) === {steps[-1]}")  # to the last row
    until(page, f"{SHOWN.format('run-head')}.toLowerCase().includes('stopped')")
    page.wait_for_selector("#banner:not([hidden])")


def test_watch_works_without_a_browser_and_with_resume(tmp_path, monkeypatch, capsys):
    process = train(tmp_path, "--steps", "5", BROWSER="no-such-browser")
    assert address_of(process).endswith("/#learn")
    process.communicate(timeout=60)
    assert process.returncode == 0
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BROWSER", "no-such-browser")
    assert attempt(["train", "--resume", "runs/cats", "--steps", "8", "--watch"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "Watch it learn: http://127.0.0.1:" in out


@pytest.mark.parametrize("task", ["lm", "classify"])
def test_watch_without_the_extra_says_what_to_install(tmp_path, task, monkeypatch, capsys):
    (tmp_path / "cats.tsv").write_text("meow\tcat\nwoof\tdog\n" * 20)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "elman.serve.server")  # as in a process that has not imported it yet
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert attempt(["train", "cats.tsv", "--task", task, "--watch", "--out", "run"]) == 2
    assert "pip install 'elman[serve]'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
