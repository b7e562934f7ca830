"""The page in a real browser: its views by pointer and keyboard, light and dark, on a desktop and a phone."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serve_tools import TEXT, Client, in_thread, until

from elman.training.run import Run

PROMPT = "The cat"
LONG = "document.documentElement.scrollWidth"


@pytest.fixture(scope="module")
def open_server(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Without a key."""
    paths = [runs / name for name in ("char", "byte", "word", "names")]
    with in_thread(*paths, runs=tmp_path_factory.mktemp("page")) as found:
        yield found


@pytest.fixture(scope="module")
def more_server(runs: Path, more_runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """With gated cells, subwords, a tagger and a translator."""
    paths = [runs / "char", *(more_runs / name for name in ("gru", "lstm", "bpe", "tags", "turns"))]
    with in_thread(*paths, runs=tmp_path_factory.mktemp("page")) as found:
        yield found


@pytest.fixture
def visit(open_page, open_server):
    """visit("#flow/char", **options of the browser): a page; it logs no error and loads nothing from elsewhere."""
    opened = []

    def visit_(address: str, server: Client = open_server, **options: Any):
        options = {"reduced_motion": "reduce", **options}  # without the animation of the letters
        opened.append(open_page(f"{server.url}/{address}", home=server.url, **options))
        return opened[-1].page

    yield visit_
    for watched in opened:
        watched.check()


def write(page, prompt: str) -> str:
    """The text that the page shows for a prompt."""
    page.fill("#prompt", prompt)
    page.click("#go")
    return text_when_done(page)


def text_when_done(page) -> str:
    until(page, "document.getElementById('write-status').textContent.includes('per second')")
    return page.evaluate("document.getElementById('text').textContent")


def drawn(page, *names: str) -> list[Any]:
    """The first trace of each figure, as Plotly has it."""
    for name in names:
        page.wait_for_selector(f"#{name}-figure.drawn .main-svg", timeout=20_000)
    return [
        page.evaluate(f"document.getElementById('{name}-figure').data.map(t => ({{x: t.x, y: t.y, z: t.z}}))")
        for name in names
    ]


# -- write -------------------------------------------------------------------------------------------------------------


def test_the_page_shows_the_completion_of_the_service(visit, open_server):
    page = visit("#write/char", reduced_motion="no-preference")
    page.wait_for_selector("#text span")  # something is written before anybody asks
    wanted = open_server.complete(model="char", prompt=PROMPT, max_tokens=400, temperature=0.8, top_p=1, seed=1)
    assert write(page, PROMPT) == PROMPT + wanted
    result = open_server.post("/v1/elman/look/read", model="char", text=PROMPT + wanted).json()
    shades = page.evaluate(
        "[...document.querySelectorAll('#text span')].map(s => Number(s.style.getPropertyValue('--s')))"
    )
    most = max(range(1, 400), key=lambda i: result["surprise"][i])
    assert shades[most] == max(shades) > 0
    assert shades[0] == 0  # nothing predicts the first


def test_a_slider_changes_the_text_and_the_seed_reproduces_it(visit, open_server):
    page = visit("#write/char")
    first = write(page, PROMPT)
    page.evaluate("document.getElementById('write-status').textContent = ''")
    page.focus("#temperature")
    page.keyboard.press("Home")
    assert page.inner_text("output[for=temperature]") == "0.00"
    wanted = open_server.complete(model="char", prompt=PROMPT, max_tokens=400, temperature=0, seed=1)
    assert text_when_done(page) == PROMPT + wanted != first
    page.fill("#temperature", "0.8")
    assert text_when_done(page) is not None
    until(page, "text => document.getElementById('text').textContent === text", first)


def test_a_character_shows_its_alternatives_and_one_can_be_chosen(visit, open_server):
    page = visit("#write/char")
    text = write(page, PROMPT)
    page.focus("#text")
    for key in ("Home", *["ArrowRight"] * 9):
        page.keyboard.press(key)
    assert "probability" in page.inner_text("#readout")
    page.keyboard.press("Enter")
    result = open_server.post("/v1/elman/look/read", model="char", text=text[:10], alternatives=8).json()
    names = page.locator("#inspector button b").all_inner_texts()
    assert names == [name.replace(" ", "␣").replace("\n", "↵") for name in result["alternatives"][9]]
    shares = page.locator("#inspector button span").all_inner_texts()
    assert float(shares[0].split()[0]) == pytest.approx(100 * result["probabilities"][9][0], abs=0.51)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.input_value("#prompt") == text[:9] + result["alternatives"][9][1]
    until(page, "n => document.getElementById('text').textContent.length === n", 410)
    page.click("#text span:nth-child(5)")
    page.keyboard.press("Escape")
    assert page.is_hidden("#inspector")
    assert page.evaluate("document.activeElement.id") == "text"


def test_a_unit_shades_the_same_text(visit, open_server):
    page = visit("#write/char")
    text = write(page, PROMPT)
    page.check("[name=shade][value=unit]")
    page.fill("#unit", "3")
    page.press("#unit", "Tab")
    result = open_server.post("/v1/elman/look/read", model="char", text=text, unit=3).json()["activation"]
    wanted = ["plus" if value > 0 else "minus" for value in result]
    until(
        page,
        "wanted => JSON.stringify([...document.querySelectorAll('#text span')].map(s => s.dataset.sign)) === wanted",
        arg=json.dumps(wanted, separators=(",", ":")),
    )
    assert page.evaluate("document.getElementById('text').textContent") == text
    page.click("#find-units")
    page.wait_for_selector("#found-units button")
    assert "unit" in page.inner_text("#found-units li:first-child")
    assert "1 is perfect. Chance is 0.5 for AUC" in page.inner_text("#found-units li:last-child")


@pytest.mark.parametrize(("run", "prompt"), [("byte", "Voilà: привет 🙂"), ("word", "The cat sat, unheard of")])
def test_bytes_and_words_are_shown_as_text(visit, run, prompt):
    page = visit(f"#write/{run}")
    shown = write(page, prompt)
    assert shown.startswith(prompt if run == "byte" else "The cat sat,")
    assert ("<unk>" in shown) == (run == "word")
    assert "bytes:" not in shown


def test_an_unknown_character_is_an_error_on_the_page(open_page, open_server):
    page = open_page(f"{open_server.url}/#write/char").page
    page.wait_for_selector("#text span")
    page.fill("#prompt", "日本")
    page.press("#prompt", "Control+Enter")
    page.wait_for_selector("#write-status.wrong")
    assert page.inner_text("#write-status").lower() == "the model does not know '日', '本'. remove it from the text."


def test_a_classifier_predicts(visit, open_server):
    page = visit("#write/names")
    page.fill("#predict-inputs", "anna\nzzx")
    page.press("#predict-inputs", "Control+Enter")
    page.wait_for_selector(".prediction")
    result = open_server.post("/v1/elman/predict", model="names", inputs=["anna", "zzx"]).json()["outputs"]
    assert page.locator(".prediction > p b").all_inner_texts() == [row["output"] for row in result]
    page.click("nav >> text=Flow")
    until(page, "document.getElementById('empty').innerText.includes('names is a run for classify')")


def test_tokens_are_shaded_by_their_contribution_to_a_class(visit, open_server):
    page = visit("#write/names")
    page.fill("#predict-inputs", "anna")
    page.click("#predict-go")
    page.wait_for_selector(".decided .text span")
    result = open_server.post("/v1/elman/look/attribution", model="names", input="anna").json()
    assert page.locator(".decided .text span").all_inner_texts() == list("anna")
    assert result["targets"][0] in page.inner_text(".deciding")
    signs = "[...document.querySelectorAll('.decided .text span')].map(s => s.dataset.sign)"
    assert page.evaluate(signs) == ["plus" if value >= 0 else "minus" for value in result["left_out"][0]]
    page.check(".decided [value=gradient]", force=True)
    assert "first-order estimate" in page.inner_text(".decided .hint")
    assert page.evaluate(signs) == ["plus" if value >= 0 else "minus" for value in result["gradient"][0]]


def test_tokens_are_shaded_by_their_contribution_to_the_chosen_tag(visit, more_server):
    page = visit("#write/tags", more_server)
    page.fill("#predict-inputs", "the cat ran")
    page.click("#predict-go")
    page.wait_for_selector(".decided .text span")
    assert page.locator(".tagged .token").count() == 3
    assert "at “the”" in page.inner_text(".deciding")
    page.click(".tagged .token:nth-child(3)")
    assert "at “ran”" in page.inner_text(".deciding")


def test_a_translator_shows_its_alternatives_and_its_attention(visit, more_server):
    page = visit("#write/turns", more_server)
    page.fill("#predict-inputs", "the dog sat\na cat ran")
    page.click("#predict-go")
    page.wait_for_selector(".prediction:nth-child(2) .attention td")
    asked = {"model": "turns", "inputs": ["the dog sat", "a cat ran"], "beam": 4, "alternatives": 4}
    result = more_server.post("/v1/elman/predict", **asked).json()["outputs"]
    assert page.locator(".prediction > p b").all_inner_texts() == [row["output"] for row in result]
    first = page.locator(".prediction").nth(0)
    texts = [one["output"] for one in result[0]["alternatives"]]
    assert first.locator(".alternatives label").all_inner_texts() == texts
    for number, target in enumerate(texts[:2]):
        first.locator(".alternatives label").nth(number).click()
        found = more_server.post("/v1/elman/look/attention", model="turns", input="the dog sat", target=target).json()
        rows = [token.strip() for token in found["target"]]
        names = "[...document.querySelectorAll('.prediction:first-child tbody th')].map(th => th.textContent)"
        until(page, f"rows => JSON.stringify({names}) === rows", arg=json.dumps(rows, separators=(",", ":")))
        assert first.locator("thead th").all_inner_texts() == [token.strip() for token in found["source"]]
        shades = "[...document.querySelectorAll('.prediction:first-child tbody td')]"
        shaded = page.evaluate(f"{shades}.map(td => Number(td.style.getPropertyValue('--s')))")
        assert shaded == pytest.approx([one for row in found["alpha"] for one in row], abs=6e-4)
    assert page.inner_text(".prediction:first-child > p b") == texts[1]


def test_subwords_are_generated_and_stepped_through(visit, more_server):
    page = visit("#write/bpe", more_server)
    text_when_done(page)
    assert re.match(r"\d+ subwords, ", page.inner_text("#write-status"))
    page = visit("#steps/bpe", more_server)
    page.wait_for_selector("#step-network option[value=bpe]", state="attached")
    page.select_option("#step-network", "bpe")
    page.fill("#word", "the cat")
    until(page, "document.getElementById('steps-status').textContent.includes('“the” and should predict “he cat”')")


# -- learn -------------------------------------------------------------------------------------------------------------


def test_labels_depend_on_the_task(visit):
    page = visit("#learn/names")
    until(page, "document.getElementById('loss-unit').textContent .startsWith('nats ')")
    page.wait_for_selector("#accuracy-figure.drawn")
    assert "accuracy at this step" in page.inner_text("#tiles")
    page = visit("#learn/char")
    page.wait_for_selector(".tile")
    assert page.is_hidden("#accuracy-card")
    assert "epochs" in page.inner_text("#tiles")
    assert "loss, nats per token" in page.inner_text("#tiles")


def test_the_curves_show_the_metrics_in_light_and_dark(visit, runs):
    page = visit("#learn/char", color_scheme="dark")
    rows = Run(runs / "char").metrics()
    loss, gradient, rate, speed = drawn(page, "loss", "gradient", "rate", "speed")
    assert loss[0]["x"] == [row["step"] for row in rows]
    for curve, name in (
        (loss, "loss"),
        (gradient, "gradient_norm"),
        (rate, "learning_rate"),
        (speed, "tokens_per_second"),
    ):
        assert curve[0]["y"] == [row[name] for row in rows]
    held = [row for row in rows if row["validation_loss"] is not None]
    assert loss[2]["y"] == [row["validation_loss"] for row in held]
    assert "60 / 60" in page.inner_text("#tiles")
    assert "finished" in page.inner_text("#run-head").lower()
    paint, line = (
        "getComputedStyle(document.body).backgroundColor",
        "document.getElementById('loss-figure').data[1].line.color",
    )
    dark, dark_line = page.evaluate(paint), page.evaluate(line)
    assert max(map(int, dark[4:-1].split(","))) < 60
    page.click("#theme")
    until(page, f"{line} !== {dark_line!r}")  # the figures too
    light = page.evaluate(paint)
    assert min(map(int, light[4:-1].split(","))) > 200
    page.reload()
    until(page, f"{paint} === {light!r}")  # it is remembered


def test_the_sample_of_the_kept_model_stands_beside_the_best_loss_and_a_later_one_says_so(visit, runs, tmp_path):
    shutil.copytree(runs / "char", tmp_path / "turned")
    rows = [json.loads(line) for line in (tmp_path / "turned" / "metrics.jsonl").read_text().splitlines()][:4]
    for row, loss, sample in zip(rows, (2.5, 1.5, None, 1.9), ("first", "kept", None, "overfitted"), strict=True):
        row |= {"validation_loss": loss, "sample": sample}
    (tmp_path / "turned" / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with in_thread(tmp_path / "turned", runs=tmp_path) as server:
        page = visit("#learn/turned", server)
        page.wait_for_selector("#samples:not([hidden])")
        assert f"at step {rows[1]['step']}" in page.inner_text("#tiles")
        assert page.inner_text("#sample-text") == "kept"
        assert page.inner_text("#sample-at") == f"{rows[1]['step']} · validation 1.50"
        page.locator("#sample-step").fill("2")
        assert page.inner_text("#sample-text") == "overfitted"
        assert page.inner_text("#sample-at").endswith(f" · later than the kept model, of step {rows[1]['step']}")


def test_a_training_is_started_followed_and_stopped_on_the_page(visit, open_server):
    page = visit("#learn")
    page.click("#new-training summary")
    page.evaluate("text => { document.querySelector('#train-form textarea').value = text; }", TEXT * 4)
    page.fill("[name=name]", "mine")
    page.select_option("[name=hidden]", "32")
    page.click("#train-form [type=submit]")
    page.wait_for_selector("#samples:not([hidden])", timeout=60_000)  # with the first sample the curves are there too
    (loss,) = drawn(page, "loss")
    assert loss[0]["y"][0] > loss[0]["y"][-1] > 0
    assert page.url.endswith("#learn/mine")
    assert page.inner_text("#sample-text")
    page.click("#stop-training")
    page.wait_for_selector("#stop-training", state="detached")  # the service has answered
    assert "stopped" in page.inner_text("#run-head").lower()
    assert open_server.http.get("/v1/elman/trainings").json()["data"][-1]["state"] == "stopped"
    page.click("nav >> text=Write")
    page.wait_for_selector("#text span")  # the run writes


# -- flow --------------------------------------------------------------------------------------------------------------


def test_flow_draws_the_analysis_and_follows_the_text(visit, open_server):
    page = visit("#flow/char")
    figures = ("map", "lag", "factor", "eigen", "singular", "state", "lyapunov")
    first = drawn(page, *figures)
    assert all(trace.get("z") or trace["y"] for traces in first for trace in traces)
    text = "The dog sat"
    page.fill("#flow-text", text)
    until(page, "document.getElementById('map-figure').data[0].z.length === 10")
    result = open_server.post("/v1/elman/look/flow", model="char", text=text).json()
    layer, verdict = result["layers"][0], result["verdicts"][0]
    shown = page.evaluate("document.getElementById('map-figure').data[0].customdata")
    states = page.evaluate("document.getElementById('map-figure').data[0].text")
    assert states[0][:2] == ["the initial state", "the state after “T”"]
    assert shown == layer["map"]
    until(page, "y => document.getElementById('lag-figure').data[0].y[3] === y", layer["by_lag"][3])
    assert verdict["words"] in page.inner_text("#verdict")
    assert re.match(r"h: \d+ % of the values lie where the activation is flat", page.inner_text("#saturated"))
    assert "‖∂L[t]/∂h[k]‖ of every loss" in page.inner_text("#flow")
    page.focus("#reach-text")
    page.keyboard.press("Home")
    assert page.inner_text("#reach-status").startswith("“h”: loss")
    page.keyboard.press("ArrowRight")
    assert f"“e”: loss {result['losses'][1]:.2f}" in page.inner_text("#reach-status")
    page.select_option("#run", "byte")  # a stack
    page.wait_for_selector("#flow-layers label:nth-child(2)")
    before = page.evaluate("JSON.stringify(document.getElementById('map-figure').data[0].z)")
    page.check("#flow-layers label:nth-child(2) input", force=True)
    until(page, "b => JSON.stringify(document.getElementById('map-figure').data[0].z) !== b", before)


def flow_with(visit, change):
    """The Flow view of "The dog sat", whose data `change` has changed."""

    def answer(route):
        found = route.fetch()
        data = found.json()
        change(data)
        route.fulfill(response=found, json=data)

    page = visit("#flow/char")
    drawn(page, "map")
    page.route("**/v1/elman/look/flow", answer)
    page.fill("#flow-text", "The dog sat")
    until(page, "document.getElementById('map-figure').data[0].z.length === 10")
    return page


@pytest.mark.parametrize(("changed", "shown"), [
    ({"kind": "explodes", "lag": None, "horizon": None}, "–"),  # the states overflow
    ({"kind": "explodes", "lag": 3, "horizon": None, "followed": 3}, "10+"),
    ({"kind": "vanishes", "lag": 4, "horizon": 4}, "4"),
])  # fmt: skip
def test_flow_shows_after_how_many_steps_the_gradient_is_gone(visit, changed, shown):
    page = flow_with(visit, lambda data: data["verdicts"][0].update(changed))
    assert page.inner_text("#verdict .far b") == shown


def test_flow_says_that_a_loss_has_no_gradient(visit):
    def silence(data):
        row = data["layers"][0]["map"][0]  # of the loss of the second token
        row[:] = [None if norm is None else 0 for norm in row]

    page = flow_with(visit, silence)
    page.focus("#reach-text")
    page.keyboard.press("Home")
    assert page.inner_text("#reach-status").endswith("It has no gradient.")
    page.keyboard.press("ArrowRight")
    assert "At least 1 % of its gradient reaches" in page.inner_text("#reach-status")


def test_flow_shows_the_gates_of_a_gated_cell(visit, more_server):
    page = visit("#flow/lstm", more_server)
    page.wait_for_selector("#gates-figure.drawn", timeout=20_000)
    assert page.locator("#gate-choice label").all_inner_texts() == ["i", "f", "g", "o"]
    assert "‖∂L[t]/∂s[k]‖ of every loss" in page.inner_text("#flow")  # s: h and c
    text = page.input_value("#flow-text")
    result = more_server.post("/v1/elman/look/spectra", model="lstm", text=text).json()["layers"][0]
    drawn_units = "document.getElementById('gates-figure').data[0].z"
    assert page.evaluate(drawn_units) == result["gates"]["f"]["units"]
    page.check("#gate-choice [value=i]", force=True)
    until(
        page,
        f"z => JSON.stringify({drawn_units}) === z",
        json.dumps(result["gates"]["i"]["units"], separators=(",", ":")),
    )
    page.select_option("#run", "char")
    page.wait_for_selector("#gates-card", state="hidden")


# -- steps -------------------------------------------------------------------------------------------------------------


def test_the_equations_of_a_word_are_stepped_through_by_keys(visit, open_server):
    page = visit("#steps")
    page.fill("#word", "seen")
    until(page, "document.getElementById('steps-status').textContent.includes('“see” and should predict “een”')")
    result = open_server.post("/v1/elman/steps", input="see", target="een").json()["steps"]
    assert page.inner_text("#step-count") == f"1 / {len(result)}"
    page.evaluate("document.activeElement.blur()")
    for i in range(1, 4):
        page.keyboard.press("ArrowRight")
        assert page.inner_text(".formula") == result[i]["here"]
    assert result[3]["symbol"] == "o[0]"
    page.keyboard.press("ArrowLeft")
    assert page.inner_text(".formula") == result[2]["here"] == "h[1] = tanh(a[0])"
    assert page.locator(".result td").all_inner_texts() == [f"{v:.3f}" for v in result[2]["result"]["values"][0]]
    page.hover("[data-key='h:0:1'] .cell >> nth=1")
    assert page.inner_text("#tip") == f"h[1], unit 1\n{result[2]['result']['values'][0][1]:.6f}"
    page.hover(".formula .symbol >> nth=1")
    assert f"{result[1]['result']['values'][0][0]:.3f}" in page.inner_text("#tip")
    page.keyboard.press("End")
    assert page.inner_text(".formula") == result[-1]["here"]
    assert "back" in page.get_attribute("#unrolled svg", "class")
    assert page.locator("#unrolled .row").all_text_contents() == ["target", "d_o", "d_h", "input"]
    of_bar = "[+b.getAttribute('y'), +b.getAttribute('height')]"
    bars = f"[...document.querySelectorAll(`[data-key='o:1'] .bar`)].map(b => {of_bar})"
    (d_o,) = (step["result"]["values"][0] for step in result if step["symbol"] == "d_o[1]")
    found = page.evaluate(bars)
    zero = next(y for value, (y, _) in zip(d_o, found, strict=True) if value < 0)
    assert all(y == zero if value < 0 else abs(y + height - zero) < 0.2
               for value, (y, height) in zip(d_o, found, strict=True))  # fmt: skip
    page.click("#unrolled [data-key='o:1'] .box", force=True)
    assert page.inner_text(".formula") == "y_hat[1] = exp(o[1]) / Σ exp(o[1])"
    page.fill("#word", "s")
    until(page, "document.getElementById('steps-status').textContent.startsWith('Type two letters')")


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_every_cell_is_stepped_through(visit, open_server, cell):
    page = visit("#steps")
    page.wait_for_selector(".formula")
    page.select_option("#step-network", f"@{cell}")
    result = open_server.post("/v1/elman/steps", input="hell", target="ello", cell=cell).json()["steps"]
    until(page, f"document.getElementById('step-count').textContent === '1 / {len(result)}'")
    for i in range(len(result)):
        assert page.inner_text(".formula") == result[i]["here"]
        page.click("#next", force=True)
    assert page.locator("[data-key^='c:'].known").count() == (5 if cell == "lstm" else 0)


def test_steps_of_a_run_and_of_words(visit):
    page = visit("#steps")
    for run, word, tokens in (("char", "The", 2), ("word", "The cat sat", 2), ("byte", "abc", 2)):
        page.select_option("#step-network", run)
        page.fill("#word", word)
        until(page, f"document.getElementById('steps-status').textContent.includes({word[:2]!r})")
        until(page, f"document.querySelectorAll('#unrolled .says').length === {tokens}")
    page.click("#play")
    until(page, "document.getElementById('step-count').textContent.startsWith('2 /')")


# -- how it looks ------------------------------------------------------------------------------------------------------


def test_every_view_fits_a_phone(visit):
    phone = {"viewport": {"width": 320, "height": 640}, "is_mobile": True, "has_touch": True}
    page = visit("#write/char", **phone)
    page.wait_for_selector("#text span")
    for view, ready in (
        ("Write", "#text span"),
        ("Learn", "#loss-figure.drawn"),
        ("Flow", "#map-figure.drawn"),
        ("Steps", ".formula"),
    ):
        page.click(f"nav >> text={view}")
        page.wait_for_selector(ready, timeout=20_000)
        assert page.evaluate(LONG) == 320, view
    page.tap("#next")
    until(page, "document.getElementById('step-count').textContent.startsWith('2 /')")
    page.goto(page.url.split("#")[0] + "#write/names")
    page.wait_for_selector("#predict-go")
    assert page.evaluate(LONG) == 320


def test_all_views_can_be_reached_by_keyboard(visit):
    page = visit("#write/char")
    page.wait_for_selector("#text span")
    seen = []
    for _ in range(6):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.textContent.trim()"))
    assert seen[:5] == ["elman", "Write", "Learn", "Flow", "Steps"]
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector(".formula")
    assert page.get_attribute("nav [aria-current]", "data-view") == "steps"
