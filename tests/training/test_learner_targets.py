"""What the counting networks are asked for, and how their steps are compiled."""

import shutil

import numpy as np
import pytest
import torch
from drawn_shapes import small_backbone
from drawn_weights import drawn
from hypothesis import given
from hypothesis import strategies as st

from poolsieve.training import TrainingSettings
from poolsieve.training.image_learners import maybe_compiled
from poolsieve.training.pool_learners import count_targets


@given(st.integers(1, 20), st.floats(0, 0.99))
def test_targets_are_distributions_that_favour_the_true_count(pool_size, smoothing):
    targets = count_targets(pool_size, smoothing)
    assert np.allclose(targets.sum(axis=1), 1)
    assert (targets >= 0).all()
    far = np.abs(np.subtract.outer(np.arange(pool_size + 1), np.arange(pool_size + 1))) > 1
    assert (targets[far] == 0).all()
    if smoothing < 0.6:
        assert (targets.argmax(axis=1) == np.arange(pool_size + 1)).all()


def test_neighbours_get_their_share():
    expected = [[0.9, 0.1, 0.0], [0.1, 0.8, 0.1], [0.0, 0.1, 0.9]]
    assert np.allclose(count_targets(2, 0.2), expected)
    assert np.array_equal(count_targets(3, 0.0), np.eye(4))


def test_nothing_is_compiled_unless_asked_for():
    back = small_backbone().back
    assert maybe_compiled(back, 4, TrainingSettings()) is back


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch compiles with a C++ compiler")
def test_a_compiled_step_gives_the_same_values_and_gradients():
    backbone = small_backbone()
    back = backbone.back.eval()
    run = maybe_compiled(back, 4, TrainingSettings(compile=True))
    features = drawn(4, *backbone.feature_shape)
    for rows in (4, 3):  # three rows go through the network as it is
        one, other = (features[:rows].clone().requires_grad_() for _ in range(2))
        expected, found = back(one), run(other)
        torch.testing.assert_close(found, expected)
        expected.sum().backward()
        found.sum().backward()
        torch.testing.assert_close(other.grad, one.grad)
