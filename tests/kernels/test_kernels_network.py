"""The compiled window against the reference, and the same bits with any threads, callers and forked processes."""

from __future__ import annotations

import ast
import json
import threading
from pathlib import Path

import numpy as np
import pytest
from kernels_tools import FLOATS, ROOT, assert_close, output_of, same_bits

from elman.kernels import layers, recurrence, reference
from elman.kernels.threads import set_threads
from elman.maths.cells import make_cell
from elman.maths.truncation import Truncation
from elman.network import Batch, Draw, Dropout, HeadNetwork, Stack, stack
from elman.network import network as network_module

ENGINES = {
    "compiled": (recurrence.make_layer, layers.make_output),
    "reference": (reference.make_layer, reference.make_output),
}


@pytest.fixture(autouse=True)
def default_threads():
    yield
    set_threads(None)


@pytest.fixture
def engine(monkeypatch):
    """Choose an engine, whatever ELMAN_KERNELS says."""

    def choose(name):
        make_layer, make_output = ENGINES[name]
        monkeypatch.setattr(stack, "make_layer", make_layer)
        monkeypatch.setattr(network_module, "make_output", make_output)

    return choose


class Window:
    """A network with a window of ids, a state that was carried in, and gradients that are already there."""

    def __init__(self, T=4, B=5, H=33, V=9, L=2, dtype=np.float64, *, activation="tanh", masked=False, Y=None, seed=0,
                 cell="rnn"):  # fmt: skip
        rng = np.random.default_rng([T, B, H, V, L, seed])
        Y = V if Y is None else Y
        self.make = lambda: HeadNetwork(Stack(V, H, L, cell=make_cell(cell, activation)), Y)
        self.p = self.make().initial(rng, recurrent="orthogonal", gain=0.9, token_scale=0.8, dtype=np.float64)
        self.p.buffer += 0.1 * rng.standard_normal(self.p.buffer.size)
        self.x, self.y = rng.integers(V, size=(T, B)), rng.integers(Y, size=(T, B))
        self.state = 0.5 * rng.standard_normal((L, make_cell(cell).parts, B, H))
        self.begun = rng.standard_normal(self.p.buffer.size)
        self.draw = Draw(Dropout(layers=0.5, states=0.3), seed, 7) if masked else None
        self.normalizer, self.dtype = 0.7 * T * B, dtype

    def run(self, *, truncation=None, dtype=None, network=None):
        """The loss, all gradients, added to those already there, and the state after the window."""
        dtype = self.dtype if dtype is None else dtype
        network = self.make() if network is None else network
        p = type(self.p)(self.p.shapes, dtype)
        p.buffer[:] = self.p.buffer.astype(self.dtype)
        d = p.zeros()
        d.buffer[:] = self.begun.astype(self.dtype)
        state = self.state.astype(self.dtype).astype(dtype)
        loss = network.loss_and_gradients(
            p,
            Batch(self.x, self.y, state=state),
            d,
            normalizer=self.normalizer,
            draw=self.draw,
            truncation=truncation,
            add=True,
        )
        return [np.float64(loss), d.buffer, state]


def assert_same_windows(window, engine, truncation=None):
    engine("compiled")
    ours = window.run(truncation=truncation)
    engine("reference")
    theirs = window.run(truncation=truncation, dtype=np.float64)
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a, b, window.dtype)


SHAPES = [(1, 1, 1, 1), (1, 5, 33, 7), (5, 1, 32, 3), (3, 15, 47, 65), (4, 16, 31, 9), (3, 37, 48, 33), (2, 130, 17, 5)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("L", [1, 2, 3])
@pytest.mark.parametrize(("T", "B", "H", "V"), SHAPES)
def test_a_window_is_that_of_the_reference(T, B, H, V, L, masked, dtype, engine):
    assert_same_windows(Window(T, B, H, V, L, dtype, masked=masked), engine)


@pytest.mark.parametrize("activation", ["relu", "sigmoid", "identity"])
@pytest.mark.parametrize("masked", [False, True])
def test_other_activations(activation, masked, engine):
    assert_same_windows(Window(activation=activation, masked=masked), engine)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("masked", [False, True])
def test_other_cells(cell, masked, engine):
    for dtype in FLOATS:
        for T, B, H, V in SHAPES:
            assert_same_windows(Window(T, B, H, V, 2, dtype, masked=masked, cell=cell), engine)
        for truncation in (Truncation(1, 1), Truncation(2, 3)):
            assert_same_windows(Window(T=5, B=17, H=17, L=2, dtype=dtype, masked=masked, cell=cell), engine, truncation)


@pytest.mark.parametrize("L", [1, 2])
@pytest.mark.parametrize(("V", "Y"), [(5, 21), (21, 5)])
def test_any_number_of_inputs_and_outputs(V, Y, L, engine):
    assert_same_windows(Window(V=V, Y=Y, L=L), engine)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "truncation", [Truncation(1, 1), Truncation(1, 3), Truncation(2, 3), Truncation(3, 4), Truncation(2, 9)]
)
def test_a_truncated_window_is_that_of_the_reference(truncation, masked, dtype, engine):
    for L, B in ((1, 3), (2, 17), (3, 2)):
        assert_same_windows(Window(T=5, B=B, H=17, L=L, dtype=dtype, masked=masked), engine, truncation)


def test_there_are_several_slices_in_these_tests():
    ids = np.zeros((1, 130), np.int64)
    assert [len(Batch(ids[:, :B], ids[:, :B]).slices()) for B in (1, 15, 16, 37, 130)] == [1, 1, 2, 2, 3]


def test_ids_of_any_integer_type_and_layout(engine):
    engine("compiled")
    window = Window()
    expected = window.run()
    x, y = window.x, window.y
    for change in (
        lambda a: a.astype(np.uint16), lambda a: a.astype(np.int32), np.asfortranarray, lambda a: a[::-1].copy()[::-1],
    ):  # fmt: skip
        window.x, window.y = change(x), change(y)
        assert all(same_bits(a, b) for a, b in zip(window.run(), expected, strict=True))


def test_a_window_after_a_window_of_another_size_and_back(engine):
    """Workspaces are kept by size: what another window left in them is not seen."""
    engine("compiled")
    network, first = Window().make(), Window(seed=1)
    expected = first.run()
    assert all(same_bits(a, b) for a, b in zip(first.run(network=network), expected, strict=True))
    for other in (Window(seed=2), Window(T=2), Window(B=20), Window(masked=True), first):
        again = other.run(network=network)
        assert all(same_bits(a, b) for a, b in zip(again, other.run(), strict=True))
    assert all(same_bits(a, b) for a, b in zip(first.run(network=network), expected, strict=True))


def test_nan_in_a_weight_or_a_state_is_seen_in_the_loss(engine):
    engine("compiled")
    for name in Window().p:
        window = Window()
        window.p[name][(0,) * window.p[name].ndim] = np.nan
        if name == "layers.0.W_xh":
            window.x[0, 0] = 0
        assert np.isnan(window.run()[0]), name
    for layer in range(2):
        window = Window()
        window.state[layer, 0, 2, 3] = np.nan
        assert np.isnan(window.run()[0])


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("truncation", [None, Truncation(2, 3)])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_the_same_bits_for_any_number_of_threads(cell, dtype, truncation, masked, engine):
    engine("compiled")
    window = Window(T=6, B=133, H=49, V=31, dtype=dtype, masked=masked, cell=cell)
    results = []
    for threads in (1, 2, 3, 8, 8):
        set_threads(threads)
        results.append(window.run(truncation=truncation))
    assert all(same_bits(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))


def train(seed, steps=12):
    """A short training: each step starts from the parameters of the one before."""
    window = Window(T=5, B=40, H=20 + seed, V=9, L=1 + seed % 3, dtype=np.float32, masked=seed % 2 == 1, seed=seed)
    network, p = window.make(), type(window.p)(window.p.shapes, np.float32)
    p.buffer[:] = window.p.buffer
    state, losses, d = window.state.astype(np.float32), [], p.zeros()
    for _ in range(steps):
        batch = Batch(window.x, window.y, state=state)
        losses.append(network.loss_and_gradients(p, batch, d, normalizer=200.0, draw=window.draw))
        p.buffer -= np.float32(0.5) * d.buffer
    return [np.array(losses), p.buffer, state]


def test_networks_that_train_at_once_do_as_they_do_alone(engine):
    engine("compiled")
    alone = [train(seed) for seed in range(4)]
    assert alone[0][0][-1] < alone[0][0][0], "it learns"
    set_threads(3)
    together = [None] * 8
    begin = threading.Barrier(8)

    def work(i):
        begin.wait()
        together[i] = train(i % 4)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, results in enumerate(together):
        assert all(same_bits(a, b) for a, b in zip(results, alone[i % 4], strict=True)), i


FORK = """
import json, os, signal
import numpy as np
from threadpoolctl import threadpool_info
from elman.kernels import KERNELS
from elman.kernels import threads as pool
from elman.network import Batch, language_network
assert KERNELS == "compiled"
pool.set_threads(3)
def bits():
    n = language_network(5, 7, 2)
    p = n.initial(np.random.default_rng(0), recurrent="orthogonal", gain=1, token_scale=1, dtype=np.float32)
    x = np.arange(120).reshape(3, 40) % 5
    state, d = n.stack.zero_state(40, np.float32), p.zeros()
    losses = [n.loss_and_gradients(p, Batch(x, x, state=state), d, normalizer=120, add=True) for _ in range(3)]
    return b"".join(a.tobytes() for a in (np.array(losses), d.buffer, state))
before = bits()
blas = [i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"]
child = os.fork() if hasattr(os, "fork") else None
if child == 0:
    signal.alarm(60)  # a child that waits for threads it has not inherited would wait for ever
    os._exit(0 if bits() == before and pool._pool is not None else 3)
again = bits() == before
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if child else None
print(json.dumps({"blas": blas, "again": again, "child": code}))
"""


@pytest.fixture(scope="module")
def forked():
    """The output of a new process after its first window: threads of every BLAS, and the bits of it and its child."""
    environment = {"ELMAN_KERNELS": "compiled", "OPENBLAS_NUM_THREADS": None, "OMP_NUM_THREADS": None}
    return json.loads(output_of(FORK, **environment))


@pytest.mark.skipif("not hasattr(__import__('os'), 'fork')")
def test_a_forked_child_computes_the_same(forked):
    assert forked["again"]
    assert forked["child"] == 0


def test_every_blas_has_one_thread_after_the_first_window_also_the_one_that_numba_loads(forked):
    assert len(forked["blas"]) >= 1
    assert max(forked["blas"]) == 1


def test_one_network_with_parameters_of_both_types(engine):
    """Workspaces are kept by the size of a window: they must not be taken for numbers of another size."""
    engine("compiled")
    network = Window().make()
    for dtype in (np.float32, np.float64, np.float32):
        window = Window(dtype=dtype)
        assert all(same_bits(a, b) for a, b in zip(window.run(network=network), window.run(), strict=True))


def test_a_custom_activation_runs_in_maths_and_warns_once(engine, monkeypatch):
    monkeypatch.setattr(recurrence, "_warned", set())
    softsign = (lambda a: a / (1 + abs(a)), lambda h: (1 - abs(h)) ** 2)
    window = Window(activation=softsign, B=20)
    engine("reference")
    theirs = window.run()
    engine("compiled")
    with pytest.warns(UserWarning, match="not compiled") as said:
        ours = window.run()
    assert len(said) == 1
    again = window.run()  # a second warning would be an error
    for a, b, c in zip(ours, again, theirs, strict=True):
        assert_close(a, c, np.float64)
        assert same_bits(a, b)


@pytest.mark.skipif("not __import__('pathlib').Path('/proc/self/statm').exists()")
def test_memory_does_not_grow_from_step_to_step(engine):
    engine("compiled")
    network = Window(H=64, V=50, dtype=np.float32).make()
    window = Window(T=8, B=40, H=64, V=50, dtype=np.float32)

    def pages():
        return int(Path("/proc/self/statm").read_text().split()[1])

    for _ in range(60):
        window.run(network=network)
    before = pages()
    for _ in range(300):
        window.run(network=network)
    assert (pages() - before) * 4096 < 6e6, "one copy of the gradients kept a step would be 35 MB"


def test_nothing_uses_the_threads_of_numba():
    """With OpenMP a forked child dies, and the workqueue aborts when two threads call at once."""
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")}
    assert texts
    for path, text in texts.items():
        if "prange" not in text and "parallel" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            name = getattr(node, "attr", getattr(node, "id", getattr(node, "arg", None)))
            assert name not in ("prange", "parallel"), f"{path}:{node.lineno}"
            assert not (isinstance(node, ast.Constant) and node.value == "parallel"), f"{path}:{node.lineno}"


@pytest.mark.parametrize("name", ["compiled", "reference"])
def test_threads_that_share_a_network_take_turns(name, engine):
    """They share its packed weights and workspaces: without a lock, gradients of two threads would mix."""
    engine(name)
    rng = np.random.default_rng(0)
    network = HeadNetwork(Stack(9, 33, 2), 9)
    trials = []
    for _ in range(2):
        p = network.initial(rng, recurrent="orthogonal", gain=1.0, token_scale=0.5, dtype=np.float64)
        trials.append((p, *rng.integers(9, size=(2, 12, 20))))

    def gradients(p, x, y):
        d = p.zeros()
        network.loss_and_gradients(p, Batch(x, y), d, normalizer=1.0)
        return d.buffer

    expected = [gradients(*trial) for trial in trials]
    wrong = []

    def repeat(number):
        for _ in range(40):
            if not same_bits(gradients(*trials[number]), expected[number]):
                wrong.append(number)

    callers = [threading.Thread(target=repeat, args=(number,)) for number in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def test_a_product_that_overflows_is_no_warning(engine):
    engine("compiled")
    network = HeadNetwork(Stack(3, 4), 3)
    p = network.initial(np.random.default_rng(0), recurrent="orthogonal", gain=1.0, token_scale=0.5, dtype=np.float32)
    p["head.W_hy"][...] = 3e38
    x, d = np.zeros((2, 20), np.int64), p.zeros()
    with np.errstate(all="ignore"):  # which threads do not inherit
        loss = network.loss_and_gradients(p, Batch(x, x), d, normalizer=1e-38)
    assert not np.isfinite(loss) or not np.isfinite(d.buffer).all()
