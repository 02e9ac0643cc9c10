"""What a glance is taught with."""

import numpy as np

from poolsieve.training.glance_distillation import MIXED_SHARE, blended


def test_blended_images_are_mixtures_with_the_labels_that_go_with_them():
    # Every image is one colour that tells its label, so a blend tells the label that it must have.
    labels = np.tile([0, 1], 300).astype(np.float32)
    pixels = np.broadcast_to((200 * labels).astype(np.uint8)[:, None, None, None], (600, 4, 4, 3))
    mixed, mixed_labels = blended(pixels, labels, np.random.default_rng(0))
    assert np.abs(mixed.mean(axis=(1, 2, 3)) / 200 - mixed_labels).max() < 0.01
    between = ((mixed_labels > 0.01) & (mixed_labels < 0.99)).mean()
    assert abs(between - MIXED_SHARE / 2) < 0.06  # half of the partners have the same label
    assert np.array_equal(labels, np.tile([0, 1], 300))  # the batch itself stays


def test_blends_depend_on_the_generator_alone():
    pixels = np.random.default_rng(1).integers(0, 256, (8, 4, 4, 3), dtype=np.uint8)
    labels = np.arange(8, dtype=np.float32) % 2
    first, second = (blended(pixels, labels, np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(first[0], second[0])
    assert np.array_equal(first[1], second[1])
