"""elman train --watch: show the run on a web page while it trains, on this machine only, until the training ends."""

from __future__ import annotations

import os
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from elman.cli.console import console
from elman.errors import MissingExtraError
from elman.training.events import Event, Listener, Started


def check_extra() -> None:
    """Raise MissingExtraError before a text is read if the service cannot be imported."""
    try:
        from elman.serve.server import serving  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            f"elman train --watch needs {error.name}", do="Install what it needs: pip install 'elman[serve]'"
        ) from None


@contextmanager
def watched(wanted: bool) -> Iterator[Listener]:
    """A listener that, if wanted, serves the run on a web page from the start of the training and opens the page."""
    with ExitStack() as open_:

        def listen(event: Event) -> None:
            if wanted and isinstance(event, Started) and event.run is not None:
                address = open_.enter_context(_serving(event.run))
                console.print(f"Watch it learn: {address}/#learn", markup=False)
                threading.Thread(target=_show, args=(f"{address}/#learn",), daemon=True).start()

        yield listen


@contextmanager
def _serving(run: Path) -> Iterator[str]:
    from elman.serve.app import new_service
    from elman.serve.guard import AccessPolicy
    from elman.serve.server import listen, serving

    policy = AccessPolicy("127.0.0.1", os.environ.get("ELMAN_API_KEY", ""))
    with listen(policy.host, 0) as listener, serving(new_service([run], policy, runs=run.parent), listener) as address:
        yield address


def _show(address: str) -> None:
    """Open the page, but not in a text browser (unless $BROWSER names one): it would write over the progress bar."""
    try:
        browser = webbrowser.get()
        if os.environ.get("BROWSER") or type(browser) is not webbrowser.GenericBrowser:
            browser.open(address)
    except webbrowser.Error:
        pass  # there is no browser; the address is printed
