import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from poolsieve.engines.pool_merging import checked_pools, merge_block
from poolsieve.networks import merge_pools


@st.composite
def tables(draw):
    """Images, and pools of them with empty places."""
    images, size = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    places = st.lists(st.integers(-1, images - 1), min_size=size, max_size=size)
    full = places.filter(lambda pool: max(pool) >= 0)
    return images, size, draw(st.lists(full, min_size=1, max_size=6))


@settings(deadline=None)
@given(tables(), st.booleans(), st.integers(0, 100))
def test_it_equals_the_merging_of_the_networks_bit_by_bit(case, gated, seed):
    images, size, pools = case
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(images, 3, 4, 5)).astype(np.float32)
    gate = rng.uniform(size=(images, 1, 4, 5)).astype(np.float32)
    gate[rng.uniform(size=gate.shape) < 0.2] = 0
    opened = torch.from_numpy(features) * torch.from_numpy(gate) if gated else torch.from_numpy(features)
    expected = merge_pools(opened, pools).numpy()
    found = merge_block(features, gate if gated else None, checked_pools(pools, images, size))
    np.testing.assert_array_equal(found, expected)


def test_no_pools_and_small_integer_types_are_fine():
    features = np.ones((3, 2, 2, 2), np.float32)
    assert merge_block(features, None, checked_pools(np.zeros((0, 4), int), 3, 4)).shape == (0, 2, 2, 2)
    table = checked_pools(np.array([[2, -1]], dtype=np.int8), 3, 2)
    assert merge_block(features, None, table).shape == (1, 2, 2, 2)
    with pytest.raises(ValueError, match="holds no image"):
        checked_pools(np.zeros((1, 0), int), 3, 2)


@pytest.mark.parametrize("gated", [False, True])
def test_no_more_than_the_merged_maps_is_held(gated):
    """Not the maps of all places of all pools, of which they are the maximum."""
    features = np.ones((20, 8, 16, 16), np.float32)
    gate = np.ones((20, 1, 16, 16), np.float32) if gated else None
    pools = checked_pools(np.arange(80).reshape(10, 8) % 20, 20, 8)
    merged = merge_block(features, gate, pools)  # compiled from here on
    tracemalloc.start()
    merge_block(features, gate, pools)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1.5 * merged.nbytes
