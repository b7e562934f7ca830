"""A real browser for every test that wants one: Debian's Chromium, driven by Playwright. And time for hypothesis."""

import os
import shutil
from collections.abc import Iterator

import pytest
from hypothesis import settings

# a machine with other work to do is no defect of what is tested
settings.register_profile("elman", deadline=None)
settings.load_profile("elman")


def pytest_addoption(parser):
    parser.addoption("--chromium", default=os.environ.get("ELMAN_CHROMIUM", ""), help="the path of Chromium")


@pytest.fixture(scope="module")
def chromium(request) -> Iterator:
    """For one file of tests: while Playwright lives, nobody else can run an event loop in this thread."""
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
                item.add_marker(pytest.mark.skip(reason="for scripts/nightly: ELMAN_TEST_ALL=1"))


class Watched:
    """A page, and all that it complained about or asked the network for."""

    def __init__(self, page, home: str) -> None:
        self.page, self.home = page, home
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def check(self) -> None:
        """No error in the console, and no request but to its own server or file."""
        local = ("data:", "blob:", "about:", self.home)
        assert self.errors == []
        assert [url for url in self.requests if not url.startswith(local)] == []


@pytest.fixture
def open_page(chromium) -> Iterator:
    """open_page(url, home=…, **context options such as color_scheme or viewport): a Watched page."""
    contexts = []

    def open_(url: str, home: str | None = None, **options) -> Watched:
        context = chromium.new_context(**options)
        contexts.append(context)
        watched = Watched(context.new_page(), home or url)
        watched.page.goto(url)
        return watched

    yield open_
    for context in contexts:
        context.close()
