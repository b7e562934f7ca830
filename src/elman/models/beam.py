"""The likeliest continuation of a prompt, as far as a few parallel candidates can see."""

from __future__ import annotations

import numpy as np

from elman.models.decoding import beam_search
from elman.models.sampling import Writer, check_beam, check_request


def likeliest_text(
    writer: Writer,
    prompt: str,
    *,
    width: int,
    length: int,
    stop: str | None = None,
    unknown: str = "error",
    seed: int = 0,
) -> str:
    """The prompt and the continuation with the highest probability among `width` candidates a step.

    What has come to the stop text ends there, without it.
    """
    check_beam(width)
    check_request(length, stop, seed)
    ids, begun = writer.prompt(prompt, np.random.default_rng([seed, 0]), unknown)
    begun, decoder = begun[:length], writer.decoder()
    o, state = writer.read(ids, decoder=decoder)

    def text_of(tokens: list[int]) -> str:
        return "".join(writer.pieces([*begun, *tokens]))

    found = beam_search(
        decoder, o[np.newaxis], state, width=width, limit=length - len(begun),
        ends=lambda tokens: stop is not None and stop in text_of(tokens),
    )  # fmt: skip
    text = text_of(found[0].tokens if found else [])
    return prompt + (text[: text.index(stop)] if stop and stop in text else text)
