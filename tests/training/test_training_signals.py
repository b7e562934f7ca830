"""Ctrl-C and SIGTERM before there is anything to save, and in a user's program. Real signals."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_training_commands import checkpoints, running
from training_tools import SMALL, command, elman, environment, flags, small_text

from elman import LanguageModel, Seq2Seq, SequenceClassifier, SequenceGenerator, SequenceRegressor, SequenceTagger
from elman.errors import InterruptedWarning, NotFittedError
from elman.training import Event, Run, Started, Stepped
from elman.training.signals import stop_on_interrupt, stop_on_signals

# one call of compiled code takes seconds, a step much longer
HUGE = ["--hidden", "3000", "--recurrent-init", "identity", "--window", "1024", "--batch-size", "32"]
SOON = 15.0  # seconds, on a machine with other work to do


def end(process: subprocess.Popen[str], number: int) -> tuple[float, str]:
    began = time.monotonic()
    process.send_signal(number)
    try:
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    return time.monotonic() - began, errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_first_step_of_a_huge_network_ends_it_at_once(
    number: signal.Signals, tmp_path: Path, cache: Path
) -> None:
    text, run = tmp_path / "text.txt", tmp_path / "run"
    text.write_text(small_text(50_000), encoding="utf-8")
    with running("train", text, "--out", run, "--steps", "3", *HUGE, cache=cache) as process:
        assert any(line.startswith("Training:") for line in iter(process.stdout.readline, ""))
        time.sleep(0.5)  # it is in compiled code
        took, errors = end(process, number)
    assert (process.returncode, took < SOON) == (128 + number, True)
    assert "Stopping after this step" not in errors
    assert "Traceback" not in errors
    assert checkpoints(run) == []
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    with Run(run).lock():  # its lock is free
        pass


def test_a_signal_while_seconds_are_measured_ends_it_at_once(tmp_path: Path, cache: Path) -> None:
    text, run = tmp_path / "text.txt", tmp_path / "run"
    text.write_text(small_text(50_000), encoding="utf-8")
    with running("train", text, "--out", run, "--seconds", "600", *HUGE, cache=cache) as process:
        assert any(line.startswith("Network:") for line in iter(process.stdout.readline, ""))
        time.sleep(3.0)
        took, errors = end(process, signal.SIGTERM)
    assert (process.returncode, took < SOON) == (143, True)
    assert "Traceback" not in errors
    assert not run.exists()


def test_a_signal_during_compilation_ends_it_at_once(text: Path, tmp_path: Path) -> None:
    variables = environment(tmp_path / "cache") | {"ELMAN_CACHE": str(tmp_path / "nothing compiled yet")}
    words, pipe = command("train", text, "--out", tmp_path / "run", *flags(SMALL)), subprocess.PIPE
    with subprocess.Popen(words, env=variables, stdout=pipe, stderr=pipe, text=True) as process:
        assert any(line.startswith("Network:") for line in iter(process.stdout.readline, ""))
        time.sleep(2.0)
        took, errors = end(process, signal.SIGINT)
    assert (process.returncode, took < SOON) == (130, True)
    assert "Stopping after this step" not in errors
    assert "Traceback" not in errors
    assert checkpoints(tmp_path / "run") == []


def test_a_run_that_was_ended_before_its_first_step_can_go_on(tmp_path: Path, cache: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(small_text(), encoding="utf-8")
    LanguageModel(**SMALL).fit(text, out=tmp_path / "whole", listeners=[])
    with pytest.raises(KeyboardInterrupt):
        LanguageModel(**SMALL).fit(text, out=tmp_path / "ended", listeners=[interrupt_at(Started)])
    done = elman("train", "--resume", tmp_path / "ended", cache=cache)
    assert done.returncode == 0
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "ended")]
    assert models[0] == models[1]


# -- Ctrl-C in fit ----------------------------------------------------------------------------------------------------


def interrupt_at(kind: type, step: int = 0) -> Callable[[Event], None]:
    """A listener that does what Ctrl-C does."""

    def listen(event: Event) -> None:
        if isinstance(event, kind) and event.step == step:
            os.kill(os.getpid(), signal.SIGINT)

    return listen


WORDS, LABELS = ["ab", "cd", "abc", "d"] * 10, ["x", "y", "x", "y"] * 10
ESTIMATORS: dict[str, tuple[Callable[..., Any], tuple[Any, Any]]] = {
    "LanguageModel": (LanguageModel, (small_text(), None)),
    "SequenceClassifier": (SequenceClassifier, (WORDS, LABELS)),
    "SequenceRegressor": (SequenceRegressor, (WORDS, np.arange(40.0))),
    "SequenceTagger": (SequenceTagger, ([list(word) for word in WORDS], [list(word.upper()) for word in WORDS])),
    "SequenceGenerator": (SequenceGenerator, (LABELS, WORDS)),
    "Seq2Seq": (Seq2Seq, (WORDS, [word[::-1] for word in WORDS])),
}


def use(model: Any, X: Any) -> object:
    return model.sample(5) if isinstance(model, LanguageModel) else model.predict(X[:2])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_interrupting_fit_keeps_the_model_warns_and_interrupts(name: str) -> None:
    kind, (X, y) = ESTIMATORS[name]
    options = {"hidden": 6, "batch_size": 4, "steps": 10_000} | ({"window": 10} if kind is LanguageModel else {})
    model = kind(**options)
    with pytest.warns(InterruptedWarning, match="after step 7: the model is fitted"), pytest.raises(KeyboardInterrupt):
        model.fit(X, y, listeners=[interrupt_at(Stepped, 7)])
    assert use(model, X) is not None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    fresh = kind(**options)
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(X, y, listeners=[interrupt_at(Started)])
    with pytest.raises((NotFittedError, AttributeError, ValueError), match="not fitted"):
        use(fresh, X)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupted_model_is_the_best_so_far() -> None:
    text = small_text()
    seen: list[Stepped] = []

    def listen(event: Event) -> None:
        if isinstance(event, Stepped) and event.validation_loss is not None:
            seen.append(event)
            if event.validation_loss > 1.01 * min(e.validation_loss for e in seen):  # it got worse
                os.kill(os.getpid(), signal.SIGINT)

    options = {"learning_rate": 0.5, "steps": 10_000, "validate_every": 1, "optimizer": "sgd"}
    model = LanguageModel(**SMALL | options)
    with pytest.warns(InterruptedWarning), pytest.raises(KeyboardInterrupt):
        model.fit(text, listeners=[listen])
    best = min(e.validation_loss for e in seen)
    assert seen[-1].validation_loss > best
    held_out = text[-round(0.1 * len(text)) :]
    assert -model.score(held_out) == pytest.approx(best, rel=1e-3)
    assert model.fitted_.finished.best_loss == best


def test_an_interrupted_fit_with_a_run_folder_can_be_resumed(text: Path, tmp_path: Path, cache: Path) -> None:
    with pytest.warns(InterruptedWarning), pytest.raises(KeyboardInterrupt):
        LanguageModel(**SMALL).fit(text, out=tmp_path / "run", listeners=[interrupt_at(Stepped, 7)])
    assert checkpoints(tmp_path / "run")[-1] == 7
    assert elman("train", "--resume", tmp_path / "run", cache=cache).returncode == 0
    LanguageModel(**SMALL).fit(text, out=tmp_path / "whole", listeners=[])
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "run")]
    assert models[0] == models[1]


def test_a_fitted_model_whose_second_fit_is_interrupted_before_a_step_stays_as_it_was(text: Path) -> None:
    model = LanguageModel(**SMALL).fit(text, listeners=[])
    before = model.sample(50)
    model.set_params(tokens="byte")
    with pytest.raises(KeyboardInterrupt):
        model.fit(text, listeners=[interrupt_at(Started)])
    assert model.sample(50) == before
    assert model.config_.tokens == "char"


@pytest.mark.parametrize(
    ("stop_on", "number", "raised"),
    [
        (stop_on_interrupt, signal.SIGINT, KeyboardInterrupt),
        (stop_on_signals, signal.SIGINT, KeyboardInterrupt),
        (stop_on_signals, signal.SIGTERM, SystemExit),
    ],
)
def test_an_interrupt_that_a_callback_drops_replaces_the_error_that_it_causes(stop_on, number, raised) -> None:
    def compile_() -> None:
        with contextlib.suppress(BaseException):  # as a callback from LLVM does
            os.kill(os.getpid(), number)
            time.sleep(0.5)
        raise RuntimeError("no compiled object yet")

    old = signal.signal(signal.SIGINT, signal.default_int_handler)  # a worker of pytest-xdist ignores it
    try:
        with pytest.raises(raised), stop_on():
            compile_()
        with pytest.raises(RuntimeError), stop_on():
            raise RuntimeError("without a signal")
    finally:
        signal.signal(signal.SIGINT, old)


def test_an_interrupt_in_a_callback_is_not_printed_and_stops_the_loop(capsys: pytest.CaptureFixture[str]) -> None:
    @ctypes.CFUNCTYPE(None)
    def callback() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.5)

    old, hook = signal.signal(signal.SIGINT, signal.default_int_handler), sys.unraisablehook
    try:
        sys.unraisablehook = sys.__unraisablehook__  # that of pytest would fail the test
        with stop_on_interrupt() as asked:
            callback()
            assert asked()
        assert sys.unraisablehook is sys.__unraisablehook__
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGINT, old)
    assert capsys.readouterr().err == ""
