import json
from dataclasses import fields, replace

import pytest

from poolsieve.training.recipes import RECIPES, make_settings
from poolsieve.training.settings import (
    PARTS,
    GlanceSettings,
    Optimization,
    OutlierSettings,
    TrainingSettings,
    differing_settings,
)


@pytest.mark.parametrize(
    "settings",
    [
        make_settings(),
        make_settings("paper", pool_sizes=(4, 8), shares=(0.5,) + (0.0625,) * 8),
        make_settings(outliers=OutlierSettings(clusters=(1, 4)), glance=GlanceSettings(shrink=4)),
    ],
)
def test_settings_come_back_from_their_file(settings):
    assert TrainingSettings.from_json(json.loads(json.dumps(settings.to_json()))) == settings


def test_a_file_with_other_settings_is_refused():
    values = make_settings().to_json()
    with pytest.raises(ValueError, match="no settings of a training run: colour"):
        TrainingSettings.from_json({**values, "colour": "blue"})
    del values["glance"]
    with pytest.raises(ValueError, match="no settings of a training run: glance"):
        TrainingSettings.from_json(values)


def test_differences_are_told_setting_by_setting():
    old = make_settings(glance={"epochs": 3}).to_json()
    new = make_settings(glance={"epochs": 4}, seed=2, pool_sizes=(4, 8)).to_json()
    assert differing_settings(old, old) == []
    assert sorted(differing_settings(old, new)) == [
        "glance.epochs: 3 -> 4",
        "pool_sizes: [8] -> [4, 8]",
        "seed: 0 -> 2",
    ]


@pytest.mark.parametrize(
    ("kind", "name", "value", "limit"),
    [
        (TrainingSettings, "pools_per_epoch", 1, "a whole number at least 2"),
        (TrainingSettings, "epochs", 2.5, "a whole number at least 0"),
        (TrainingSettings, "pool_sizes", (8, 257), "a whole number at least 2 and at most 256"),
        (TrainingSettings, "pool_sizes", (8, 8), "none twice"),
        (TrainingSettings, "pool_sizes", (), "none twice"),
        (TrainingSettings, "prevalence", 1.0, "a number above 0 and below 1"),
        (TrainingSettings, "clean_share", 1.0, "a number above 0 and below 1, or None"),
        (TrainingSettings, "merge", "mean", "one of gated, max"),
        (TrainingSettings, "resize_mode", "crop", "one of pad, stretch"),
        (Optimization, "learning_rate", 0, "a number above 0"),
        (Optimization, "learning_rate", float("nan"), "a number above 0"),
        (Optimization, "dropout", 1.0, "a number at least 0 and below 1"),
        (OutlierSettings, "bins", 0, "a whole number at least 1"),
        (GlanceSettings, "batch_images", True, "a whole number at least 2"),
    ],
)
def test_a_setting_out_of_its_limits_is_named_with_them(kind, name, value, limit):
    with pytest.raises(ValueError, match=rf"^{kind.__name__}: {name}=.* must be .*{limit}"):
        replace(kind(), **{name: value})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"front": "tuned"}, "tune_from=None"),
        ({"tune_from": "block3", "front": "whole"}, "leave front out"),
        ({"front": "whole", "epochs": 0}, "give epochs"),
        ({"front_epochs": 3}, "the front none"),
        ({"tallies": True, "merge": "max"}, "no gate to tally"),
        ({"clean_share": 0.9, "outliers": {}}, "for classification"),
        ({"shares": (1.0, 2.0)}, "2 shares were given for pools of 8; 9 are needed"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        make_settings(**changes)


def test_a_recipe_says_what_a_part_is_that_is_asked_for():
    assert make_settings("paper").outliers is None
    paper = make_settings("paper", outliers={}).outliers
    assert paper == RECIPES["paper"]["outliers"] != OutlierSettings()
    assert make_settings(outliers={}).outliers == OutlierSettings()
    assert make_settings("paper", optimization={"learning_rate": 0.1}).optimization == replace(
        make_settings("paper").optimization, learning_rate=0.1
    )


def test_the_papers_recipe_has_the_papers_outlier_settings():
    paper = make_settings("paper", outliers={})
    assert paper.balance == "flagged"
    assert paper.outliers.reading == "density"
    assert max(paper.outliers.clusters) == 30
    assert (paper.outliers.largest_count, paper.outliers.bins) == (5, 500)
    assert 6 * paper.outliers.histogram_pools == pytest.approx(100_000, rel=1e-4)
    assert paper.outliers.histogram_images == 5000
    # M of firearms, from 13,075 on-topic images, and of cars, from 6,000
    assert [paper.outliers.pools_to_fit(images, 8) for images in (13_075, 6000)] == [40_850, 18_750]
    one = make_settings("paper", outliers={"mixture_passes": None, "mixture_pools": 500})
    assert one.outliers.pools_to_fit(6000, 8) == 500


def test_a_front_that_learns_learns_for_some_epochs():
    assert make_settings(front="whole").front_epochs == 6
    assert make_settings(tune_from="block3").front == "tuned"
    assert make_settings(front="whole", front_epochs=2).front_epochs == 2
    assert make_settings("paper", front="frozen").epochs == 90
    assert make_settings("paper", front="frozen", epochs=3).epochs == 3


def test_a_seed_may_be_any_number_that_a_clock_gives():
    assert make_settings(seed=1_700_000_000_000_000_000).seed == 1_700_000_000_000_000_000


def test_every_setting_is_documented():
    for kind in (TrainingSettings, *PARTS.values()):
        for entry in fields(kind):
            assert entry.metadata.get("help") or f"    {entry.name}: " in kind.__doc__, entry.name
