"""Figures of units: pure functions whose numbers are those of the data."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from look_models import drawn_model

from elman.data import CharVocabulary, WordVocabulary
from elman.errors import ArgumentError
from elman.look.spectra import saturation
from elman.look.traces import trace
from elman.look.units import rank_units, read_text

pytest.importorskip("plotly", reason="no plotly: pip install 'elman[look]'")
from elman.look.figures import (
    best_units,
    gates_along_text,
    saturation_along,
    surprise_along_text,
    unit_along_text,
    units_along_text,
)

TEXT = 'He said "No." She <b>left</b>\n(at 9).\n' * 30


@pytest.fixture(scope="module")
def reading():
    return read_text(drawn_model(CharVocabulary(TEXT)), TEXT)


def test_a_page_of_text_has_each_character_with_its_value(reading):
    (heatmap,) = unit_along_text(reading, 3).data
    z, letters = np.array(heatmap.z, float), np.array(heatmap.text)
    line = "".join(letters[0])
    assert line == 'He·said·"No."·She·<b>left</b>¶'
    np.testing.assert_allclose(z[0, : len(line)], reading.h[0, : len(line), 3], rtol=1e-6)
    assert np.isnan(z[0, len(line) :]).all()
    assert "".join(letters[1]) == "(at·9).¶"


def test_surprise_tells_what_was_considered(reading):
    (heatmap,) = surprise_along_text(reading).data
    words = np.array(heatmap.customdata)
    assert words[0, 0] == "the first token"
    assert f"{reading.surprise[1]:.2f} nats" in words[0, 1]
    assert words[0, 1].count("<br>") == 1 + len(reading.alternatives[1])


@pytest.mark.parametrize("gate", [None, "f"])
def test_a_vanilla_cell_has_no_gates_to_draw(gate):
    (layer,) = trace(drawn_model(CharVocabulary(TEXT)), TEXT[:9]).layers
    with pytest.raises(ArgumentError, match="got none: a vanilla cell has no gates"):
        gates_along_text(layer.gates, TEXT[:9], gate=gate)


def test_units_side_by_side(reading):
    (heatmap,) = units_along_text(reading, [5, 2], names=["five", "two"]).data
    np.testing.assert_allclose(heatmap.z[1], reading.h[0, :240, 2], rtol=1e-6)
    assert list(heatmap.y) == ["five", "two"]


def test_the_best_units_of_each_feature(reading):
    ranking = rank_units(reading)
    bars = {y: (x, text) for bar in best_units(ranking).data for x, y, text in zip(bar.x, bar.y, bar.text, strict=True)}
    assert set(bars) == set(ranking.features)
    best = ranking.best("inside a word")[0]
    assert bars["inside a word"][0] == best.score
    assert f"unit {best.unit}," in bars["inside a word"][1]


@pytest.mark.parametrize(("options", "name"), [
    ({}, "unit {0.unit}, "), ({"layers": 2}, "unit {0.unit}, layer {0.layer}, "),
    ({"cell": "lstm"}, "unit {0.unit} ({0.state}), "),
], ids=["rnn", "stack", "lstm"])  # fmt: skip
def test_bars_name_the_layer_and_the_state_part_if_there_are_several(options, name):
    ranking = rank_units(read_text(drawn_model(CharVocabulary(TEXT), **options), TEXT))
    best = {feature: unit for feature, _, unit in ranking.by_feature()}
    for bar in best_units(ranking).data:
        for feature, text in zip(bar.y, bar.text, strict=True):
            way = "higher" if best[feature].rises else "lower"
            assert text == f"{name.format(best[feature])}{way}: {best[feature].score:.3f}"


def test_steps_are_counted_from_0_along_a_text():
    found = saturation(np.ones((4, 2)))
    (curve,) = saturation_along({"h": found}, "abc").data
    assert list(curve.x) == [0, 1, 2]
    assert list(curve.text) == ["a", "b", "c"]  # step t reads token t


def test_words_and_a_single_token():
    words = read_text(drawn_model(WordVocabulary(["<unk>", "He", " said"])), TEXT)
    assert unit_along_text(words, 0).data[0].z is not None
    one = read_text(drawn_model(CharVocabulary(TEXT)), "H")
    for figure in (unit_along_text(one, 0), surprise_along_text(one), units_along_text(one, [0])):
        assert figure.data


def test_the_data_needs_no_plotly():
    script = "import sys, elman.look.units, elman.look.steps, elman.look.steps_page; print('plotly' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n"
