"""Photographs the page of `elman serve` for docs/page.md: python docs/figures/photograph.py http://127.0.0.1:8765

The service has a run named pride-and-prejudice, trained with --epochs 15 --sample-every 300. Needs what the tests need:
Chromium, and Playwright (pip install -e '.[test]').
"""

from __future__ import annotations

import base64
import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

HERE, RUN = Path(__file__).parent, "pride-and-prejudice"
PROMPT = "The young man who came to dinner"
TEXT = "She had not been at home an hour when the rain began, and nobody came to dinner."
PHONE = {"width": 360, "height": 740}


def visit(browser: Browser, home: str, view: str, height: int, **options: Any) -> Page:
    size = {"viewport": {"width": 1180, "height": height}, "reduced_motion": "reduce", "bypass_csp": True}
    page = browser.new_context(**size | options).new_page()
    page.goto(f"{home}/#{view}/{RUN}")
    return page


def write(page: Page) -> None:
    page.fill("#seed", "7")
    page.fill("#prompt", PROMPT)
    page.click("#go")
    page.wait_for_timeout(300)
    page.wait_for_function("document.getElementById('write-status').textContent.includes('per second')")


def flow(page: Page) -> None:
    page.fill("#flow-text", TEXT)
    page.wait_for_function(f"document.getElementById('map-figure').data?.[0].z.length === {len(TEXT) - 1}")
    page.wait_for_selector("#lyapunov-figure.drawn")
    page.wait_for_function("!document.getElementById('flow-status').textContent.includes('…')")


def steps(page: Page) -> None:
    page.fill("#word", "hello")
    page.wait_for_selector(".formula")
    page.focus("#step-slider")
    page.keyboard.press("Home")
    while not page.inner_text("#step-count").startswith("26 /"):
        page.click("#next")


def keep(page: Page, name: str) -> None:
    page.wait_for_timeout(500)  # for shadows and fades
    page.screenshot(path=HERE / name)


def photograph(browser: Browser, home: str) -> None:
    page = visit(browser, home, "write", 780)
    write(page)
    page.click("#text span:nth-child(39)")
    page.wait_for_selector("#inspector:not([hidden])")
    keep(page, "page-write.png")

    page = visit(browser, home, "learn", 760)
    page.wait_for_selector("#loss-figure.drawn")
    keep(page, "page-learn.png")

    page = visit(browser, home, "flow", 1100, color_scheme="dark")
    flow(page)
    keep(page, "page-flow-dark.png")

    page = visit(browser, home, "steps", 1000)
    steps(page)
    keep(page, "page-steps.png")

    shots = []
    for view, act, scheme in (("write", write, "light"), ("flow", flow, "dark"), ("steps", steps, "light")):
        page = visit(browser, home, view, 0, viewport=PHONE, is_mobile=True, has_touch=True, color_scheme=scheme)
        act(page)
        page.evaluate(
            "window.scrollTo(0, 0)" if view != "steps" else "document.getElementById('unrolled').scrollIntoView()"
        )
        page.wait_for_timeout(500)
        shots.append(base64.b64encode(page.screenshot()).decode())
    page = browser.new_page(viewport={"width": 3 * 360 + 2 * 24, "height": 740})
    images = "".join(f'<img src="data:image/png;base64,{shot}">' for shot in shots)
    page.set_content(f'<body style="margin:0;display:flex;gap:24px;background:#c8cdd8">{images}</body>')
    keep(page, "page-phone.png")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        photograph(browser, sys.argv[1].rstrip("/"))
        browser.close()
