"""A page that translates: in Chromium, from a file, the same outputs and attention weights as the model."""

from __future__ import annotations

import numpy as np
import pytest

from elman import Seq2Seq, look
from elman.errors import RunError
from elman.exchange import export_html
from elman.models.loading import load_model

rng = np.random.default_rng(0)
NOUNS, VERBS = ["cat", "dog", "Tom", "Škofja", "naïve café"], ["sat", "ran", "slept", "is here!"]
SOURCES = [f"The {noun} {verb}." for noun in NOUNS for verb in VERBS] * 6
TARGETS = [f"{text.split()[-1][:-1]} : {text[4:-1].upper()} ?" for text in SOURCES]
ASKED = ["The cat ran.", "the dog is here!", "  The zebra slept ", "naïve café", "Tom 日本 sat.", "TOM sat."]
SMALL = {"hidden": 20, "embedding": 7, "epochs": 8, "learning_rate": 0.02, "batch_size": 16, "random_state": 0}
MODELS = {
    "words": {},
    "characters, additive, lstm": {"tokens": "char", "target_tokens": "char", "attention": "additive", "cell": "lstm"},
    "subwords, two layers": {"tokens": "bpe", "target_tokens": "bpe", "vocabulary_size": 300, "layers": 2},
    "bytes, one-hot, one direction": {"tokens": "byte", "embedding": 0, "bidirectional": False, "cell": "rnn"},
    "a fixed state": {"attention": "none", "learned_state": True},
    "lists": {},
}
ANSWERS = """([lines, beam]) => lines.map(line => translator.translate(source.encode(line), beam).map(
  ({ tokens, score, alphas }) => [target.decode(tokens), score, alphas[0] && alphas]))"""


@pytest.fixture(scope="module", params=MODELS)
def run(request, tmp_path_factory):
    X, y = SOURCES, TARGETS
    if request.param == "lists":
        X, y = ([text.split() for text in texts] for texts in (X, y))
    model = Seq2Seq(**SMALL | MODELS[request.param]).fit(X, y, listeners=[])
    return request.param, model.save(tmp_path_factory.mktemp("run") / "run")


def opened(open_page, path, out, **options):
    watched = open_page(export_html(path, out, **options).paths[0].as_uri())
    watched.page.wait_for_selector("#answers[aria-busy=false]", state="attached")
    return watched


def test_it_translates_as_the_model_does(run, open_page, tmp_path):
    name, path = run
    model, watched = load_model(path), opened(open_page, path, tmp_path / "page.html")
    X = [text.split() for text in ASKED] if name == "lists" else ASKED
    said = " ".join if name == "lists" else str
    greedy = watched.page.evaluate(ANSWERS, [ASKED, 1])
    assert [found[0][0] for found in greedy] == [said(one) for one in model.predict(X)]
    for found, expected in zip(watched.page.evaluate(ANSWERS, [ASKED, 4]), model.n_best(X, n=4), strict=True):
        assert [one[0] for one in found] == [said(one) for one, _ in expected]
        assert [one[1] for one in found] == pytest.approx([score for _, score in expected], abs=2e-5)
    if model.fitted_.network.attention is None:
        assert greedy[0][0][2] is None
    else:
        for sequence, ((_, _, alpha),) in zip(X, greedy, strict=True):
            expected = look.attention_map(model, sequence).alpha
            np.testing.assert_allclose(alpha, expected[: len(alpha)], atol=2e-5)
    watched.check()


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    return Seq2Seq(**SMALL).fit(SOURCES, TARGETS, listeners=[]).save(tmp_path_factory.mktemp("run") / "words")


def test_the_page_shows_the_translation_the_alternatives_and_the_attention(words, open_page, tmp_path):
    watched, model = opened(open_page, words, tmp_path / "page.html"), load_model(words)
    page = watched.page
    page.fill("#source", "The cat ran.\n\nThe zebra sat.")
    page.press("#source", "Control+Enter")
    page.wait_for_selector("section:nth-of-type(2) tbody td")
    (first, second) = model.n_best(["The cat ran.", "The zebra sat."], n=4)
    assert page.locator(".answer b").all_inner_texts() == [first[0][0], second[0][0]]
    assert page.locator(".unknown").all_inner_texts() == ['Not in the vocabulary of the model: "zebra".']
    assert page.locator("section:nth-of-type(1) ol span").all_inner_texts() == [text for text, _ in first]
    page.locator("section:nth-of-type(1) ol label").nth(1).click()
    assert page.inner_text("section:nth-of-type(1) .answer b") == first[1][0]
    found = look.attention_map(model, "The cat ran.", first[1][0])
    rows = page.locator("section:nth-of-type(1) tbody th").all_inner_texts()
    assert rows == [token.strip() for token in found.target]
    assert page.locator("section:nth-of-type(1) thead th").all_inner_texts() == [t.strip() for t in found.source]
    watched.check()


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_the_page_shows_the_loss_of_quantized_weights(precision, open_page, tmp_path):
    Seq2Seq(**SMALL, validation_fraction=0.1).fit(SOURCES, TARGETS, listeners=[], out=tmp_path / "run")
    watched = opened(open_page, tmp_path / "run", tmp_path / "page.html", precision=precision)
    assert len(watched.page.evaluate(ANSWERS, [ASKED, 2])[0]) == 2
    assert f"as stored here, in {precision}" in watched.page.text_content("footer")
    watched.check()


def test_the_page_counts_the_layers_once(tmp_path):
    model = Seq2Seq(**SMALL | {"epochs": 1}, layers=2).fit(SOURCES, TARGETS, listeners=[])
    page = export_html(model.save(tmp_path / "run"), tmp_path / "page.html").paths[0].read_text("utf-8")
    sizes = "2 × 20 GRU units in the decoder and in each direction of the encoder, "
    assert f"A bidirectional encoder and a decoder with attention: {sizes}" in page


def test_light_dark_and_a_phone(words, open_page, tmp_path):
    address, colors = export_html(words, tmp_path / "page.html").paths[0].as_uri(), set()
    for scheme in ("light", "dark"):
        page = open_page(address, color_scheme=scheme, viewport={"width": 320, "height": 600}).page
        page.wait_for_selector("#answers[aria-busy=false]", state="attached")
        page.fill("#source", "The naïve café is here! The naïve café is here! The cat sat.")
        page.click("#write")
        page.wait_for_selector("tbody td")
        colors.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert len(colors) == 2


def test_a_translator_of_numbers_is_refused(tmp_path):
    numbers = [rng.standard_normal((3, 2)) for _ in range(20)]
    run = (
        Seq2Seq(**SMALL | {"embedding": 0, "epochs": 1}).fit(numbers, TARGETS[:20], listeners=[]).save(tmp_path / "run")
    )
    with pytest.raises(RunError, match="reads numbers: expected a translator of texts"):
        export_html(run, tmp_path / "page.html")
