"""A PyTorch twin as the judge of training: every shape of network learns the same from the same numbers.

The twin has PyTorch's own layers, packed sequences, autograd and Adam (benchmarks/twin.py). Run by scripts/crosscheck.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from twin import both_curves, prepared, seeded

from elman import Seq2Seq, SequenceClassifier, SequenceGenerator, SequenceRegressor, SequenceTagger

N, STEPS = 60, 50
SMALL = {"hidden": 12, "batch_size": 16, "epochs": 20, "learning_rate": 1e-2, "warmup_steps": 5, "dtype": "float64"}
PLAIN = SMALL | {"dropout": 0.0, "input_dropout": 0.0, "recurrent_dropout": 0.0, "unk_dropout": 0.0, "random_state": 0}


def texts(letters, shortest=1, longest=9):
    rng = np.random.default_rng(len(letters))
    return ["".join(rng.choice(list(letters), rng.integers(shortest, longest))) for _ in range(N)]


def numbers():
    """(T, 3) each, of any T."""
    rng = np.random.default_rng(3)
    return [rng.standard_normal((rng.integers(1, 9), 3)) for _ in range(N)]


WORDS, OTHERS = texts("abcdef"), texts("uvwxyz")
FIRST = [word[0] for word in WORDS]
TAGS = [[letter.upper() for letter in word] for word in WORDS]
SUMS = np.array([x.sum(axis=0)[:2] for x in numbers()])
FIXED_STATE = {"attention": "none", "bidirectional": False, "cell": "rnn"}
CASES = {
    "classify": (SequenceClassifier, WORDS, FIRST, {"cell": "rnn"}),
    "classify, mean": (
        SequenceClassifier,
        WORDS,
        FIRST,
        {"cell": "rnn", "pooling": "mean", "bidirectional": True, "layers": 2},
    ),
    "classify, max": (SequenceClassifier, numbers(), FIRST, {"cell": "rnn", "pooling": "max"}),
    "regress": (SequenceRegressor, numbers(), SUMS, {"activation": "relu", "recurrent_init": "identity"}),
    "tag": (SequenceTagger, WORDS, TAGS, {"bidirectional": False, "embedding": 0}),
    "tag, both ways": (SequenceTagger, WORDS, TAGS, {"bidirectional": True, "embedding": 5, "layers": 2}),
    "classify, gru": (SequenceClassifier, WORDS, FIRST, {"cell": "gru", "bidirectional": True, "layers": 2}),
    "regress, lstm": (SequenceRegressor, numbers(), SUMS, {"cell": "lstm"}),
    "tag, lstm": (SequenceTagger, WORDS, TAGS, {"cell": "lstm", "bidirectional": True, "embedding": 5, "layers": 2}),
    "tag, gru": (SequenceTagger, WORDS, TAGS, {"cell": "gru", "bidirectional": False, "embedding": 0}),
    "generate, lstm": (SequenceGenerator, FIRST, WORDS, {"cell": "lstm", "layers": 2}),
    "translate, gru": (Seq2Seq, WORDS, OTHERS, {**FIXED_STATE, "cell": "gru", "embedding": 5, "layers": 2}),
    "translate, lstm": (
        Seq2Seq,
        numbers(),
        OTHERS,
        {**FIXED_STATE, "cell": "lstm", "bidirectional": True, "embedding": 0},
    ),
    "translate, dot": (Seq2Seq, WORDS, OTHERS, {"attention": "dot", "embedding": 5}),
    "translate, dot, one-hot": (
        Seq2Seq,
        WORDS,
        OTHERS,
        {"attention": "dot", "embedding": 0, "cell": "lstm", "layers": 2, "bidirectional": False},
    ),
    "translate, additive": (Seq2Seq, numbers(), OTHERS, {"attention": "additive", "cell": "rnn", "embedding": 5}),
    "translate, additive, stacked": (Seq2Seq, WORDS, OTHERS, {"attention": "additive", "embedding": 5, "layers": 2}),
    "generate": (SequenceGenerator, FIRST, WORDS, {"layers": 2}),
    "generate, numbers": (SequenceGenerator, SUMS, WORDS, {"embedding": 5}),
    "translate": (Seq2Seq, WORDS, OTHERS, {**FIXED_STATE, "embedding": 5, "layers": 2}),
    "translate, both ways": (Seq2Seq, numbers(), OTHERS, {**FIXED_STATE, "bidirectional": True, "embedding": 0}),
}


@pytest.mark.parametrize("name", CASES)
def test_it_learns_as_its_twin_does(agree, name):
    kind, X, y, options = CASES[name]
    known = kind().get_params()
    model = kind(**{option: value for option, value in (PLAIN | options).items() if option in known})
    ours, theirs, _ = both_curves(*prepared(model, X, y), STEPS)
    assert len(ours) == len(theirs) == STEPS
    assert ours[-1] < 0.9 * ours[0]
    agree(losses=(np.array(ours), torch.tensor(theirs, dtype=torch.float64)))


@pytest.mark.parametrize("name", ["classify", "classify, gru", "tag, lstm", "translate, dot"])
def test_the_parameters_of_a_twin_that_starts_as_pytorch_does_are_all_given_back(agree, name):
    kind, X, y, options = CASES[name]
    known = kind().get_params()
    model = kind(**{option: value for option, value in (PLAIN | options).items() if option in known})
    fitted, task = prepared(model, X, y)
    twin, batch = seeded(fitted, 0), task.batch_of(0)
    p, network = twin.give(), fitted.network
    loss = network.loss_and_gradients(p, batch, p.zeros(), normalizer=network.loss_count(batch))
    agree(loss=(np.array(loss), twin.loss(batch)))
