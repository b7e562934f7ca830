"""The thread pool: results in order, errors that are raised, forked children, callers from several threads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest

from elman.errors import RangeError
from elman.kernels import recurrence, threads
from elman.maths.cells import make_cell
from elman.network import Batch, language_network

FORK = """
import os, sys
import numpy as np
from elman.kernels import recurrence, threads
from elman.maths.cells import make_cell
from elman.network import Batch, language_network

def bits():
    rng = np.random.default_rng(0)
    network = language_network(9, 8, 2)
    p = network.initial(rng, recurrent="orthogonal", gain=1, token_scale=0.3, dtype=np.dtype("float32"))
    x, y = rng.integers(9, size=(2, 5, 80))
    d = p.zeros()
    network.loss_and_gradients(p, Batch(x, y), d, normalizer=1)
    return d.buffer.tobytes()

threads.set_threads(3)
before = bits()
assert threads._pool is not None  # the parent's threads are running
for generation in range(2):
    child = os.fork()
    if child == 0:
        if bits() != before:
            os._exit(3)
        if generation == 1:
            os._exit(0)
    else:
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code:
            os._exit(code)
        if generation == 1 or bits() != before:
            os._exit(0 if generation == 1 else 4)
        os._exit(0)
"""


@pytest.fixture(autouse=True)
def default_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("ELMAN_THREADS", raising=False)
    yield
    threads.set_threads(None)


def test_results_come_in_the_order_of_the_calls_from_several_threads() -> None:
    threads.set_threads(4)
    started = threading.Barrier(3)

    def call(number: int) -> tuple[int, str]:
        started.wait(10)  # three at once, or this breaks
        time.sleep(0.03 * (3 - number))  # the last is done first
        return number, threading.current_thread().name

    results = threads.run([lambda n=n: call(n) for n in range(3)])
    assert [number for number, _ in results] == [0, 1, 2]
    assert len({name for _, name in results}) == 3


def test_one_thread_is_the_thread_of_the_caller() -> None:
    threads.set_threads(1)
    me = threading.current_thread().name
    assert threads.run([lambda: threading.current_thread().name] * 3) == [me] * 3


@pytest.mark.parametrize("failing", [0, 2])
def test_an_error_in_a_call_is_raised_and_the_pool_still_works(failing: int) -> None:
    threads.set_threads(3)

    def fail() -> int:
        raise KeyError("lost")

    calls = [lambda: 1, lambda: 2, lambda: 3]
    calls[failing] = fail
    with pytest.raises(KeyError, match="lost"):
        threads.run(calls)
    assert threads.run([lambda: 1, lambda: 2, lambda: 3]) == [1, 2, 3]


def test_thread_count_is_set_or_from_the_environment_or_the_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    assert threads.thread_count() == len(os.sched_getaffinity(0))
    monkeypatch.setenv("ELMAN_THREADS", "5")
    assert threads.thread_count() == 5
    threads.set_threads(2)
    assert threads.thread_count() == 2
    threads.set_threads(None)
    for nonsense in ("0", "-1", "two", "1.5", " ", "²"):
        monkeypatch.setenv("ELMAN_THREADS", nonsense)
        with pytest.raises(RangeError, match="ELMAN_THREADS"):
            threads.thread_count()
    for count in (0, -3):
        with pytest.raises(RangeError):
            threads.set_threads(count)


def test_a_forked_child_and_its_child_work_and_give_the_same_bits() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_callers_from_several_threads_at_once_get_the_bits_that_they_get_alone() -> None:
    threads.set_threads(3)

    def bits(seed: int) -> list[bytes]:
        rng = np.random.default_rng(seed)
        network = language_network(9, 8, 2)
        p = network.initial(rng, recurrent="orthogonal", gain=1, token_scale=0.3, dtype=np.dtype("float32"))
        x, y = rng.integers(9, size=(2, 5, 80))
        state, seen = network.stack.zero_state(80, p.buffer.dtype), []
        for _ in range(5):
            d = p.zeros()
            network.loss_and_gradients(p, Batch(x, y, state=state), d, normalizer=1)
            seen.append(d.buffer.tobytes())
        return seen

    alone = [bits(seed) for seed in range(6)]
    together: dict[int, list[bytes]] = {}
    threads.set_threads(3)  # a new pool, which all of them want to make
    callers = [threading.Thread(target=lambda s=s: together.update({s: bits(s)})) for s in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert [together.get(seed) for seed in range(6)] == alone


def test_an_interrupt_waits_until_no_slice_is_running() -> None:
    threads.set_threads(2)
    finished = threading.Event()

    def slow() -> None:
        time.sleep(0.6)
        finished.set()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)  # while the first call is done and the second is waited for
    try:
        with pytest.raises(KeyboardInterrupt):
            threads.run([lambda: None, slow])
    finally:
        signal.signal(signal.SIGALRM, before)
    assert finished.is_set()


def test_slices_that_start_together_pack_the_weights_of_dense_inputs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice must not read what another one is still packing."""
    rng = np.random.default_rng(0)
    cell, dtype = make_cell("rnn"), np.dtype("float32")
    p = {name: rng.standard_normal(shape).astype(dtype) for name, shape in cell.shapes(5, 8).items()}
    x = rng.standard_normal((3, 2, 5)).astype(dtype)
    expected = recurrence.cell_forward(cell, x, None, p).s.tobytes()
    layer, packed, pack = recurrence.CompiledLayer(cell, 5, 8, dtype), [], recurrence.pack_forward

    def slow_pack(W: np.ndarray, to: np.ndarray) -> None:
        packed.append(to)
        to[:] = np.nan
        time.sleep(0.05)
        pack(W, to)

    monkeypatch.setattr(recurrence, "pack_forward", slow_pack)
    layer.pack(p)
    threads.set_threads(3)
    traces = threads.run([partial(layer.forward, x, None)] * 3)
    assert [trace.s.tobytes() for trace in traces] == [expected] * 3
    assert len(packed) == 1
