"""Limits on what clients may request. The flags of `elman serve` are made from them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from elman.config import is_real, is_whole, option
from elman.errors import RangeError
from elman.errors import option as written


@dataclass(frozen=True)
class Limits:
    max_body: int = option(1 << 20, "bytes in the body of a request")
    max_prompt: int = option(20_000, "tokens in a prompt; characters or steps in an input to predict or analyze")
    max_tokens: int = option(4096, "tokens that are generated for each text")
    max_sequences: int = option(64, "texts that are generated at the same time")
    max_streams: int = option(32, "clients that follow the metrics of runs at the same time")
    max_connections: int = option(512, "connections at the same time; at most a third of the files that may be open")
    max_trainings: int = option(100, "trainings that may be started from the page, one at a time")
    max_training_memory: int = option(
        4 << 30, "bytes of memory for a training from the page; at most half of the machine's"
    )
    max_training_disk: int = option(
        4 << 30, "bytes of disk for all trainings from the page; at most half of the free space"
    )
    max_seconds: float = option(60.0, "seconds that a request may take")

    def check(self) -> Limits:
        for field in fields(self):
            value, whole = getattr(self, field.name), field.type == "int"
            if not (is_whole(value) if whole else is_real(value)) or not 0 < value < 2**53:
                expected = f"a {'whole ' * whole}number above 0 and below 2^53"
                raise RangeError(written(field.name), expected=expected, got=value)
        return self
