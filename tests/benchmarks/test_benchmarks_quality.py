"""The report of quality, from made-up results, and the data of the problems that need a long memory."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from long_memory import NETWORKS, PROBLEMS, adding, copy_memory, copy_scores
from quality_report import sheets, targets, write_docs

DOCUMENT = """# How well

Words.

**Aims**

| aim | measured | met |
| :-- | --: | --: |
| surnames: accuracy of at least 0.8 | 0.9 | yes |
| the adding problem over 200 steps, vanilla: an error under 0.02 | 0.5000 | no |

## Long memory

**Long memory, seeds 0, 1 and 2** (some machine,
2020-01-01)

| old |
| --: |
| 1 |

More words.

| a table | of others |
"""


def run(problem, T, cell, measured):
    return {"problem": problem, "T": T, "cell": cell, "start": "orthogonal", "units": 8, "rate": 1e-3, "steps": 1000,
            "seconds": 2.0, "cpu": 1.0, "measured": measured}  # fmt: skip


@pytest.fixture
def results():
    rows = [run("adding", 200, "rnn", {"mean squared error": [error, 0.167]}) for error in (2e-3, 4e-3)]
    for cell, right in (("rnn", 1.0), ("gru", 1.0), ("rnn", 0.995), ("gru", 0.3)):
        measured = {"nats per step": [0.1, 0.173], "symbols right": [right, 0.125]}
        rows.append(run("copy memory", 100, cell, measured))
    machine = {"cpu": "a CPU", "cores": 2}
    return {"memory": rows, "machine": machine, "threads": "threads: Elman 1, PyTorch 1", "date": "2026-01-01"}


def test_the_worst_seed_of_the_best_network_decides(results):
    found = {aim: (measured, met) for aim, measured, met in targets(results)}
    assert found["the adding problem over 200 steps, vanilla: an error under 0.01"] == ("0.0040", True)
    assert found["copy memory over 100 steps: symbols right of at least 0.99"] == ("0.995", True)
    results["memory"] = [row for row in results["memory"] if row["cell"] == "gru"]
    assert [met for *_, met in targets(results)] == [False]


def test_a_network_has_a_line_for_each_measure(results):
    rows = sheets(results)["memory"].rows
    assert [row[0] for row in rows] == ["adding, mean squared error"] + 2 * [
        "copy memory, nats per step", "copy memory, symbols right"]  # fmt: skip
    assert "0.00200, 0.00400" in rows[0]


def test_only_measured_tables_and_aims_are_written(results, tmp_path):
    path = tmp_path / "quality.md"
    path.write_text(DOCUMENT, encoding="utf-8")
    write_docs(results, path)
    text = path.read_text(encoding="utf-8")
    assert "| surnames: accuracy of at least 0.8 | 0.9 | yes |\n| the adding problem over 200 steps" in text
    assert text.count("the adding problem over 200 steps") == 1
    assert "(a CPU, 2 cores, threads: Elman 1, PyTorch 1; 2026-01-01)\n\n|  | cell |" in text
    assert "| old |" not in text
    assert text.endswith("\n\nMore words.\n\n| a table | of others |\n")


def test_adding_has_one_mark_in_each_half():
    X, y = adding(10, 50)
    marked = X[:, :, 1] == 1
    assert (marked[:, :5].sum(axis=1) == 1).all()
    assert (marked[:, 5:].sum(axis=1) == 1).all()
    np.testing.assert_allclose(y, [row[marks, 0].sum() for row, marks in zip(X, marked, strict=True)])


def test_copy_memory_asks_for_the_symbols_after_T_steps():
    X, y = copy_memory(20, 5)
    for tokens, tags in zip(X, y, strict=True):
        assert tokens[10:] == [*"-" * 19, "?", *"-" * 10]
        assert tags == [*"-" * 30, *tokens[:10]]


class Memoryless:
    """Knows when to say a symbol, but not which."""

    classes_ = np.array(list("-abcdefgh"))

    def predict_proba(self, X):
        p = np.zeros((len(X), len(X[0]), 9))
        p[:, :-10, 0] = 1
        p[:, -10:, 1:] = 1 / 8
        return list(p)


def test_a_network_without_memory_has_the_baseline_of_copy_memory():
    scores = copy_scores(Memoryless(), *copy_memory(20, 200))
    nats, baseline = scores["nats per step"]
    assert nats == pytest.approx(baseline)
    assert scores["symbols right"][0] == pytest.approx(1 / 8, abs=0.05)


@pytest.mark.parametrize("network", NETWORKS)
def test_the_options_of_every_network_exist(network):
    assert set(network.options) <= set(PROBLEMS[network.problem].kind.defaults())
