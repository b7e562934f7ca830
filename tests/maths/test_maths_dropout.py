"""Dropout masks: the share, the mean, independence, and that an entry depends on where it stands alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elman.maths.dropout import dropout_mask

KEYS = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_entries_are_dropped_with_their_share_and_the_mean_is_one(share, dtype):
    mask = dropout_mask(12345678901234567, share, 50, np.arange(40), 100, dtype)
    assert mask.dtype == dtype
    assert set(np.unique(mask).tolist()) <= {0.0, float(dtype(1 / (1 - share)))}
    n = mask.size
    assert (mask == 0).mean() == pytest.approx(share, abs=5 * np.sqrt(share * (1 - share) / n) + 1e-12)
    assert mask.mean() == pytest.approx(1, abs=5 * np.sqrt(share / (1 - share) / n) + 1e-6)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_neighbors_along_every_axis_are_independent(axis):
    kept = (dropout_mask(99, 0.5, 64, np.arange(64), 64, np.float64) > 0) - 0.5
    neighbors = (np.moveaxis(kept, axis, 0)[1:] * np.moveaxis(kept, axis, 0)[:-1]).mean() * 4
    assert abs(neighbors) < 5 / np.sqrt(kept.size)
    assert abs((kept * (dropout_mask(100, 0.5, 64, np.arange(64), 64, np.float64) - 1)).mean()) < 5 / np.sqrt(kept.size)


@given(KEYS, st.lists(st.integers(0, 10**6), min_size=1, max_size=5), st.integers(1, 4), st.integers(1, 9))
def test_an_entry_depends_on_its_key_step_row_and_unit_alone(key, rows, T, width):
    rows = np.array(rows)
    whole = dropout_mask(key, 0.5, T + 2, rows, width + 3, np.float32)
    for i in range(len(rows)):
        alone = dropout_mask(key, 0.5, T, rows[i : i + 1], width, np.float32)
        np.testing.assert_array_equal(alone[:, 0], whole[:T, i, :width])


def test_other_keys_give_other_masks():
    masks = [dropout_mask(key, 0.5, 8, np.arange(8), 8, np.float32).tobytes() for key in (0, 1, 2**32, 2**63)]
    assert len(set(masks)) == 4
