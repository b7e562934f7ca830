"""The page of the steps, in a real browser: it steps, it asks for nothing, and no text can break it."""

from __future__ import annotations

import numpy as np
import pytest
from look_models import drawn_model

from elman import look, maths
from elman.data import CharVocabulary
from elman.look import trace
from elman.look.steps import HIDDEN, SEED, SPREAD, steps_data
from elman.look.steps_page import StepsPage
from elman.network import Batch

NASTY = "</script><b>&"


@pytest.fixture
def written(tmp_path):
    def write(*texts, **options):
        path = tmp_path / "steps.html"
        StepsPage(steps_data(*texts, parameters=True, **options)).save(path)
        return path.as_uri()

    return write


def test_buttons_and_keys_step(open_page, written):
    watched = open_page(written("hell", "ello"))
    page = watched.page
    formula, count = page.locator(".formula"), page.locator("#count")
    assert count.inner_text() == "21 / 46"  # the forward pass is done: no box of the drawing is empty
    assert formula.inner_text().startswith("L = ")
    heights = "[...document.querySelectorAll('#drawing .bar')].map(bar => Number(bar.getAttribute('height')))"
    assert sum(height > 0 for height in page.evaluate(heights)) == 4 * (3 + 3 + 4)  # a, h and y_hat of four steps
    page.keyboard.press("Home")
    assert count.inner_text() == "1 / 46"
    assert page.locator("#previous").is_disabled()
    page.locator("#next").click()
    assert formula.inner_text() == "a[0] = x[0] @ W_xh + h[0] @ W_hh + b_h (1)"
    page.keyboard.press("ArrowRight")
    assert formula.inner_text() == "h[1] = tanh(a[0]) (2)"
    assert page.locator("#map [aria-current=step]").inner_text() == "1"  # as h is counted
    page.keyboard.press("ArrowLeft")
    assert formula.inner_text().startswith("a[0]")
    page.keyboard.press("End")
    assert count.inner_text() == "46 / 46"
    assert page.locator("#next").is_disabled()
    page.keyboard.press("ArrowRight")
    assert count.inner_text() == "46 / 46"
    page.locator("#map button", has_text="d_W_hh").click()
    assert formula.inner_text() == "d_W_hh = Σ_t h[t].T @ d_a[t] (10)"
    assert page.url.endswith("#36")
    assert page.locator("#map button[aria-current=step]").count() == 1
    page.keyboard.press("Home")
    assert count.inner_text() == "1 / 46"
    watched.check()


def at_every_step(page, expression: str) -> list:
    """What it is at each of the steps, from the first on."""
    return page.evaluate(f"""() => {{
      const found = [], count = document.getElementById("count");
      const press = key => document.dispatchEvent(new KeyboardEvent("keydown", {{ key, bubbles: true }}));
      press("Home");
      for (let before = ""; before !== count.textContent; press("ArrowRight")) {{
        before = count.textContent;
        found.push({expression});
      }}
      return found;
    }}""")


def test_every_step_shows_its_numbers_and_its_lines(open_page, written):
    data = steps_data("hell", "ello")
    watched = open_page(written("hell", "ello"))
    seen = at_every_step(
        watched.page,
        """[document.getElementById("card").innerText,
            [...document.querySelectorAll(".result td")].map(cell => Number(cell.title))]""",
    )
    for step, (shown, cells) in zip(data["steps"], seen, strict=True):
        assert step["here"] in shown
        assert step["says"] in shown
        for line in step["lines"]:
            assert f"{line['file']}:{line['line']}" in shown
            assert line["code"] in shown
        assert cells == pytest.approx(flat(step["result"]["values"]), abs=1e-12)
    watched.check()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_and_the_button_between(open_page, written, scheme):
    watched = open_page(written("hell", "ello"), color_scheme=scheme)
    brightness = "() => getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]"
    first = watched.page.evaluate(brightness)
    assert (first > 128) == (scheme == "light")
    watched.page.locator("#theme").click()
    assert (watched.page.evaluate(brightness) > 128) != (scheme == "light")
    watched.page.locator("#theme").click()
    assert watched.page.evaluate(brightness) == first
    watched.check()


def test_no_line_of_code_is_cut_off(open_page, written):
    watched = open_page(written("hell", "ello"))
    outside = """[document.querySelector(".formula").innerText,
      [...document.querySelectorAll(".code code")].filter(line =>
        line.scrollWidth > line.clientWidth + 1 ||
        line.getBoundingClientRect().right > document.querySelector(".code").getBoundingClientRect().right).length,
      document.querySelectorAll(".code code").length > 0]"""
    for width in (390, 1280):
        watched.page.set_viewport_size({"width": width, "height": 800})
        seen = at_every_step(watched.page, outside)
        assert len(seen) == 46
        assert [formula for formula, cut, _ in seen if cut] == [], width
        assert any(lines for _, _, lines in seen)
    watched.check()


def test_a_stack_and_a_small_screen(open_page, written):
    model = drawn_model(CharVocabulary("helo"), hidden=30, layers=2)
    watched = open_page(written("hell", "ello", model=model, shown=4), viewport={"width": 390, "height": 800})
    page = watched.page
    assert "Shown: 4 of 30 units." in page.locator("#card").inner_text()
    page.locator("#map button[title^='d_h[2] = d_x[1] of layer 1']").click()
    assert "layer 0" in page.locator(".kicker").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    watched.check()


def test_any_text_is_only_text(open_page, written):
    watched = open_page(written(NASTY, NASTY[1:] + " "))
    assert watched.page.locator("#title").inner_text().startswith(NASTY)
    assert watched.page.locator("#card b").count() == 1  # the symbol of the formula
    watched.page.locator("#next").click()
    watched.check()


ALL_VALUES = "data.steps.map(s => [s.result, ...s.operands].map(v => v.values))"
CELLS = ["rnn", "gru", "lstm"]


def flat(values):
    if isinstance(values, list):
        return [number for part in values for number in flat(part)]
    return [values]


def all_values(data):
    return flat([[value["values"] for value in (step["result"], *step["operands"])] for step in data["steps"]])


def small_model(cell):
    """The network of a page without a run."""
    model = drawn_model(CharVocabulary("hello"), hidden=HIDDEN, cell=cell)
    p = model.parameters_
    p.buffer[:] = SPREAD * np.random.default_rng(SEED).standard_normal(len(p.buffer))
    return model


@pytest.mark.parametrize(("cell", "activation"), [
    ("rnn", "tanh"), ("rnn", "relu"), ("rnn", "sigmoid"), ("rnn", "identity"), ("gru", "tanh"), ("lstm", "tanh"),
])  # fmt: skip
@pytest.mark.parametrize("layers", [1, 2])
def test_what_the_page_computes_is_what_python_computes(open_page, written, cell, activation, layers):
    model = drawn_model(CharVocabulary("helo"), hidden=5, layers=layers, activation=activation, cell=cell)
    data = steps_data("hell", "ello", model=model, shown=4)
    watched = open_page(written("hell", "ello", model=model, shown=4), offline=True)
    found = flat(watched.page.evaluate(ALL_VALUES))  # the lab has computed all of it anew
    np.testing.assert_allclose(found, all_values(data), rtol=0, atol=1e-12)
    watched.check()


@pytest.mark.parametrize("cell", CELLS)
def test_an_edited_weight_changes_every_number_and_the_loss(open_page, written, cell):
    model = small_model(cell)
    watched = open_page(written("hell", "ello", cell=cell))
    page = watched.page
    page.locator("#map button[title^='L = ']").click()
    before = page.inner_text("#card .result")
    page.get_by_label("layers.0.W_hh unit 1").first.fill("2.5")
    model.parameters_["layers.0.W_hh"][1, 0] = 2.5
    data = steps_data("hell", "ello", model=model)
    np.testing.assert_allclose(flat(page.evaluate(ALL_VALUES)), all_values(data), rtol=0, atol=1e-12)
    (loss,) = (step["result"]["values"] for step in data["steps"] if step["name"] == "L")
    assert page.inner_text("#loss") == f"{loss:.4f}"
    assert page.inner_text("#card .result") != before
    assert f"L = {loss:.3f}" in page.locator("#drawing [data-key=L] text").text_content()
    page.get_by_label("layers.0.W_hh unit 1").first.fill("")  # while a number is typed nothing happens
    assert page.inner_text("#loss") == f"{loss:.4f}"
    page.locator("#reset").click()
    assert page.inner_text("#change") == "(unchanged)"
    watched.check()


@pytest.mark.parametrize("cell", CELLS)
def test_a_training_step_subtracts_the_gradient_and_the_word_is_learned(open_page, written, cell):
    model = small_model(cell)
    x, y = (model.vocabulary_.encode(word).astype(np.int64)[:, np.newaxis] for word in ("hell", "ello"))
    gradients = model.parameters_.zeros()
    model.network_.loss_and_gradients(model.parameters_, Batch(x, y), gradients, normalizer=4)
    clipped = maths.clip_by_norm(gradients, 0.25)
    assert clipped.scale < 0.9
    for name, value in maths.sgd_step(model.parameters_, clipped.gradients, 0.5).items():
        model.parameters_[name][...] = value
    watched = open_page(written("hell", "ello", cell=cell), reduced_motion="reduce")
    page = watched.page
    assert [page.input_value(field) for field in ("#rate", "#limit")] == ["1", "1"]
    page.locator("#rate").fill("0.5")
    page.locator("#limit").fill("0.25")
    before = steps_data("hell", "ello", cell=cell, learning_rate=0.5, clip_norm=0.25)  # the settings change the update
    np.testing.assert_allclose(flat(page.evaluate(ALL_VALUES)), all_values(before), rtol=0, atol=1e-10)
    page.locator("#train").click()
    data = steps_data("hell", "ello", model=model, learning_rate=0.5, clip_norm=0.25)
    np.testing.assert_allclose(flat(page.evaluate(ALL_VALUES)), all_values(data), rtol=0, atol=1e-10)
    assert page.inner_text("#steps-taken") == "1 training step"
    page.locator("#rate").fill("1")
    page.locator("#limit").fill("0")
    page.locator("#learn").click()
    page.locator("#learned", has_text="✓ learned").wait_for()
    assert page.locator("#predicted .right").count() == 4
    assert page.inner_text("#predicted").replace("\n", "").replace(" ", "") == "ello"
    page.get_by_role("button", name="Train until learned").wait_for()
    watched.check()


@pytest.mark.parametrize("cell", CELLS)
def test_the_gain_scales_the_recurrent_weights_and_the_product_of_jacobians_follows(open_page, written, cell):
    model = small_model(cell)
    watched = open_page(written("hell", "ello", cell=cell))
    page = watched.page
    for gain in ("0.5", "2"):
        page.locator("#gain").fill(gain)
        scaled = small_model(cell)
        scaled.parameters_["layers.0.W_hh"][...] *= float(gain)
        (layer,) = trace(scaled, "hell" * 6).layers
        product, norms = np.eye(len(layer.jacobian(0))), [1.0]
        for t in range(24):
            product = product @ layer.jacobian(t)
            norms.append(np.linalg.norm(product, 2))
        np.testing.assert_allclose(page.evaluate("lab.norms"), norms, rtol=1e-3)
        assert page.inner_text("#gain-value") == f"×{float(gain):.2f}"
        assert f"×{norms[-1] ** (1 / 24):.2f} per step" in page.inner_text("#product")
        data = steps_data("hell", "ello", model=scaled)
        np.testing.assert_allclose(flat(page.evaluate(ALL_VALUES)), all_values(data), rtol=0, atol=1e-10)
    assert model.parameters_["layers.0.W_hh"].any()
    page.locator("#gain").focus()
    page.keyboard.press("Home")  # the smallest gain loses no weight
    page.locator("#gain").fill("1")
    plain = steps_data("hell", "ello", model=model)
    np.testing.assert_allclose(flat(page.evaluate(ALL_VALUES)), all_values(plain), rtol=0, atol=1e-10)
    watched.check()


@pytest.mark.parametrize("cell", CELLS)
def test_the_drawing_shows_signs_by_direction_and_names_what_it_shows(open_page, written, cell):
    watched = open_page(written("hell", "ello", cell=cell))
    page = watched.page
    data = steps_data("hell", "ello", cell=cell)
    rows = "[...document.querySelectorAll('#drawing .rowname')].map(n => n.textContent)"
    assert page.evaluate(rows)[:3] == ["target", "y_hat", "h"]
    number = next(i for i, step in enumerate(data["steps"]) if step["symbol"] == "d_h[3]")
    page.evaluate(f"go({number})")
    assert page.evaluate(rows)[:3] == ["target", "d_o", "d_h"]
    box = page.locator("#drawing [data-key='h:0:2']")
    assert box.locator(".caption").text_content() == "d_h[3]"
    middle = page.evaluate("drawing.boxes.get('h:0:2').y + BAR / 2")
    of_box = "[...document.querySelectorAll(`[data-key='h:0:2'] .bar`)]"
    bars = page.evaluate(f"{of_box}.map(b => [+b.getAttribute('y'), +b.getAttribute('height')])")
    for value, (y, height) in zip(data["steps"][number]["result"]["values"][0], bars, strict=True):
        assert (y + height == pytest.approx(middle, abs=0.02)) if value > 0 else (y == pytest.approx(middle, abs=0.02))
    lit = "drawing.edges.filter(e => e.path.classList.contains('on')).map(e => `${e.kind} ${e.t}`).sort()"
    assert page.evaluate(lit) == sorted(["W_hy 2", "W_hh 3", *(["carry 3"] if cell == "gru" else [])])
    lit_paths = "drawing.edges.map(e => e.path).filter(path => path.classList.contains('on'))"
    assert page.evaluate(
        f"{lit_paths}.every(path => path.getAttribute('marker-start') === 'url(#lit)')"
    )  # they point back
    box.click()
    assert page.inner_text("#card .formula b") == "h[3]"
    watched.check()


@pytest.mark.parametrize(("cell", "symbol", "gate"), [("lstm", "d_a_g[2]", "g"), ("gru", "d_q[2]", "q")])
def test_a_box_with_several_gates_names_them_all_and_marks_the_one_of_the_step(open_page, written, cell, symbol, gate):
    watched = open_page(written("hell", "ello", cell=cell))
    page, steps = watched.page, steps_data("hell", "ello", cell=cell)["steps"]
    box = page.locator("#drawing [data-key='a:0:2']")
    page.evaluate("go(4 + drawing.gates.length)")
    assert page.locator("#drawing [data-key='a:0:0'] .caption").text_content() == "gates[0]"
    page.evaluate(f"go({next(i for i, step in enumerate(steps) if step['symbol'] == symbol)})")
    assert box.locator(".caption").text_content() == "d_a[2]"
    assert box.locator(".gate.on").all_text_contents() == [gate]
    start = box.locator(".caption").bounding_box()["x"]
    frame = box.locator(".frame").bounding_box()
    assert start > frame["x"] + frame["width"] / 2 + 4  # beside the arrow
    bars = page.evaluate(f"drawing.boxes.get('a:0:2').bars.get('{gate}').map(b => b.bar.getAttribute('height'))")
    assert len(bars) == 3
    assert any(float(height) > 0.6 for height in bars)
    watched.check()


def test_equations_have_the_numbers_of_the_document_and_initial_states_their_place(open_page, written):
    watched = open_page(written("hell", "ello", cell="lstm"))
    page, steps = watched.page, steps_data("hell", "ello", cell="lstm")["steps"]
    at = {step["symbol"]: i for i, step in enumerate(steps)}
    for symbol, number in {"f[0]": "(1), (23)", "d_c[2]": "(26)", "d_a_o[1]": "(27)", "d_W_hh": "(10)"}.items():
        page.evaluate(f"go({at[symbol]})")
        assert page.inner_text(".formula .number").strip() == number
    for symbol in ("d_h[0]", "d_c[0]"):
        page.evaluate(f"go({at[symbol]})")
        assert "the state before the first step" in page.inner_text(".kicker")
    page.evaluate("go(0)")
    assert page.inner_text(".general") == ""
    watched.check()


def test_row_names_stay_in_view_on_a_phone(open_page, written):
    watched = open_page(
        written("hell", "ello", cell="lstm"), viewport={"width": 390, "height": 800}, reduced_motion="reduce"
    )
    page = watched.page
    page.keyboard.press("End")
    page.evaluate("at('drawing').scrollTo(400, 0)")
    page.locator("#drawing .rows.moved").wait_for(
        state="attached"
    )  # wait_for_function needs eval, which the page forbids
    left = page.locator("#drawing").bounding_box()["x"]
    names = page.locator("#drawing .rowname")
    assert names.count() == 6
    assert all(left <= names.nth(i).bounding_box()["x"] < left + 40 for i in range(6))
    watched.check()


@pytest.mark.parametrize("cell", CELLS)
def test_no_column_of_a_parameter_is_cut(open_page, written, cell):
    watched = open_page(written("hell", "ello", cell=cell))
    page = watched.page
    for name in ("layers.0.W_xh", "layers.0.W_hh", "layers.0.b_h"):
        page.locator("#parameter").select_option(name)
        assert page.locator("#weights input").count() == page.evaluate(f"[].concat(...[lab.P['{name}']].flat()).length")
        assert page.evaluate("at('weights').scrollWidth <= at('weights').clientWidth")
    watched.check()


@pytest.mark.parametrize("options", [
    {"color_scheme": "dark"}, {"viewport": {"width": 390, "height": 800}},
], ids=["dark", "phone"])  # fmt: skip
@pytest.mark.parametrize("cell", CELLS)
def test_it_opens_offline_without_an_error_or_a_request(open_page, written, cell, options):
    watched = open_page(written("hell", "ello", cell=cell), offline=True, **options)
    page = watched.page
    assert page.locator("#lab").is_visible()
    assert page.locator("#drawing svg").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    before = page.inner_text("#count")
    page.locator("#gain").focus()
    page.keyboard.press("ArrowRight")  # moves the slider, not the steps
    assert page.inner_text("#count") == before
    assert page.inner_text("#gain-value") == "×1.05"
    watched.check()


@pytest.mark.parametrize(("options", "reason"), [
    ({"hidden": 400}, "it has 163,604 parameters, more than 150,000"), ({"embedding": 3}, "it has an embedding"),
])  # fmt: skip
def test_a_network_that_the_page_does_not_compute_is_shown_with_the_reason(open_page, written, options, reason):
    model = drawn_model(CharVocabulary("helo"), **options)
    assert "parameters" not in steps_data("hell", "ello", model=model, parameters=True)
    watched = open_page(written("hell", "ello", model=model, shown=4))
    assert not watched.page.locator("#lab").is_visible()
    assert reason in watched.page.inner_text("#fixed")
    watched.page.locator("#next").click()
    watched.check()


def test_a_network_of_the_size_of_a_run_can_be_changed_though_only_a_part_is_shown(open_page, written):
    letters = "".join(chr(ord("!") + i) for i in range(70))
    model = drawn_model(CharVocabulary(letters), hidden=256)
    watched = open_page(written("HELL", "ELLO", model=model, shown=8))
    page = watched.page
    assert not page.locator("#fixed").is_visible()
    assert page.locator("#weights input").count() == 8 * 8
    page.get_by_label("layers.0.W_hh unit 1").first.fill("2.5")
    model.parameters_["layers.0.W_hh"][1, 0] = 2.5
    computed = {step["symbol"]: flat(step["result"]["values"]) for step in page.evaluate("data.steps")}
    for step in steps_data("HELL", "ELLO", model=model, shown=8)["steps"]:
        if not set(step["result"]["axes"]) & {"X", "Y"}:  # an edit can change which tokens are shown
            np.testing.assert_allclose(computed[step["symbol"]], flat(step["result"]["values"]), rtol=0, atol=1e-10)
    page.locator("#train").click()
    assert page.inner_text("#change").startswith("▼")
    watched.check()


@pytest.mark.parametrize("options", [{}, {"bptt_steps": 2}], ids=["full", "truncated"])
def test_no_bar_hides_the_code(open_page, written, options):
    watched = open_page(written("hell", "ello", **options), viewport={"width": 1300, "height": 1000})
    hidden = """[document.querySelector(".formula").innerText, (() => {
      scrollTo(0, 0);
      const box = document.querySelector(".code").getBoundingClientRect();
      return [0.1, 0.3, 0.5, 0.7, 0.9].some(share => !document.querySelector(".code").contains(
        document.elementFromPoint(box.left + 30, box.top + share * box.height))); // none at all outside of the window
    })()]"""
    seen = at_every_step(watched.page, hidden)
    assert [formula for formula, is_hidden in seen if is_hidden] == []
    watched.check()


@pytest.mark.parametrize(
    ("cell", "layers", "k2"), [("rnn", 1, 1), ("rnn", 2, 3), ("gru", 2, 2), ("lstm", 1, 2), ("lstm", 2, 1)]
)
def test_the_page_truncates_as_python_does(open_page, written, cell, layers, k2):
    model = drawn_model(CharVocabulary("helo"), hidden=5, layers=layers, cell=cell)
    options = {"model": model, "shown": 4, "bptt_steps": k2, "learning_rate": 0.3, "clip_norm": 0.2}
    watched = open_page(written("hello", "ellol", **options))
    page = watched.page
    assert f"BPTT over {k2} step" in page.inner_text("#subtitle")
    np.testing.assert_allclose(
        flat(page.evaluate(ALL_VALUES)), all_values(steps_data("hello", "ellol", **options)), rtol=0, atol=1e-12
    )
    rows = "[...document.querySelectorAll('#map .name')].map(node => node.textContent)"
    last = "d_h" if layers == 1 else "d_h 1"
    assert [row for row in page.evaluate(rows) if row.startswith(f"{last}, ")] == [
        f"{last}, {s}" for s in range(4, -1, -1)
    ]
    lit = "drawing.edges.filter(e => e.path.classList.contains('on')).map(e => `${e.kind} ${e.t}`)"
    for number, step in enumerate(page.evaluate("data.steps")):
        if step["name"] == "d_h" and step["layer"] == layers - 1:
            page.evaluate(f"go({number})")
            assert ("W_hy" in str(page.evaluate(lit))) == (step["t"] == step["loss"])
            assert ("W_hh" in str(page.evaluate(lit))) == (step["t"] != step["loss"])
            assert f"back from the loss of t = {step['loss']}" in page.inner_text(".kicker")
    watched.check()


def test_in_python_it_is_one_call_and_shows_itself(tmp_path):
    options = {"bptt_steps": 1, "learning_rate": 0.5, "clip_norm": 0.1}
    expected = steps_data("hell", "ello", shown=8, parameters=True, **options)
    assert look.step_through("hell", "ello", **options).data == expected
    page = look.step_through("hell", "ello", cell="gru")
    assert repr(page) == "<StepsPage: hell → ello, gru, 72 steps>"
    assert page._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    page.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == page.html()
