"""elman serve: an HTTP service for trained models, with a web page."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from elman.cli.compile_notice import print_compile_notice
from elman.cli.console import console, errors
from elman.cli.flags import argument, flag
from elman.errors import MissingExtraError
from elman.serve.limits import Limits


@dataclass(frozen=True)
class Serve:
    """Serve trained models over HTTP, with an API like OpenAI's completions and a web page.

    If the environment variable ELMAN_API_KEY is set, clients must send that key. Ctrl-C finishes the requests
    that are running, then stops.

    For instance:
        elman serve runs/pride-and-prejudice
        elman serve runs/novel runs/letters --port 8000
    """

    run_folders: tuple[Path, ...] = argument(
        "RUN",
        "runs to serve, made by elman train; a run that is trained from the page is served too, until the service "
        "stops",
        (),
    )
    host: str = flag("127.0.0.1", "address to listen on; 0.0.0.0 accepts connections from other machines")
    port: int = flag(8765, "port; 0 takes a free one")
    allow_host: tuple[str, ...] = flag((), "host names in the Host header that are accepted too")
    allow_origin: tuple[str, ...] = flag((), "other sites whose pages may send requests, such as https://example.org")
    runs: Path = flag(Path("runs"), "folder for the runs that are trained from the page")
    limits: Limits = field(default_factory=Limits)

    def run(self) -> int:
        try:
            from elman.serve.server import listen, serve, url
        except ImportError as error:
            raise MissingExtraError(
                f"elman serve needs {error.name}", do="Install what it needs: pip install 'elman[serve]'"
            ) from None
        from elman.serve.app import new_service
        from elman.serve.guard import AccessPolicy

        key = os.environ.get("ELMAN_API_KEY", "")
        limits = self.limits.check()
        policy = AccessPolicy(self.host, key, self.allow_host, self.allow_origin)
        with listen(self.host, self.port, limits.max_seconds) as listener:
            if self.run_folders:
                print_compile_notice("sample")
            with errors.rich.status("loading"):
                service = new_service(self.run_folders, policy, limits, runs=self.runs)
            for warning in policy.warnings():
                errors.print(warning, markup=False, style="yellow")
            names = ", ".join(served.name for served in service.registry) or "no runs yet"
            console.print(f"Serving {names}: {url(listener)}", markup=False)
            console.print("Ctrl-C stops.")
            serve(service, listener)
        console.print("Stopped.")
        return 0
