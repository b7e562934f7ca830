"""python -P -m elman.serve.child BOUNDS WORD…: `elman WORD…` within bounds that it cannot lift.

It also ends with the service that started it, even if that is killed (on Linux; elsewhere its processor time is
bounded all the same).
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from typing import NamedTuple

PR_SET_PDEATHSIG = 1  # of prctl(2)


class Bounds(NamedTuple):
    service: int  # id of the process that it belongs to
    memory: int  # bytes
    file: int  # bytes of each file
    seconds: int  # of processor time


def command(bounds: Bounds, words: list[str]) -> list[str]:
    """What to start for `elman WORD…`. -P: modules are never taken from the working folder."""
    if sys.platform == "win32":  # which has no such bounds
        return [sys.executable, "-P", "-m", "elman", *words]
    return [sys.executable, "-P", "-m", "elman.serve.child", json.dumps(bounds), *words]


def main(words: list[str]) -> None:
    if sys.platform == "win32":
        raise SystemExit("elman.serve.child is not for Windows")
    import resource

    bounds = Bounds(*json.loads(words[0]))
    os.nice(10)  # answers come first
    for kind, most in (
        (resource.RLIMIT_DATA, bounds.memory),  # and not RLIMIT_AS: threads reserve addresses that they never use
        (resource.RLIMIT_FSIZE, bounds.file),
        (resource.RLIMIT_CPU, bounds.seconds),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))
    if sys.platform == "linux":
        # it saves and ends; the signal comes once for each thread of the service, and a second SIGTERM would not save
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGUSR1)
    if os.getppid() != bounds.service:  # which ended before it could be asked for a signal
        raise SystemExit(143)
    os.execv(sys.executable, [sys.executable, "-P", "-m", "elman", *words[1:]])


if __name__ == "__main__":
    main(sys.argv[1:])
