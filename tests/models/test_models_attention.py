"""Translators with attention: they learn what a fixed state cannot, and decode in batches as alone."""

from __future__ import annotations

import numpy as np
import pytest

from elman import Seq2Seq, look
from elman.errors import ArgumentError, DataError
from elman.kernels.threads import set_threads
from elman.models import evaluation, runs
from elman.models.evaluation import sequence_scores, words_right

rng = np.random.default_rng(0)
WORDS = ["".join(rng.choice(list("abcd"), size=rng.integers(1, 9))) for _ in range(240)]
TURNED = [word[::-1] for word in WORDS]
OPTIONS = {
    "hidden": 24, "embedding": 8, "bidirectional": True, "learning_rate": 0.01, "dropout": 0.0,
    "batch_size": 16, "random_state": 0,
}  # fmt: skip


@pytest.fixture(scope="module", params=["dot", "additive"])
def model(request):
    return Seq2Seq(**OPTIONS, attention=request.param, epochs=14).fit(WORDS, TURNED)


def test_it_learns_to_reverse_words_and_attends_to_the_right_letter(model):
    assert model.score(WORDS, TURNED) > 0.8


def test_a_batch_is_decoded_as_each_source_alone(model):
    some = [*WORDS[:6], "abcdabcdabcd"]
    for beam in (1, 3):
        assert model.predict(some, beam=beam) == [model.predict([one], beam=beam)[0] for one in some]


def test_n_best_are_different_targets_with_falling_scores(model):
    (found,) = model.n_best(["abca"], n=4)
    targets, scores = zip(*found, strict=True)
    assert len(set(targets)) == len(targets) == 4
    assert list(scores) == sorted(scores, reverse=True)
    assert model.predict(["abca"], beam=4)[0] == targets[0]
    assert model.n_best([]) == []
    with pytest.raises(ArgumentError, match="length_penalty"):
        model.predict(["a"], beam=2, length_penalty=-1.0)


def test_a_length_penalty_lengthens(model):
    some = WORDS[:30]
    lengths = [sum(map(len, model.predict(some, beam=4, length_penalty=p))) for p in (0.0, 3.0)]
    assert lengths[0] <= lengths[1]


def test_it_is_saved_and_loaded(model, tmp_path):
    model.save(tmp_path / "run")
    assert Seq2Seq.load(tmp_path / "run").predict(WORDS[:5]) == model.predict(WORDS[:5])


@pytest.mark.parametrize("attention", ["dot", "additive"])
def test_a_resumed_run_equals_an_uninterrupted_one_on_any_number_of_threads(attention, tmp_path):
    options = OPTIONS | {"attention": attention, "dropout": 0.2, "recurrent_dropout": 0.1, "layers": 2, "epochs": 2}
    found = set()
    try:
        for threads in (1, 3):
            set_threads(threads)
            found.add(Seq2Seq(**options).fit(WORDS, TURNED).fitted_.parameters.buffer.tobytes())
        stops = iter([False] * 11 + [True] * 100)
        runs.start(Seq2Seq(**options).make_setup(WORDS, TURNED), out=tmp_path / "run", stopping=lambda: next(stops))
        again = runs.resume(tmp_path / "run")
    finally:
        set_threads(None)
    assert again.finished.step > 12
    assert found == {again.parameters.buffer.tobytes()}


def test_words_right_counts_punctuation_and_ignores_tokenization():
    assert words_right(["Il est tard.", "Va !"], ["Il est tard.", "Va !"]) == 1
    assert words_right(["Il est tard."], ["Il est tard"]) == pytest.approx(3 / 4)
    assert words_right(["a b"], [""]) == 0
    assert words_right([["x", "y"]], [["x", "z"]]) == 0.5


def test_bleu_and_chrf_are_those_of_sacrebleu(model, monkeypatch):
    sacrebleu = pytest.importorskip("sacrebleu")
    said, right = ["the cat sat on a mat", "he ran away"], ["the cat sat on the mat", "he ran home"]
    found = sequence_scores(right, said, model.symbols_)
    assert found.bleu == pytest.approx(sacrebleu.corpus_bleu(said, [right]).score)
    assert found.chrf == pytest.approx(sacrebleu.corpus_chrf(said, [right]).score)
    monkeypatch.setitem(evaluation.__dict__, "_sacrebleu", lambda *_: (None, None))
    assert sequence_scores(right, said, model.symbols_).bleu is None


def test_an_attention_map_shows_the_weights(model):
    found = look.attention_map(model, "abcd")
    assert found.source == ("a", "b", "c", "d")
    assert "".join(found.target[:-1]) == model.predict(["abcd"])[0]
    np.testing.assert_allclose(found.alpha.sum(axis=1), 1, rtol=1e-5)
    assert found.alpha.shape == (len(found.target), 4)
    given = look.attention_map(model, "abc", "cba")
    assert given.target == ("c", "b", "a", "(end)")
    assert given.figure().data[0].z.shape == (4, 3)
    with pytest.raises(DataError):
        look.attention_map(model, "")


def test_a_model_without_attention_has_no_attention_map():
    plain = Seq2Seq(**OPTIONS, attention="none", epochs=1).fit(WORDS, TURNED)
    with pytest.raises(ArgumentError, match="attention"):
        look.attention_map(plain, "abc")
