"""The engine in this process: jobs come and go, and each text is what it would be alone."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.config import Config
from elman.data import ByteVocabulary, CharVocabulary, WordVocabulary
from elman.models.fitted import new_model
from elman.models.sampling import Sampling, TextSampler, _until
from elman.models.task_spec import TaskSpec
from elman.network import language_network
from elman.serve import engine as engine_module
from elman.serve.batch import BLOCK
from elman.serve.detokenizer import Detokenizer
from elman.serve.engine import BusyError, Engine
from elman.serve.sequence_job import LogprobOptions, SequenceJob
from elman.serve.stepper import Stepper

LETTERS = CharVocabulary("abcdefgh \n")


def new_text_sampler(vocabulary, *, hidden=24, layers=2, activation="tanh") -> TextSampler:
    config = Config().with_options(hidden=hidden, layers=layers, seed=3)
    model = new_model(TaskSpec.language_model(vocabulary), config)
    network, p = model.network, model.parameters
    if activation != "tanh":
        network = language_network(len(vocabulary), hidden, layers, activation=activation)
    return TextSampler(network, p, vocabulary)


def leaky(a):
    return np.where(a > 0, a, 0.1 * a).clip(-3, 3)


class Text:
    """One job and its deltas."""

    def __init__(
        self, stepper, prompt="", *, seed=0, length=20, sampling=None, stop=(), logprobs=None, deadline=1e18
    ) -> None:
        rng = np.random.default_rng([seed, 0])
        ids, initial = stepper.text_sampler.prompt(prompt, rng)
        self.deltas, self.done = [], threading.Event()
        self.job = SequenceJob(
            stepper, np.array(ids), initial, sampling or Sampling(), rng, length, Detokenizer(stepper.vocabulary, stop),
            self.receive, logprobs, deadline,
        )  # fmt: skip
        self.alone = lambda: stepper.text_sampler.write(
            prompt, length=length, seed=seed, how=sampling, stop=stop[0] if stop else None
        ).removeprefix(prompt)

    def receive(self, delta) -> None:
        self.deltas.append(delta)
        if delta.finish:
            self.done.set()

    def text(self) -> str:
        assert self.done.wait(20)
        return "".join(delta.text for delta in self.deltas)

    @property
    def finish(self):
        assert self.done.wait(20)
        return self.deltas[-1].finish


@pytest.fixture
def engine():
    engine = Engine(limit=100)
    yield engine
    engine.close()


@pytest.mark.filterwarnings("ignore:an activation of your own")
@pytest.mark.parametrize(
    "activation", ["tanh", (leaky, lambda h: np.where(h > 0, 1.0, 0.1))], ids=["compiled", "numpy"]
)
@pytest.mark.parametrize("vocabulary", [LETTERS, ByteVocabulary(), WordVocabulary(["<unk>", ".", " b", "a"]),
                                        CharVocabulary("xyz"), LETTERS.with_end(), ByteVocabulary().with_end()],
                         ids=["char", "byte", "word", "no newline", "sequences", "sequences of bytes"])  # fmt: skip
def test_texts_with_different_settings_share_a_batch(engine, vocabulary, activation):
    stepper = Stepper(new_text_sampler(vocabulary, activation=activation))
    assert stepper.compiled == (activation == "tanh")
    first = vocabulary.decode([1])
    settings = [Sampling(), Sampling(0), Sampling(1.5, top_k=3), Sampling(1.0, top_p=0.5)]
    texts = [Text(stepper, first * (i % 4), seed=i, length=5 + 7 * i, sampling=settings[i % 4]) for i in range(9)]
    engine.submit([text.job for text in texts])
    assert [text.text() for text in texts] == [text.alone() for text in texts]
    assert engine.active == 0
    if vocabulary.end is None:
        assert engine.steps == -(-61 // BLOCK), "all are one batch"


def test_the_end_of_a_sequence_ends_its_text(engine):
    stepper = Stepper(new_text_sampler(CharVocabulary("ab").with_end()))
    texts = [Text(stepper, "a", seed=i, length=200, logprobs=LogprobOptions(2, prompt=True)) for i in range(5)]
    engine.submit([text.job for text in texts])
    for text in texts:
        assert text.text() == text.alone()
        assert text.finish == "stop"
        infos = [info for delta in text.deltas for info in delta.infos]
        assert [stepper.vocabulary.tokens[info.token] for info in infos] == list("a" + text.text())
        assert infos[0].logprob is not None, "the first token of a sequence is predicted"


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 90), st.integers(0, 3), st.floats(0, 0.004)), max_size=12))
def test_joining_and_leaving_at_any_time_changes_no_text(asked):
    stepper = _shared_stepper()
    engine = Engine()
    try:
        texts = []
        for number, (prompt, length, how, pause) in enumerate(asked):
            options = [Sampling(), Sampling(0.5), Sampling(1.1, 4), Sampling(1, None, 0.9)][how]
            text = Text(stepper, "abcdefgh "[number % 9] * prompt, seed=number, length=length, sampling=options)
            engine.submit([text.job])
            texts.append(text)
            time.sleep(pause)
        assert [text.text() for text in texts] == [text.alone() for text in texts]
    finally:
        engine.close()


_steppers: list[Stepper] = []


def _shared_stepper() -> Stepper:
    if not _steppers:
        _steppers.append(Stepper(new_text_sampler(LETTERS)))
    return _steppers[0]


def test_a_long_prompt_is_read_in_turns_and_delays_no_other_text(engine, monkeypatch):
    monkeypatch.setattr(engine_module, "READ_TOKENS", 64)
    stepper = _shared_stepper()
    long, short = Text(stepper, "abcdefgh" * 10_000, seed=1, length=30), Text(stepper, "ab", seed=2, length=5)
    engine.submit([long.job])
    while not long.job.tokens_read:
        time.sleep(0.001)
    engine.submit([short.job])
    text = short.text()
    assert long.job.tokens_read < len(long.job.prompt)
    assert text == short.alone()
    assert long.text() == long.alone()


def test_prompts_of_all_lengths_are_read_as_each_would_be_alone():
    stepper = _shared_stepper()
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, len(LETTERS), n) for n in (1, 7, 30, 2, 18)]
    s = stepper.read(texts, stepper.network.stack.zero_state(5, np.dtype(np.float32)))
    for i, ids in enumerate(texts):
        o, after = stepper.text_sampler.read(ids)
        assert (s[:, :, -1, i] == after.state[:, :, 0]).all()
        assert (stepper.logits(s[-1, 0, -1:, i])[0] == o).all()


def test_token_infos_are_the_predictions_of_the_model(engine):
    stepper = _shared_stepper()
    text = Text(stepper, "abc", seed=3, length=40, logprobs=LogprobOptions(top=2, prompt=True, unit=(1, 0, 5)))
    engine.submit([text.job, *(Text(stepper, "h", seed=i).job for i in range(5))])
    notes = [note for delta in (text.text(), text.deltas)[1] for note in delta.infos]
    ids = [note.token for note in notes]
    assert stepper.vocabulary.decode(ids) == "abc" + text.text()
    h = stepper.read([np.array(ids)], stepper.zero_state)[:, 0, :, 0]  # (L, n+1, H)
    o = stepper.logits(h[-1, 1:]).astype(np.float64)
    logp = o - np.log(np.exp(o).sum(axis=1, keepdims=True))
    assert notes[0].logprob is None
    assert [note.logprob for note in notes[1:]] == pytest.approx([logp[i, t] for i, t in enumerate(ids[1:])])
    for row, note in zip(logp, notes[1:], strict=False):
        assert [value for _, value in note.top] == pytest.approx(sorted(row)[:-3:-1])
    assert [note.activation for note in notes] == pytest.approx(h[1, 1:, 5].tolist())


def test_a_cancelled_text_is_removed_without_a_last_delta(engine):
    stepper = _shared_stepper()
    text, other = Text(stepper, length=10**7), Text(stepper, seed=1, length=3000)
    engine.submit([text.job, other.job])
    time.sleep(0.01)
    engine.cancel([text.job])
    assert other.text() == other.alone()
    assert not text.done.is_set()
    _until_idle(engine)


def test_a_text_that_takes_too_long_times_out(engine):
    text = Text(_shared_stepper(), length=10**7, deadline=time.monotonic() + 0.05)
    engine.submit([text.job])
    assert text.finish == "timeout"
    _until_idle(engine)


def test_a_request_beyond_the_limit_is_refused_as_a_whole():
    engine, stepper = Engine(limit=3), _shared_stepper()
    try:
        texts = [Text(stepper, seed=i, length=10**7) for i in range(2)]
        engine.submit([text.job for text in texts])
        with pytest.raises(BusyError):
            engine.submit([Text(stepper).job, Text(stepper).job])
        assert engine.active == 2
        engine.cancel([text.job for text in texts])
        _until_idle(engine)
        three = [Text(stepper, seed=i) for i in range(3)]
        engine.submit([text.job for text in three])
        assert [text.text() for text in three] == [text.alone() for text in three]
    finally:
        engine.close()


def test_an_internal_error_ends_the_texts_of_its_batch_only(engine, caplog):
    broken = Stepper(new_text_sampler(LETTERS))
    broken.decoder.sampler.write = None
    bad, good = Text(broken, "ab"), Text(_shared_stepper(), "ab", seed=1)
    engine.submit([bad.job, good.job])
    assert bad.finish == "error"
    assert good.text() == good.alone()
    assert "the engine failed" in caplog.text
    _until_idle(engine)


def test_an_internal_error_outside_of_a_batch_ends_all_texts_but_not_the_engine(caplog):
    result = []

    def deliver(deltas):
        result.append(deltas)
        if len(result) == 1:
            raise ValueError("a defect")
        engine_module.dispatch(deltas)

    engine, stepper = Engine(deliver=deliver), _shared_stepper()
    try:
        first, second = Text(stepper, "ab", length=500), Text(stepper, "ab", seed=1)
        engine.submit([first.job])
        assert first.finish == "error"
        assert engine.alive
        engine.submit([second.job])
        assert second.text() == second.alone()
        assert "a defect" in caplog.text
        _until_idle(engine)
    finally:
        engine.close()
    assert not engine.alive


def test_an_idle_engine_keeps_no_model_in_memory(engine):
    stepper = Stepper(new_text_sampler(LETTERS))
    text, model = Text(stepper, "ab"), weakref.ref(stepper)
    engine.submit([text.job])
    text.text()
    del stepper, text
    until = time.monotonic() + 10
    while model() is not None:
        assert time.monotonic() < until, "the engine holds it"
        time.sleep(0.01)
        gc.collect()


def _until_idle(engine) -> None:
    until = time.monotonic() + 10
    while engine.active:
        assert time.monotonic() < until
        time.sleep(0.005)


# -- text, as it may be shown ------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 4), max_size=40), st.text("abc", min_size=1, max_size=4), st.integers(1, 7))
def test_a_stop_text_ends_a_completion_where_it_ends_a_sample(ids, stop, block):
    vocabulary = CharVocabulary("abcde")
    transcript, text, used = Detokenizer(vocabulary, [stop]), "", 0
    for start in range(0, len(ids), block):
        part = transcript.feed(ids[start : start + block])
        text, used = text + part.text, used + part.tokens
        assert stop not in text
        if part.stopped:
            break
    else:
        text += transcript.end().text
    whole = vocabulary.decode(ids)
    assert text == "".join(_until(stop, iter(whole)))
    assert used == (whole.index(stop) + len(stop) if stop in whole else len(ids))


@given(
    st.text("ab é🙂\ud800", max_size=12),
    st.lists(st.text("ab é🙂", min_size=1, max_size=3), max_size=3),
    st.integers(1, 5),
)
def test_token_infos_are_released_with_their_tokens(text, stops, block):
    ids = list(text.encode("utf-8", "surrogatepass"))
    transcript, shown, notes = Detokenizer(ByteVocabulary(), stops), "", []
    for start in range(0, len(ids), block):
        here = range(start, min(start + block, len(ids)))
        part = transcript.feed([ids[i] for i in here], list(here))
        shown, notes = shown + part.text, notes + part.infos
        if part.stopped:
            break
    else:
        part = transcript.end()
        shown, notes = shown + part.text, notes + part.infos
        assert len(notes) == len(ids)
    assert notes == list(range(len(notes)))
    assert not any(stop in shown for stop in stops)
    decoder = ByteVocabulary().decoder()
    assert "".join(decoder.feed(ids[i]) for i in notes) == shown
