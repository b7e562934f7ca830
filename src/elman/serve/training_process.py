"""python -P -m elman.serve.training_process BOUNDS ARGUMENT…: run `elman ARGUMENT…` within limits that it cannot raise.

On Linux the process also ends if the service that started it is killed. On other systems it then continues, at most
until its processor time is used up; on Windows there are no limits.
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
    service: int  # id of the process of the service
    memory: int  # bytes
    file: int  # bytes of each file
    seconds: int  # of processor time


def command(bounds: Bounds, words: list[str]) -> list[str]:
    """The command that runs `elman ARGUMENT…`. -P: modules are never imported from the working folder."""
    if sys.platform == "win32":  # no such limits exist there
        return [sys.executable, "-P", "-m", "elman", *words]
    return [sys.executable, "-P", "-m", "elman.serve.training_process", json.dumps(bounds), *words]


def main(words: list[str]) -> None:
    if sys.platform == "win32":
        raise SystemExit("elman.serve.training_process is not for Windows")
    import resource

    bounds = Bounds(*json.loads(words[0]))
    os.nice(10)  # requests have priority
    for kind, most in (
        (resource.RLIMIT_DATA, bounds.memory),  # not RLIMIT_AS: threads reserve addresses that they never use
        (resource.RLIMIT_FSIZE, bounds.file),
        (resource.RLIMIT_CPU, bounds.seconds),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))
    if sys.platform == "linux":
        # not SIGTERM: the signal comes once for each thread of the service, and a second SIGTERM would end the training
        # before it has saved; on any number of SIGUSR1 it saves and ends
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGUSR1)
    if os.getppid() != bounds.service:  # the service ended before prctl
        raise SystemExit(143)
    os.execv(sys.executable, [sys.executable, "-P", "-m", "elman", *words[1:]])


if __name__ == "__main__":
    main(sys.argv[1:])
