"""A real browser for the tests that need one: Debian's Chromium, driven by Playwright. And settings of hypothesis."""

import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import settings

# no deadline: a busy machine must not fail a test
settings.register_profile("elman", deadline=None)
settings.load_profile("elman")

DESK = {"width": 1280, "height": 720}


def pytest_configure():
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts background processes this way
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--chromium", default=os.environ.get("ELMAN_CHROMIUM", ""), help="the path of Chromium")


@pytest.fixture(scope="module")
def chromium(request) -> Iterator:
    """For one file of tests: while Playwright runs, no other event loop can run in this thread."""
    path = request.config.getoption("--chromium") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not path:
        pytest.skip("no Chromium: apt-get install -y --no-install-recommends chromium, or --chromium PATH")
    sync = pytest.importorskip("playwright.sync_api", reason="no Playwright: pip install playwright")
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def pytest_collection_modifyitems(items):
    if not os.environ.get("ELMAN_TEST_ALL"):
        for item in items:
            if item.get_closest_marker("nightly"):
                item.add_marker(pytest.mark.skip(reason="nightly: bash scripts/nightly"))


def pytest_terminal_summary(terminalreporter):
    """Print one line about the skipped tests; the reasons say how to run them."""
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", []))
    if reasons:
        parts = (f"{count} × {reason.removeprefix('Skipped: ')}" for reason, count in reasons.most_common())
        terminalreporter.write_line(f"Skipped: {'; '.join(parts)}")


class Watched:
    """A page, with its console errors and its requests."""

    def __init__(self, page, home: str) -> None:
        self.page, self.home = page, home
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.heard = {
            "console": lambda message: self.errors.append(message.text) if message.type == "error" else None,
            "pageerror": lambda error: self.errors.append(str(error)),
            "request": lambda request: self.requests.append(request.url),
        }
        for event, hear in self.heard.items():
            page.on(event, hear)

    def check(self) -> None:
        """No error in the console, and no request but to its own server or file."""
        local = ("data:", "blob:", "about:", self.home)
        assert self.errors == []
        assert [url for url in self.requests if not url.startswith(local)] == []

    def leave(self) -> None:
        """Close other tabs, empty this one, and delete what it stored, so that the next test starts anew."""
        for event, hear in self.heard.items():
            self.page.remove_listener(event, hear)
        for other in self.page.context.pages:
            if other != self.page:
                other.close()
        self.page.evaluate(
            "try { localStorage.clear(); sessionStorage.clear(); } catch { /* not every page may keep */ }"
        )
        self.page.context.clear_cookies()
        self.page.goto("about:blank")
        self.page.mouse.move(0, 0)


@pytest.fixture(scope="module")
def tabs(chromium) -> dict:
    """Open tabs, reused by later tests: in a new tab Chromium compiles Plotly again, which takes seconds."""
    return {}


@pytest.fixture
def open_page(chromium, tabs) -> Iterator:
    """open_page(url, home=…, **options of the browser such as color_scheme or viewport): a Watched page.

    A second call takes the same tab, as a new visitor.
    """
    opened: list[Watched] = []

    def open_(
        url: str,
        home: str | None = None,
        *,
        color_scheme="light",
        reduced_motion="no-preference",
        viewport=DESK,
        offline=False,
        **options,
    ) -> Watched:
        while opened:
            opened.pop().leave()
        kind = repr(sorted(options.items()))
        if kind not in tabs:
            tabs[kind] = chromium.new_context(**options).new_page()
        page = tabs[kind]
        page.emulate_media(color_scheme=color_scheme, reduced_motion=reduced_motion)
        page.set_viewport_size(viewport)
        page.context.set_offline(offline)
        opened.append(Watched(page, home or url))
        page.goto(url)
        return opened[-1]

    yield open_
    try:
        while opened:
            opened.pop().leave()
    except Exception:  # a tab that does not respond is not reused
        while tabs:
            tabs.popitem()[1].context.close()
        raise
