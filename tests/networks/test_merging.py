import numpy as np
import pytest
import torch
from drawn_weights import drawn
from hypothesis import given, settings
from hypothesis import strategies as st

from poolsieve.designs import Pooling
from poolsieve.networks import merge_pools


@st.composite
def features_and_pools(draw):
    n, m, r = draw(st.integers(1, 8)), draw(st.integers(1, 6)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    features = torch.from_numpy(rng.integers(-3, 4, (n, 3, 2, 2)).astype(np.float32))  # with ties
    pools = rng.integers(0, n, (m, r))
    pools[rng.random((m, r)) < 0.3] = -1
    pools[(pools == -1).all(axis=1), -1] = 0
    if draw(st.booleans()):
        features = features.contiguous(memory_format=torch.channels_last)
    return features, pools


@given(features_and_pools())
@settings(deadline=None)
def test_the_maximum_over_each_pools_images(case):
    features, pools = case
    expected = torch.stack([features[[j for j in pool if j >= 0]].amax(0) for pool in pools])
    for table in (pools, torch.from_numpy(pools), torch.from_numpy(pools).int()):
        assert torch.equal(merge_pools(features, table), expected)
    assert torch.equal(merge_pools(features.clone().requires_grad_(), pools), expected)


@given(features_and_pools())
@settings(deadline=None)
def test_the_gradient_goes_to_an_image_that_attains_the_maximum(case):
    features, pools = case
    features.requires_grad_()
    merged = merge_pools(features, pools)
    weights = drawn(*merged.shape, low=0)
    (merged * weights).sum().backward()
    torch.testing.assert_close(features.grad.sum(0), weights.sum(0))
    attained = torch.zeros_like(features, dtype=torch.bool)
    for q, pool in enumerate(pools):
        for j in pool[pool >= 0]:
            attained[j] |= features[j] == merged[q]
    assert not features.grad[~attained].any()


def test_gradient_without_ties_is_that_of_torch():
    features = drawn(6, 4, 3, 3).double().requires_grad_()
    pools = torch.tensor([[0, 1, 2], [2, 3, -1], [5, 0, 4]])
    assert torch.autograd.gradcheck(lambda values: merge_pools(values, pools), features)


def test_memory_layout_is_kept():
    features = drawn(4, 8, 3, 3, low=0).contiguous(memory_format=torch.channels_last)
    merged = merge_pools(features, [[0, 1], [2, 3]])
    assert merged.is_contiguous(memory_format=torch.channels_last)
    assert merge_pools(features.contiguous(), [[0, 1]]).is_contiguous()


def test_takes_the_pools_of_a_short_chunk():
    pooling = Pooling([[0, 1, 2], [2, 3], [4]], images=5)
    features = drawn(5, 2, 2, 2, low=0)
    assert torch.equal(merge_pools(features, pooling.pools)[2], features[4])


@pytest.mark.parametrize(
    ("pools", "message"),
    [
        ([[0, 1], [-1, -1]], "pool 1 holds no image"),
        ([[0, 4]], "names image 4, but there are features of 4 images"),
        ([[0, -2]], "names image -2"),
        ([0, 1], "integer table"),
        ([[0.0, 1.0]], "integer table"),
        (np.zeros((0, 3), dtype=np.int32), "integer table"),
    ],
)
def test_wrong_pools_are_errors(pools, message):
    with pytest.raises(ValueError, match=message):
        merge_pools(drawn(4, 2, 2, 2, low=0), pools)
