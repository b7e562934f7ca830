"""The report in a real browser without a network: light, dark, on a phone; and what it says is what was found."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from look_models import drawn_model, quoting_model

from elman.data import ByteVocabulary, CharVocabulary, WordVocabulary
from elman.errors import DataError
from elman.look import Report, examine, report
from elman.look.page import Page

NASTY = "</script><script>alert(1)</script><b>bold</b> & \"quoted\" 'so' <!-- \n"
QUOTING = "“Oh dear,” said Ann. It was late (and cold). “No!” cried Bob, “not now.” They slept.\n" * 5
METRICS = [{"step": s, "gradient_norm": 3 / s, "gradient_norms": {"head.W_hy": 1 / s}} for s in (1, 2, 3)]


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """A stack of two layers on a text with a planted unit, from a run folder with metrics."""
    folder = tmp_path_factory.mktemp("runs") / "planted"
    quoting_model(QUOTING, layers=2).save(folder)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in METRICS))
    model = quoting_model(QUOTING).load(folder)
    return examine(model, model.vocabulary_.encode(QUOTING), steps=60)


@pytest.fixture(scope="module")
def page(seen, tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "report.html"
    path.write_text(Report(seen).html(), encoding="utf-8")
    return path


def ready(watched):
    """The page, once its first figure is drawn: on a phone it is a way down."""
    watched.page.locator(".figure").first.scroll_into_view_if_needed()
    watched.page.wait_for_selector(".figure.drawn .main-svg")
    return watched.page


@pytest.mark.parametrize(("options", "ink"), [
    ({"color_scheme": "light"}, "#283044"),
    pytest.param({"color_scheme": "dark"}, "#d5dbea", marks=pytest.mark.nightly),
    ({"color_scheme": "light", "viewport": {"width": 360, "height": 740}}, "#283044"),
], ids=["light", "dark", "phone"])  # fmt: skip
def test_it_opens_offline_without_an_error_or_a_request(open_page, page, options, ink):
    watched = open_page("about:blank", home=page.as_uri(), offline=True, **options)
    finger = watched.page.context.new_cdp_session(watched.page)
    finger.send("Emulation.setTouchEmulationEnabled", {"enabled": "viewport" in options})
    watched.page.goto(page.as_uri())
    there = ready(watched)
    assert there.locator(".figure.drawn").count() < 15  # those near the reader
    there.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert there.locator(".figure.drawn .main-svg:first-child").count() == there.locator(".figure").count() == 15
    layout = "document.querySelector('.figure')._fullLayout"
    assert there.evaluate(f"{layout}.font.color") == ink
    assert there.evaluate(f"{layout}.dragmode") == (False if "viewport" in options else "zoom")
    assert there.evaluate("document.documentElement.scrollWidth <= innerWidth")  # nothing sticks out
    watched.check()
    finger.detach()


def test_the_button_turns_the_light_off_and_on_again(open_page, page):
    watched = open_page(page.as_uri(), color_scheme="light")
    there = ready(watched)
    paper = "getComputedStyle(document.body).backgroundColor"
    before = there.evaluate(paper)
    there.get_by_role("button", name="Dark").click()
    assert there.evaluate(paper) != before
    assert there.evaluate("document.querySelector('.figure')._fullLayout.font.color") == "#d5dbea"
    there.get_by_role("button", name="Light").click()
    assert there.evaluate(paper) == before
    watched.check()


def test_on_paper_no_figure_is_cut(open_page, page):
    watched = open_page(page.as_uri(), color_scheme="dark", viewport={"width": 1300, "height": 1000})
    there = ready(watched)
    widths = "[...document.querySelectorAll('.figure')].map(place => place._fullLayout.width)"
    outside = """[...document.querySelectorAll('.card')].filter(card =>
      getComputedStyle(card).breakInside !== 'avoid' || [...card.querySelectorAll('.main-svg')].some(svg =>
        svg.getBoundingClientRect().right > document.querySelector('main').getBoundingClientRect().right)).length"""
    theme = "document.documentElement.dataset.theme"
    for event in ("beforeprint", "afterprint"):  # all figures are drawn
        there.evaluate(f"dispatchEvent(new Event('{event}'))")
    there.wait_for_timeout(300)
    before = there.evaluate(widths)
    there.emulate_media(media="print")
    there.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert there.locator("main").bounding_box()["width"] <= 688  # A4 without its margins
    assert there.evaluate(outside) == 0
    assert there.evaluate(theme) == "light"
    there.emulate_media(media="screen")
    there.evaluate("dispatchEvent(new Event('afterprint'))")
    there.wait_for_timeout(300)  # Plotly resizes after a delay
    assert there.evaluate(widths) == before
    assert there.evaluate(theme) == "dark"
    watched.check()


def test_it_says_what_was_found(open_page, page, seen):
    watched = open_page(page.as_uri())
    there = ready(watched)
    said = there.inner_text("main")
    for v in seen.verdicts:
        assert v.words in said
        assert str(v.horizon) in said
        assert v.step is None or f"The effect is largest at state h[{v.step}], after" in said
    axis, hover = there.evaluate(
        "(({ layout, data }) => [layout.xaxis.title.text, data[0].hovertemplate])(document.querySelector('.figure'))"
    )
    assert axis == "state h[k]: further left is longer ago"
    assert hover.startswith("‖∂L[%{y}]/∂h[%{x}]‖ = %{customdata:.2e}<br>h[%{x}] is %{text}")
    assert "Gradients, spectra, gates and saturation are those of the first 60 steps of the text" in said
    assert "∂L[t]/∂h[k-1]  =  ∂L[t]/∂h[k] @ diag(1 − h[k]²) @ W_hh.T" in said
    assert "3 of 3 logged steps were clipped" not in said
    assert "2 of 3 logged steps were clipped" in said  # norms 3, 1.5 and 1, of which 1 is allowed
    assert "inside quotation marks: AUC 1.000" in said
    matrix = there.evaluate("[...document.querySelector('.figure')._fullData[0].z].map(row => [...row])")
    top = np.array([[np.nan if z is None else z for z in row] for row in matrix], float)
    np.testing.assert_allclose(top[:, 1:].diagonal(), np.log10(seen.flow.d_h[-1].diagonal(1)), rtol=1e-5)
    watched.check()


def test_a_letter_that_is_pointed_at_shows_how_far_back_it_looks(open_page, page, seen):
    watched = open_page(page.as_uri())
    there = ready(watched)
    letters = there.locator(".reach .text span")
    assert letters.count() == 61
    letters.nth(40).hover()
    said = there.inner_text(".reach output")
    token = seen.tokens[40].replace(" ", "·")
    assert said.startswith(f"The loss of “{token}” is {seen.flow.losses[39]:.2f} nats.")
    row = seen.flow.d_h[-1, 39, :41]
    left = row[::-1] / row[-1]
    assert f"reaches {int(np.argmax(left < 0.01)) - 1} steps back" in said or (left >= 0.01).all()
    shades = there.evaluate("[...document.querySelectorAll('.reach .text span')].map(s => s.style.backgroundColor)")
    alphas = [float(re.search(r"([\d.]+)\)$", shade)[1]) if shade else 0.0 for shade in shades]
    np.testing.assert_allclose(alphas[:40], 0.85 * np.sqrt(row[1:] / row.max()), atol=0.02)
    assert not any(alphas[40:])
    there.locator(".reach input").fill("3")
    assert there.inner_text(".reach output") != said
    watched.check()


def test_no_text_can_break_out_of_the_page(open_page, tmp_path):
    model = drawn_model(CharVocabulary(NASTY))
    path = tmp_path / "nasty.html"
    path.write_text(Report(examine(model, model.vocabulary_.encode(NASTY))).html(), encoding="utf-8")
    watched = open_page(path.as_uri())
    there = ready(watched)
    assert there.evaluate("document.querySelector('.reach .text').textContent") == NASTY
    assert there.locator("main b", has_text="bold").count() == 0
    data = there.locator("[data-from]").count()
    assert there.locator("script").count() == data + 3  # the templates, Plotly, and our own
    watched.check()


@pytest.mark.parametrize(
    "vocabulary", [ByteVocabulary(), WordVocabulary(["<unk>", "Oh", " dear", ",", " so"])], ids=repr
)
@pytest.mark.parametrize("activation", ["relu", "sigmoid", "identity"])
def test_any_model_can_be_looked_at(vocabulary, activation):
    model = drawn_model(vocabulary, activation=activation)
    seen = examine(model, vocabulary.encode("Oh dear, so so dear", unknown="skip"))
    html = Report(seen).html()
    assert f"How far back does the gradient of one {seen.token}'s loss reach?" in html
    assert seen.token == {"byte": "byte", "word": "word"}[vocabulary.kind]
    assert seen.ranking is None  # the text is too short
    assert seen.history is None


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_gated_cell_has_its_gates_in_the_report(open_page, tmp_path, cell):
    model = drawn_model(CharVocabulary(QUOTING), cell=cell, layers=2)
    found = report(model, QUOTING[:60])
    assert repr(found).startswith("<Report on model: 59 steps, ")
    found.save(tmp_path / "report.html")
    watched = open_page((tmp_path / "report.html").as_uri(), offline=True)
    there = ready(watched)
    said = there.inner_text("main")
    gate = {"gru": "z", "lstm": "f"}[cell]
    assert "Gates along the text" in said
    state = {"gru": "h", "lstm": "s"}[cell]
    assert f"The norm of ∂L[t]/∂{state}[k], layer 1" in said
    assert f"state {state}[k]: further left is longer ago" in said
    for number, layer in enumerate(found.analysis.layers):
        assert f"Gate {gate}, a row for each unit, layer {number}" in said
        assert f"{gate} is {layer.gates[gate].mean():.2f} on average." in said
    assert found.analysis.verdicts[1].words in said
    there.evaluate("dispatchEvent(new Event('beforeprint'))")
    drawn = there.evaluate("[...document.querySelectorAll('.figure')].map(f => f._fullData[0].z?.length)")
    assert drawn.count(12) == 2  # a row for each unit, in both layers
    watched.check()


def test_in_a_notebook_a_report_shows_itself_and_figures_survive_the_export(tmp_path, open_page):
    nbformat = pytest.importorskip("nbformat", reason="no nbformat: pip install nbconvert ipykernel")
    nbconvert = pytest.importorskip("nbconvert", reason="no nbconvert: pip install nbconvert ipykernel")
    pytest.importorskip("ipykernel", reason="no ipykernel: pip install nbconvert ipykernel")
    drawn_model(CharVocabulary("helo ")).save(tmp_path / "run")
    cells = [
        f"from elman import LanguageModel, look\nmodel = LanguageModel.load({str(tmp_path / 'run')!r})",
        "look.examine(model, 'hello hello')",
        "flow = look.gradient_flow(model, 'hello hello')\nlook.flow_by_lag({'gradient': flow.by_lag()})",
        "look.flow_heatmap(flow.norms[0], 'hello hello')",
        "look.report(model, 'hello hello')",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbconvert.preprocessors.ExecutePreprocessor(timeout=300).preprocess(notebook)
    exported, _ = nbconvert.HTMLExporter(embed_images=True, mathjax_url="", require_js_url="").from_notebook_node(
        notebook
    )
    (tmp_path / "notebook.html").write_text(exported, encoding="utf-8")
    shown = notebook.cells[1].outputs[0]["data"]["text/plain"]
    assert shown.startswith("<Analysis of run: 10 steps, ")
    watched = open_page((tmp_path / "notebook.html").as_uri(), offline=True)
    watched.page.wait_for_function("document.querySelectorAll('.js-plotly-plot .main-svg').length >= 2")
    frame = watched.page.frame_locator("iframe")
    frame.locator("h1").wait_for()
    assert frame.locator("h1").inner_text() == "“hello hello”"


@pytest.mark.parametrize("text", ["", "h"])
def test_two_tokens_are_needed(text):
    model = drawn_model(CharVocabulary("helo"))
    with pytest.raises(DataError, match="the text: expected at least two tokens"):
        examine(model, model.vocabulary_.encode(text) if text else np.array([], int))


def test_two_tokens_are_enough():
    model = drawn_model(CharVocabulary("helo"))
    seen = examine(model, model.vocabulary_.encode("he"))
    assert "healthy" in Report(seen).html()


def test_plain_data_needs_no_plotly_and_figures_name_the_extra():
    script = """
import sys
sys.modules["plotly"] = None
from elman.look import examine, gradient_flow, rank_units, spectrum, verdict
assert verdict.__name__ == "verdict"
try:
    from elman.look import flow_heatmap
except ImportError as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "MissingExtraError Figures need plotly. Install it: pip install 'elman[look]'\n"


def test_every_public_name_is_there():
    import elman.look

    for name in elman.look.__all__:
        assert callable(getattr(elman.look, name)), name
        assert getattr(elman.look, name).__doc__, name
    assert set(elman.look.__all__) <= set(dir(elman.look))
    with pytest.raises(AttributeError, match=r"'elman\.look' has no attribute 'nonsense'"):
        elman.look.nonsense  # noqa: B018
    modules = {path.stem for path in Path(elman.look.__file__).parent.glob("*.py")}
    assert not modules & set(elman.look.__all__)  # an import of the module would hide the name


def test_help_names_every_parameter_and_every_field():
    import dataclasses
    import inspect

    import elman.look

    for name in elman.look.__all__:
        value = getattr(elman.look, name)
        text = inspect.getdoc(value)
        if inspect.isclass(value):
            names = (
                [field.name for field in dataclasses.fields(value)]
                if dataclasses.is_dataclass(value)
                else value._fields
            )
        else:
            names = list(inspect.signature(value).parameters)
            assert "Examples" in text, name
            assert "Returns" in text, name
        missing = [part for part in names if not re.search(rf"^(.*, )?{part}(, .*)? : ", text, re.MULTILINE)]
        assert not missing, (name, missing)


def test_a_model_that_explodes_has_a_page_that_a_browser_can_read(open_page, tmp_path):
    model = drawn_model(CharVocabulary("helo"), activation="identity")
    model.parameters_["layers.0.W_hh"][...] *= 1e40
    with np.errstate(all="ignore"):
        seen = examine(model, model.vocabulary_.encode("hello hello".replace(" ", "")))
    assert not np.isfinite(seen.flow.losses).all()
    path = tmp_path / "report.html"
    path.write_text(Report(seen).html(), encoding="utf-8")
    for kept in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', path.read_text("utf-8")):
        json.loads(kept, parse_constant=pytest.fail)  # Infinity and NaN, which JSON.parse refuses
    watched = open_page(path.as_uri(), offline=True)
    ready(watched).locator(".reach input").fill("9")
    assert "is ∞ nats" in watched.page.inner_text(".reach output")
    watched.check()


@pytest.mark.parametrize("cell", ["rnn", "lstm"])
def test_without_a_gradient_the_page_says_so_and_shows_no_factors(cell):
    model = drawn_model(CharVocabulary("helo"), cell=cell)
    model.parameters_["head.W_hy"][:] = 0
    html = report(model, "hello").html()
    assert "there is no gradient" in html
    assert "stays above 1 %" not in html
    assert "×nan" not in html


def test_a_token_without_a_gradient_says_so(open_page, tmp_path):
    model = drawn_model(CharVocabulary("helo"))
    model.parameters_["head.W_hy"][:] = 0
    report(model, "hello").save(tmp_path / "report.html")
    watched = open_page((tmp_path / "report.html").as_uri(), offline=True)
    assert ready(watched).inner_text(".reach output").endswith(" nats. It has no gradient.")
    watched.check()


def test_what_is_not_finite_is_null_in_a_page():
    page = Page("numbers")
    page.add(page.data({"a": [1.5, float("inf")], "b": float("nan")}))
    assert '{"a":[1.5,null],"b":null}' in page.html()


@pytest.mark.parametrize(("vocabulary", "ids"), [
    (WordVocabulary(["<unk>", "the", " cat", " sat"]), [1, 0, 3]),
    (ByteVocabulary(), [104, 0xC3, 104, 0xFF, 0xE2, 0x82, 0xAC]),
], ids=repr)  # fmt: skip
def test_units_read_the_very_ids(vocabulary, ids):
    seen = examine(drawn_model(vocabulary), np.array(ids))
    assert seen.reading.tokens == seen.tokens == tuple(vocabulary.tokens[i] for i in ids)
    assert {len(values) for values in seen.reading.features.values()} == {len(ids)}
    assert not seen.reading.features["inside quotation marks"].any()


def test_words_that_are_known_to_us_alone_speak_for_their_ids():
    model = drawn_model(WordVocabulary(["<unk>", "the", " cat", " sat"]))
    for text, capital in (("the Zebra sat", True), ("the cat sat", False), (None, False)):
        seen = examine(model, np.array([1, 0, 3]), words=text)  # the second text is another one: not taken
        assert seen.reading.tokens == ("the", "<unk>", " sat")
        assert seen.reading.features["a capital"][1] == capital
        assert not seen.reading.features["punctuation"].any()  # the marks of <unk> are none


def test_a_wide_gated_layer_says_how_many_of_its_units_are_shown():
    page = report(drawn_model(CharVocabulary(QUOTING), cell="lstm", hidden=60), QUOTING[:12]).html()
    assert "Gate f, 48 of 60 units" in page
    assert "a row for each unit" not in page
    assert re.search(r"\bf, step %{x}", page)  # saturation is that of the gate, not of h
