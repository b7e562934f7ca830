"""Beam search: the likeliest continuation, as far as a few parallel candidates can see."""

from __future__ import annotations

import numpy as np

from elman.errors import RangeError
from elman.models.sampling import Writer


def beam_search(
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

    A candidate that has written the stop text is set aside with its probability, without the stop text; the search
    ends when no candidate that goes on can overtake the best one set aside.
    """
    if width < 1:
        raise RangeError("beam", expected="a whole number, 1 or more", got=width)
    if length < 0:
        raise RangeError("length", expected="0 or more tokens", got=length)
    ids, shown = writer.prompt(prompt, np.random.default_rng([seed, 0]), unknown)
    begun = ids if shown and not prompt else []
    o, state = writer.read(ids)
    logits = o[np.newaxis]  # (candidates, Y)
    scores, written = np.zeros(1), [list(begun)]
    ended: list[tuple[float, str]] = []
    decode = writer.vocabulary.decode
    for _ in range(length):
        log_y_hat = logits - logits.max(axis=1, keepdims=True)
        log_y_hat = log_y_hat - np.log(np.exp(log_y_hat).sum(axis=1, keepdims=True))
        log_y_hat[:, writer.banned] = -np.inf
        total = scores[:, np.newaxis] + log_y_hat.astype(np.float64)  # (candidates, Y)
        best = np.argsort(-total, axis=None, kind="stable")[:width]
        parents, tokens = np.unravel_index(best, total.shape)
        alive = []
        for parent, token in zip(parents.tolist(), tokens.tolist(), strict=True):
            score, text = float(total[parent, token]), [*written[parent], token]
            if score == -np.inf:
                continue
            if stop and stop in decode(text):
                ended.append((score, decode(text).split(stop)[0]))
            else:
                alive.append((score, parent, text))
        if not alive or (ended and max(ended)[0] >= alive[0][0]):
            break
        scores, written = np.array([a[0] for a in alive]), [a[2] for a in alive]
        rows = np.array([a[1] for a in alive])
        last = np.array([[text[-1] for text in written]])  # (1, candidates)
        out, state = writer.network.forward(writer.parameters, last, [h[rows] for h in state])
        logits = out[0]
    finished = [*ended, (float(scores[0]), decode(written[0]))]
    return prompt + max(finished, key=lambda pair: pair[0])[1]
