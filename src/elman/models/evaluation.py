"""Evaluation of models, the same for validation during training, `elman eval` and score.

A text is read as one sequence from a zero state; every token but the first is predicted; losses are averaged over them.
A model of sequences reads each sequence from a zero state; its <end> is predicted too.
Several ranks evaluate a text together: each reads its part, in chunks, from a zero state, then again from the final
state of the rank before it, until the state before a chunk equals that of the previous pass, up to rounding. Networks
forget: after a few hundred tokens a state does not depend on the initial one, so usually one chunk is read twice. If a
network does not forget, there are as many passes as ranks, which takes as long as on one rank.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from elman.data.examples import Examples, sequence_examples
from elman.data.streams import edges_of, sequences_of
from elman.data.symbols import Symbols
from elman.data.targets import Labels
from elman.errors import DataError
from elman.kernels import surprise
from elman.maths.arrays import Array
from elman.models.batches import rows_by_length, to_batch, unweighted
from elman.network import Batch, HeadNetwork, Network, PackedNetwork, Parameters, check_ids
from elman.training.distributed import World
from elman.training.task import Validation

CHUNK = 1024  # tokens; only speed and memory depend on it
DECAY = 0.999  # of the mean square of the gradients in dynamic evaluation
SAME = 256  # times the machine epsilon: states that differ by less count as equal


# -- a text -----------------------------------------------------------------------------------------------------------


class Evaluation(NamedTuple):
    """How well a language model predicts a text.

    Parameters
    ----------
    nats_per_token : float
        The mean negative log probability of a token.
    bits_per_token : float
        The same with the logarithm of base 2.
    bits_per_character : float
        The same per character.
    perplexity : float
        exp(nats_per_token).
    tokens : int
        The number of predicted tokens: all but the first.
    """

    nats_per_token: float
    bits_per_token: float
    bits_per_character: float
    perplexity: float
    tokens: int


def token_losses(network: HeadNetwork, p: Parameters, ids: Array) -> Iterator[Array]:
    """-log y_hat of each token but the first, in nats: an array (T,) for each chunk."""
    packed = network.pack(p)
    for sequence in sequences_of(ids, network.end):
        state = network.stack.zero_state(1, p.buffer.dtype)
        for start in range(0, len(sequence) - 1, CHUNK):
            losses, state = _chunk_losses(network, packed, sequence[start : start + CHUNK + 1], state)
            yield losses


def _chunk_losses(network: HeadNetwork, packed: PackedNetwork, ids: Array, state: Array) -> tuple[Array, Array]:
    """The losses of one chunk read from this state, and the state after it."""
    ids = np.asarray(ids, np.int64)
    check_ids("ids", ids[1:], network.outputs)
    o, state = network.read(packed, ids[:-1, np.newaxis], state)  # (T, 1, Y)
    return surprise(o[:, 0], ids[1:]), state


def _check_text(ids: Array) -> None:
    if len(ids) < 2:
        raise DataError("the text", expected="at least two tokens: the first one is not predicted", got=len(ids))


def mean_loss(network: HeadNetwork, p: Parameters, ids: Array) -> float:
    """Nats per token."""
    _check_text(ids)
    rest, total = ids, 0.0
    if network.end is not None:  # short sequences are read together, as examples
        examples = sequence_examples(ids, network.end)
        lengths = examples.lengths() // 2  # of x alone
        short, long = np.flatnonzero(lengths <= CHUNK), np.flatnonzero(lengths > CHUNK)
        total = evaluate_examples(network, p, examples.take(short)).loss * float(lengths[short].sum())
        edges = edges_of(ids, network.end)
        rest = np.concatenate([ids[:1], *(ids[edges[i] + 1 : edges[i + 1] + 1] for i in long)])
    total += sum(float(losses.sum()) for losses in token_losses(network, p, rest))
    return total / (len(ids) - 1)


def evaluate_text(network: HeadNetwork, p: Parameters, ids: Array, characters: int) -> Evaluation:
    """The evaluation of a text; `characters` is the number of characters that the ids encode."""
    return _evaluation(mean_loss(network, p, ids), len(ids), characters)


def _evaluation(nats: float, tokens: int, characters: int) -> Evaluation:
    bits = nats / math.log(2)
    perplexity = math.exp(nats) if nats < 700 else math.inf
    return Evaluation(nats, bits, bits * (tokens / max(characters, 1)), perplexity, tokens - 1)


def evaluate_dynamically(
    network: HeadNetwork, p: Parameters, ids: Array, characters: int, *, rate: float = 1e-4, window: int = 32
) -> Evaluation:
    """Evaluate a copy of the model that is trained on what it has read (dynamic evaluation, Krause et al. 2018).

    One step of RMSProp follows the loss of each window: no token is predicted by weights that were trained on it.

    Parameters
    ----------
    network, p
        The model; its parameters are not changed.
    ids : array of shape (N,)
        The text.
    characters : int
        The number of characters that the ids encode.
    rate : float
        The learning rate.
    window : int
        The number of tokens between two steps.

    Returns
    -------
    Evaluation
    """
    _check_text(ids)
    adapted, gradients = p.zeros(), p.zeros()
    adapted.buffer[:] = p.buffer
    squares = np.zeros_like(p.buffer)  # the mean square of the gradients
    total, t = 0.0, 0
    for sequence in sequences_of(ids, network.end):
        state = network.stack.zero_state(1, p.buffer.dtype)
        for start in range(0, len(sequence) - 1, window):
            read = np.asarray(sequence[start : start + window + 1], np.int64)[:, np.newaxis]
            batch, T, t = Batch(read[:-1], read[1:], state=state), len(read) - 1, t + 1
            total += T * network.loss_and_gradients(adapted, batch, gradients, normalizer=T)
            squares = DECAY * squares + (1 - DECAY) * gradients.buffer**2
            adapted.buffer -= rate * gradients.buffer / (np.sqrt(squares / (1 - DECAY**t)) + 1e-6)
    return _evaluation(total / (len(ids) - 1), len(ids), characters)


def shared_mean_loss(network: HeadNetwork, p: Parameters, ids: Array, world: World) -> float:
    """Nats per token, evaluated by all ranks together; losses are added in the order of the text."""
    chunks = -(-(len(ids) - 1) // CHUNK)
    part = world.share(chunks)
    # the earlier ranks that have a part
    earlier = [rank for rank in range(world.rank) if world.share(chunks, rank).stop > world.share(chunks, rank).start]
    packed, zero = network.pack(p), network.stack.zero_state(1, p.buffer.dtype)  # (L, P, 1, H)
    begins: dict[int, Array] = {}  # the state before each chunk when it was last read
    sums: dict[int, float] = {}  # the loss of each chunk
    begin, end = zero, zero
    ends: Array | None = None
    for _ in range(world.size + 1):
        state = begin
        for chunk in range(part.start, part.stop):
            if chunk in begins and _same(state, begins[chunk]):
                break
            begins[chunk] = state
            start = chunk * CHUNK
            losses, state = _chunk_losses(network, packed, ids[start : start + CHUNK + 1], state)
            sums[chunk] = float(losses.sum())
        else:
            end = state
        before, ends = ends, world.gather(end[np.newaxis])  # (ranks, L, P, 1, H)
        if before is not None and _same(ends, before):
            break
        begin = ends[earlier[-1]] if earlier else zero
    total = world.gather(np.array([sums[chunk] for chunk in sorted(sums)]))
    return float(sum(total.tolist())) / (len(ids) - 1)


def _same(a: Array, b: Array) -> bool:
    return np.allclose(a, b, rtol=0, atol=SAME * np.finfo(a.dtype).eps, equal_nan=True)


# -- examples ---------------------------------------------------------------------------------------------------------


def evaluate_examples(network: Network, p: Parameters, examples: Examples) -> Validation:
    """The weighted mean loss and, for classes and tags, the accuracy without weights."""
    total = units = right = count = 0.0
    packed = network.pack(p)
    for rows in rows_by_length(examples):
        batch = to_batch(examples, rows, p.buffer.dtype)
        loss, found = network.evaluate(packed, batch)
        total, right = total + loss, right + found
        units, count = units + network.loss_count(batch), count + network.loss_count(unweighted(batch))
    labels = isinstance(network, HeadNetwork) and network.loss_name == "cross_entropy"
    return Validation(total / max(units, 1e-30), right / max(count, 1) if labels else None)


@dataclass(frozen=True)
class ClassScores:
    """How well classes or tags are predicted: one for each example, or for each step."""

    examples: int  # for tags the number of steps
    accuracy: float
    macro_f1: float
    classes: list[Any]
    confusion: list[list[int]]  # rows: the true class, columns: the predicted one


@dataclass(frozen=True)
class SequenceScores:
    """How well sequences are predicted."""

    examples: int
    exact_match: float  # share of sequences that equal their target
    token_accuracy: float  # share of positions with the same token
    edit_distance: float  # insertions, deletions and substitutions per token of the targets
    words_right: float  # 1 - edits per word of the targets, for any kind of tokens; punctuation marks count as words
    bleu: float | None  # 0 to 100; None without sacrebleu (pip install "elman[metrics]"), and for lists of tokens
    chrf: float | None  # likewise


@dataclass(frozen=True)
class RegressionScores:
    """How well numbers are predicted."""

    examples: int
    r2: float  # 1 − the mean squared error over the variance of the targets
    mean_absolute_error: float
    root_mean_squared_error: float


@dataclass(frozen=True)
class Likelihood:
    """The likelihood of sequences under a generator."""

    examples: int
    nats_per_token: float
    perplexity: float


def class_scores(targets: Sequence[Any], predicted: Sequence[Any], classes: Array) -> ClassScores:
    labels = Labels(classes)
    n = np.zeros((len(classes), len(classes)), np.int64)
    np.add.at(n, (labels.encode(targets), labels.encode(predicted)), 1)
    right, either = n.diagonal(), n.sum(axis=0) + n.sum(axis=1)
    f1 = 2 * right[either > 0] / either[either > 0]  # of each class that is a target or a prediction
    return ClassScores(len(targets), float(right.sum() / n.sum()), float(f1.mean()), classes.tolist(), n.tolist())


def sequence_scores(targets: Sequence[Any], predicted: Sequence[Any], symbols: Symbols) -> SequenceScores:
    pairs = [(symbols.tokenize(y), symbols.tokenize(p)) for y, p in zip(targets, predicted, strict=True)]
    positions = sum(max(len(y), len(p)) for y, p in pairs)
    same = sum(a == b for y, p in pairs for a, b in zip(y, p, strict=False))
    edits = sum(edit_distance(y, p) for y, p in pairs)
    tokens = sum(len(y) for y, _ in pairs)
    exact = float(np.mean([y == p for y, p in pairs]))
    rates = same / max(positions, 1), edits / max(tokens, 1), words_right(targets, predicted)
    return SequenceScores(len(pairs), exact, *rates, *_sacrebleu(targets, predicted))


def words_right(targets: Sequence[Any], predicted: Sequence[Any]) -> float:
    """1 - edits per word of the targets: the share of words that are right.

    Parameters
    ----------
    targets, predicted : sequences of str, or of lists of tokens
        A string is cut into words and punctuation marks, a list into its tokens.

    Returns
    -------
    float
        At most 1; below 0 if there are more edits than words.

    Examples
    --------
    >>> words_right(["Il est tard."], ["Il est tôt."])
    0.75
    """
    pairs = [(_words(y), _words(p)) for y, p in zip(targets, predicted, strict=True)]
    edits = sum(edit_distance(y, p) for y, p in pairs)
    return 1 - edits / max(sum(len(y) for y, _ in pairs), 1)


def _words(text: Any) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text) if isinstance(text, str) else list(text)


def _sacrebleu(targets: Sequence[Any], predicted: Sequence[Any]) -> tuple[float | None, float | None]:
    """BLEU and chrF of strings; None if sacrebleu is not installed."""
    if not targets or not isinstance(targets[0], str):
        return None, None
    try:
        import sacrebleu
    except ImportError:
        return None, None
    bleu = sacrebleu.corpus_bleu(list(predicted), [list(targets)]).score
    return float(bleu), float(sacrebleu.corpus_chrf(list(predicted), [list(targets)]).score)


def regression_scores(targets: Sequence[Any], predicted: Sequence[Any]) -> RegressionScores:
    y, y_hat = np.asarray(targets, np.float64), np.asarray(predicted, np.float64)
    squares, variance = float(np.mean((y - y_hat) ** 2)), float(np.mean((y - y.mean(axis=0)) ** 2))
    r2 = 1 - squares / variance if variance else float(squares == 0)
    return RegressionScores(len(y), r2, float(np.mean(np.abs(y - y_hat))), squares**0.5)


def edit_distance(a: Sequence[Any], b: Sequence[Any]) -> int:
    """The smallest number of insertions, deletions and substitutions that turn a into b."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (x != y))
    return row[-1]


def evaluate_model(
    model: Any, left: list[Any], right: list[Any]
) -> ClassScores | SequenceScores | Likelihood | RegressionScores:
    """The scores of a model on the two columns of a file: texts and labels, tokens and tags, sources and targets."""
    task = model.task
    if task == "generate":
        nats = model.nats(right, left)
        return Likelihood(len(left), nats, float(np.exp(nats)))
    predicted = model.predict(left)
    if task == "regress":
        return regression_scores(right, predicted)
    if task == "translate":
        return sequence_scores(right, predicted, model.symbols_)
    if task == "tag":
        right, predicted = ([tag for tags in part for tag in tags] for part in (right, predicted))
    return class_scores(right, predicted, model.classes_)
