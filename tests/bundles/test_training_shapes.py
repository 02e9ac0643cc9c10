import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolsieve.bundles.config import read_training_shapes
from poolsieve.bundles.training_shapes import TrainingShapes

SQUARES = TrainingShapes.of([(224, 224)] * 50)


def test_squares_are_stretched_and_other_images_padded():
    assert TrainingShapes(50, 50, (1.0, 1.0, 1.0)) == SQUARES
    assert SQUARES.fitting == "stretch"
    mixed = TrainingShapes.of([(640, 480)] * 60 + [(480, 640)] * 20 + [(300, 300)] * 20)
    assert (mixed.squares, mixed.aspects) == (20, (0.75, 1.333, 1.333))
    assert mixed.fitting == "pad"
    assert mixed.misfit("pad") is mixed.misfit("stretch") is None


def test_padding_does_not_suit_networks_that_saw_squares_only():
    assert SQUARES.misfit("stretch") is None
    assert "all training images are squares, so the networks know no bars" in SQUARES.misfit("pad")


def test_a_stray_photograph_among_squares_changes_nothing():
    assert TrainingShapes.of([(224, 224)] * 99 + [(640, 480)]).fitting == "stretch"
    assert TrainingShapes.of([(224, 224)] * 90 + [(640, 480)] * 10).fitting == "pad"


@given(st.lists(st.tuples(st.integers(1, 9000), st.integers(1, 9000)), min_size=1, max_size=40))
def test_turning_all_images_keeps_the_squares_and_inverts_the_median(sizes):
    shapes, turned = TrainingShapes.of(sizes), TrainingShapes.of([(h, w) for w, h in sizes])
    assert shapes.squares == turned.squares
    assert shapes.fitting == turned.fitting
    assert list(shapes.aspects) == sorted(shapes.aspects)
    assert 0 <= shapes.squares <= shapes.images == len(sizes)
    if len(sizes) == 1:
        assert np.isclose(shapes.aspects[1], sizes[0][0] / sizes[0][1], atol=5e-4)


def test_what_a_configuration_says_is_read_strictly():
    good = {"images": 4, "squares": 3, "aspects": [0.5, 1, 2]}
    assert read_training_shapes({"training_shapes": good}) == TrainingShapes(4, 3, (0.5, 1.0, 2.0))
    assert read_training_shapes({"training_shapes": None}) is None
    with pytest.raises(ValueError, match="training_shapes is missing"):
        read_training_shapes({})
    for change, message in (
        ({"images": 0}, "training_shapes.images is 0"),
        ({"squares": 5}, "5 squares among 4"),
        ({"aspects": [1, 2]}, "aspects has 2 values"),
        ({"aspects": [1, 2, float("nan")]}, "finite numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            read_training_shapes({"training_shapes": {**good, **change}})
    with pytest.raises(ValueError, match="training_shapes is 7"):
        read_training_shapes({"training_shapes": 7})
