"""The page of the steps, in a real browser: it steps, it asks for nothing, and no text can break it."""

from __future__ import annotations

import pytest
from look_models import drawn_model

from elman.data import CharVocabulary
from elman.look.steps import steps_data
from elman.look.steps_page import steps_page

NASTY = "</script><b>&"


@pytest.fixture
def written(tmp_path):
    def write(*texts, **options):
        path = tmp_path / "steps.html"
        path.write_text(steps_page(steps_data(*texts, **options)), encoding="utf-8")
        return path.as_uri()

    return write


def test_buttons_and_keys_step(open_page, written):
    watched = open_page(written("hell", "ello"))
    page = watched.page
    formula, count = page.locator(".formula"), page.locator("#count")
    assert count.inner_text() == "1 / 39"
    assert page.locator("#previous").is_disabled()
    page.locator("#next").click()
    assert formula.inner_text() == "a[0] = x[0] @ W_xh + h[0] @ W_hh + b_h"
    page.keyboard.press("ArrowRight")
    assert formula.inner_text() == "h[1] = tanh(a[0])"
    assert page.locator("#map [aria-current=step]").inner_text() == "1"  # as h is counted
    page.keyboard.press("ArrowLeft")
    assert formula.inner_text().startswith("a[0]")
    page.keyboard.press("End")
    assert count.inner_text() == "39 / 39"
    assert page.locator("#next").is_disabled()
    page.keyboard.press("ArrowRight")
    assert count.inner_text() == "39 / 39"
    page.locator("#map button", has_text="d_W_hh").click()
    assert formula.inner_text() == "d_W_hh = Σ_t h[t].T @ d_a[t]"
    assert page.url.endswith("#36")
    assert page.locator("#map button[aria-current=step]").count() == 1
    page.keyboard.press("Home")
    assert count.inner_text() == "1 / 39"
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
        values = step["result"]["values"]
        flat = [values] if step["result"]["axes"] == "" else values
        flat = [v for row in flat for v in row] if len(step["result"]["axes"]) == 2 else flat
        assert cells == flat
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
        assert len(seen) == 39
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
