"""Beam search: the likeliest continuation, as far as a few parallel candidates can see."""

from __future__ import annotations

import numpy as np

from elman.maths.loss import softmax
from elman.models.sampling import Writer, check_beam, check_request


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
    check_beam(width)
    check_request(length, stop, seed)
    ids, begun = writer.prompt(prompt, np.random.default_rng([seed, 0]), unknown)
    begun = begun[:length]
    o, state = writer.read(ids)
    logits = o[np.newaxis]  # (candidates, Y)
    scores, written = np.zeros(1), [begun]
    ended: list[tuple[float, str]] = []
    for _ in range(length - len(begun)):
        logits = logits.astype(np.float64)
        logits[:, writer.banned] = -np.inf
        with np.errstate(divide="ignore"):  # log 0 is -inf, which is right
            total = scores[:, np.newaxis] + np.log(softmax(logits))  # (candidates, Y)
        best = np.argsort(-total, axis=None, kind="stable")[:width]
        parents, tokens = np.unravel_index(best, total.shape)
        alive = []
        for parent, token in zip(parents.tolist(), tokens.tolist(), strict=True):
            score, text = float(total[parent, token]), [*written[parent], token]
            if score == -np.inf:
                continue
            if stop and stop in (shown := _text(writer, text)):
                ended.append((score, shown[: shown.index(stop)]))
            else:
                alive.append((score, parent, text))
        scores, written = np.array([a[0] for a in alive]), [a[2] for a in alive]
        if not alive or (ended and max(ended)[0] >= scores[0]):
            break
        rows = np.array([a[1] for a in alive])
        last = np.array([[text[-1] for text in written]])  # (1, candidates)
        out, state = writer.network.forward(writer.parameters, last, [h[rows] for h in state])
        logits = out[0]
    finished = [*ended, *((float(score), _text(writer, text)) for score, text in zip(scores, written, strict=True))]
    return prompt + max(finished, key=lambda pair: pair[0])[1]


def _text(writer: Writer, ids: list[int]) -> str:
    return "".join(writer.pieces(ids))
