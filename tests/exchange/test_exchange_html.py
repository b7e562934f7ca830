"""A page that generates text: in Chromium, from a file, the same text as elman sample."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from exchange_pages import train, write_on
from exchange_tools import random_run

from elman.cli import main
from elman.config import Config
from elman.data import CharVocabulary
from elman.errors import RunError, UnknownNameError
from elman.exchange import export_html
from elman.exchange.quantize import store
from elman.kernels import KERNELS
from elman.models import LanguageModel, Sampling, runs
from elman.models.evaluation import mean_loss
from elman.models.fitted import new_model
from elman.models.sampling import TextSampler
from elman.models.task_spec import TaskSpec
from elman.training.environment import environment
from elman.training.run import Run

SEEDS = [*range(9), 2**70 + 3]
FEW = [0, 7, 2**70 + 3]
ENVIRONMENT = dict(os.environ)  # with the kernels' cache: a process with a new one would compile for 15 seconds


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("ELMAN_CACHE", str(tmp_path_factory.getbasetemp() / "the-cache"))


@pytest.fixture(scope="module")
def run_of(tmp_path_factory):
    """run_of(kind): trained once."""
    runs: dict[str, Path] = {}

    def get(kind: str) -> Path:
        if kind not in runs:
            runs[kind] = train(kind, tmp_path_factory.mktemp("run"))
        return runs[kind]

    return get


@pytest.fixture(scope="module")
def page_of(tmp_path_factory):
    """page_of(run, precision): written once."""
    pages: dict[tuple[Path, str], Path] = {}

    def get(run: Path, precision="float32") -> Path:
        if (run, precision) not in pages:
            out = tmp_path_factory.mktemp("page") / "page.html"
            pages[run, precision] = export_html(run, out, precision=precision).paths[0]
        return pages[run, precision]

    return get


@pytest.fixture
def opened(open_page, page_of):
    """opened(run, precision): its page, when the first text is there."""

    def open_(run: Path, precision="float32", **options):
        watched = open_page(page_of(run, precision).as_uri(), **options)
        watched.page.wait_for_selector("#text[aria-busy=false]")
        return watched

    return open_


def facts_in(page: Path) -> dict:
    text = re.search(r'<script id="facts" type="application/json">(.*?)</script>', page.read_text("utf-8"))[1]
    return json.loads(text)


@pytest.mark.parametrize("kind", ["one layer", "two layers", "bytes"])
def test_ten_seeds_give_the_same_200_tokens_as_elman_sample(kind, run_of, opened, capsysbinary):
    watched = opened(run_of(kind))
    for seed in SEEDS:
        with pytest.raises(SystemExit):
            main(["sample", str(run_of(kind)), "--length", "200", "--seed", str(seed)])
        assert write_on(watched.page, seed=seed) + "\n" == capsysbinary.readouterr().out.decode()
    watched.check()


@pytest.mark.parametrize(
    "kind",
    [
        "one-hot",
        "characters",
        "words",
        "subwords",
        "relu",
        "sigmoid",
        "identity",
        "gru",
        "lstm",
        "no new line",
        "sequences",
        "sequences of bytes",
        "sequences of subwords",
    ],
)
def test_all_kinds_of_tokens_and_activations_give_the_text_of_elman_sample(kind, run_of, opened):
    watched, model = opened(run_of(kind)), LanguageModel.load(run_of(kind))
    for seed in FEW:
        assert write_on(watched.page, seed=seed) == model.sample(200, seed=seed)
    watched.check()


def test_elman_sample_in_another_process_prints_the_same(run_of, opened):
    command = [sys.executable, "-m", "elman", "sample", run_of("two layers"), "--length", "200", "--seed", "5"]
    command += ["--prompt", "Who sat"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=120, env=ENVIRONMENT)
    assert write_on(opened(run_of("two layers")).page, seed=5, prompt="Who sat") + "\n" == done.stdout.decode()


def test_random_numbers_are_those_of_numpy(run_of, opened):
    page = opened(run_of("one layer")).page
    script = "seed => { const r = new Random(BigInt(seed)); return [r.below(3e9), r.below(3e9), r.uniform()]; }"
    for seed in SEEDS:
        rng = np.random.default_rng([seed, 0])
        expected = [int(rng.integers(3 * 10**9)), int(rng.integers(3 * 10**9)), rng.random()]
        assert page.evaluate(script, str(seed)) == expected


def test_logits_are_the_same_to_the_bit_where_the_cpu_fuses_multiply_and_add(run_of, opened):
    if KERNELS != "compiled" or "fma" not in environment()["features"]:
        pytest.skip("this machine rounds otherwise")
    for kind in ("two layers", "sigmoid", "one-hot"):
        page = opened(run_of(kind)).page
        text = write_on(page)
        writer = LanguageModel.load(run_of(kind)).text_sampler
        o, _ = writer.read(writer.vocabulary.encode("\n" + text[:-1]))
        assert page.evaluate("Array.from(network.o)") == o.tolist()


@pytest.mark.parametrize(
    ("kind", "prompt"),
    [
        ("one layer", "The cat"),
        ("bytes", "naïve 🙂 日 ‰"),
        ("characters", "🙂 привет\n«"),
        ("words", "The cat sat on the mat?\n"),
        ("subwords", "naïve 🙂 日 ‰, Škofja\n café"),
    ],
)
def test_prompt_temperature_and_top_p_are_those_of_the_command(kind, prompt, run_of, opened):
    watched, model = opened(run_of(kind)), LanguageModel.load(run_of(kind))
    for temperature, top_p in ((0.0, 1.0), (0.35, 0.5), (1.0, 0.9), (2.0, 0.01)):
        got = write_on(watched.page, seed=3, prompt=prompt, temperature=temperature, top_p=top_p, length=100)
        assert got == model.sample(100, prompt=prompt, temperature=temperature, top_p=top_p, seed=3)
    watched.check()


@pytest.mark.parametrize(("kind", "precision"), [("two layers", "int8"), ("bytes", "float16")])
def test_a_page_generates_with_the_stored_weights_and_has_their_loss(kind, precision, run_of, opened, page_of):
    run, fitted = runs.load(run_of(kind))
    network, parameters, vocabulary = fitted.network, fitted.parameters, fitted.spec.vocabulary
    stored = store(parameters, precision).parameters
    watched = opened(run_of(kind), precision)
    page = watched.page
    for seed in range(3):
        how = Sampling(temperature=1.0)
        expected = TextSampler(network, stored, vocabulary).write(length=200, seed=seed, how=how)
        assert write_on(page, seed=seed, temperature=1.0) == expected
    held = runs.open_text_setup(run).validation
    facts = facts_in(page_of(run_of(kind), precision))
    assert facts["loss"] == mean_loss(network, parameters, held)
    assert facts["loss_as_stored"] == mean_loss(network, stored, held)
    for loss in (facts["loss"], facts["loss_as_stored"]):
        assert f"{loss:.4f}" in page.text_content("footer")
    watched.check()


def untrained(path: Path, tokens: int = 75, **options) -> Path:
    """A run without a step, whose text is missing."""
    config = Config().with_options(**options)
    vocabulary = CharVocabulary(map(chr, range(32, 32 + tokens)))
    return runs.save(new_model(TaskSpec.language_model(vocabulary), config), path).path


def test_256_units_in_int8_take_less_than_150_kb(tmp_path, open_page):
    (out,) = export_html(untrained(tmp_path / "run"), tmp_path / "page.html", precision="int8").paths
    assert out.stat().st_size < 150_000
    watched = open_page(out.as_uri())
    assert len(write_on(watched.page)) == 200
    assert "was not measured: there are no validation data, or they have changed" in watched.page.text_content("footer")
    assert facts_in(out)["loss"] is None
    watched.check()


def test_the_loss_is_not_measured_on_a_missing_or_changed_text(tmp_path):
    run = train("one layer", tmp_path)
    (tmp_path / "text.txt").write_text("Another text altogether. " * 50)
    assert facts_in(export_html(run, tmp_path / "changed.html").paths[0])["loss"] is None
    (tmp_path / "text.txt").unlink()
    assert facts_in(export_html(run, tmp_path / "gone.html").paths[0])["loss_as_stored"] is None


def test_a_float64_model_is_rounded_and_generates_text(tmp_path, opened):
    run = untrained(tmp_path / "run", hidden=16, layers=2, dtype="float64")
    watched = opened(run)
    assert write_on(watched.page, seed=2) == LanguageModel.load(run).sample(200, seed=2)


def test_each_character_is_shaded_by_its_surprise(run_of, opened):
    watched = opened(run_of("one layer"))
    text = write_on(watched.page, prompt="The cat", length=60, seed=1, temperature=1.5)
    titles = watched.page.eval_on_selector_all("#text i", "all => all.map(i => i.title)")
    nats = [float(re.search(r"([\d.]+) nats", title)[1]) for title in titles]
    expected = LanguageModel.load(run_of("one layer")).surprise(text)[len("The cat") :]
    assert nats == pytest.approx(expected, abs=0.0051)
    shade = watched.page.locator("#text i").nth(int(np.argmax(expected)))
    color = "e => getComputedStyle(e).backgroundColor"
    assert shade.evaluate(color) != "rgba(0, 0, 0, 0)"
    watched.page.uncheck("#shade")
    assert shade.evaluate(color) == "rgba(0, 0, 0, 0)"


@pytest.mark.parametrize(("kind", "prompt", "strange"), [
    ("one layer", "The ß and the é", ['"ß"', '"é"']),
    ("words", "The zebra sat", ['" zebra"']),
    ("words", "The cat\u001csat", ['"\\u001c"', '"sat"']),
])  # fmt: skip
def test_unknown_characters_are_named(kind, prompt, strange, run_of, opened):
    watched = opened(run_of(kind))
    before = watched.page.text_content("#text")
    write_on(watched.page, prompt=prompt)
    message = watched.page.text_content("#message")
    assert all(token in message for token in strange)
    assert message.count('"') == 2 * len(strange)
    assert watched.page.text_content("#text") == before
    write_on(watched.page, prompt="The cat")
    assert watched.page.text_content("#message") == ""
    watched.check()


def test_invalid_numbers_are_refused_by_the_form(run_of, opened):
    watched = opened(run_of("one layer"))
    for field, value in (("seed", "-1"), ("seed", "x"), ("seed", ""), ("length", "-5"), ("length", "")):
        good = watched.page.input_value(f"#{field}")
        before = watched.page.text_content("#text")
        watched.page.evaluate(f"document.getElementById('{field}').value = '{value}'")
        watched.page.click("#write")
        assert watched.page.evaluate(f"document.getElementById('{field}').validity.valid") is False
        assert watched.page.text_content("#text") == before
        watched.page.fill(f"#{field}", good)
    watched.check()


def test_stop_and_the_keyboard(run_of, opened):
    watched = opened(run_of("characters"))
    page = watched.page
    # Playwright's click would wait until the page is drawn: on a busy machine the text can be complete by then
    stop = "document.getElementById('stop').click()"
    for halt in (lambda: page.evaluate(stop), lambda: page.keyboard.press("Escape")):
        page.fill("#length", "20000")
        page.focus("#prompt")
        page.keyboard.press("Control+Enter")
        page.wait_for_selector("#text[aria-busy=true] i")
        halt()
        page.wait_for_selector("#text[aria-busy=false]")
        page.locator("#status", has_text="nats").wait_for()  # wait_for_function needs eval, which the page forbids
        assert 0 < page.locator("#text i").count() < 20000
        assert page.is_disabled("#stop")
    page.fill("#length", "20000")
    page.click("#write")
    assert len(write_on(page, length=500)) == 500  # a new text stops the one before
    watched.check()


def test_another_seed_writes_another_text(run_of, opened):
    watched = opened(run_of("one layer"))
    before = watched.page.text_content("#text")
    watched.page.click("#another")
    watched.page.wait_for_selector("#text[aria-busy=false]")
    assert watched.page.input_value("#seed").isdigit()
    assert watched.page.text_content("#text") != before


def test_light_dark_and_a_phone(run_of, opened):
    colors = set()
    for scheme in ("light", "dark"):
        page = opened(run_of("one layer"), color_scheme=scheme, viewport={"width": 320, "height": 600}).page
        colors.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert len(colors) == 2


def test_html_in_a_name_is_shown_as_text(tmp_path, open_page):
    run = untrained(tmp_path / "run", hidden=8)
    name = "</title></script><script>window.hit = 1</script><img src=x onerror=hit()>{{weights}}"
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "data": {"name": name}}))
    watched = open_page(export_html(run, tmp_path / "page.html").paths[0].as_uri())
    assert len(write_on(watched.page)) == 200
    assert watched.page.title() == watched.page.text_content("h1") == name
    assert watched.page.evaluate("window.hit") is None
    watched.check()


def test_errors_leave_nothing_behind(run_of, tmp_path):
    out = tmp_path / "page.html"
    with pytest.raises(UnknownNameError, match="precision: expected one of float32, float16, int8, got 'int4'"):
        export_html(run_of("one layer"), out, precision="int4")  # type: ignore[arg-type]
    other = Run.create(tmp_path / "other", {"task": "classify"}, {"vocabulary.json": b'{"kind": "byte"}'})
    with pytest.raises(RunError, match=r"expected a language model or a translator, .*got a model to classify"):
        export_html(other.path, out)
    assert not out.exists()
    out.write_text("mine")
    with pytest.raises(RunError, match="exists already"):
        export_html(run_of("one layer"), out)
    assert out.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "page.html"]


@pytest.mark.parametrize(("stored", "same"), [("float32", True), ("float64", False)])
def test_the_same_text_is_promised_only_where_the_weights_are_the_same(tmp_path, stored, same):
    (path,) = export_html(random_run(tmp_path / "run", dtype=stored), tmp_path / "page.html").paths
    page = path.read_text("utf-8")
    assert ("The same seed gives the same text as with <code>elman sample</code>." in page) == same
    assert "The same seed gives the same text" in page
