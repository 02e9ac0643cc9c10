import json

import pytest

from poolsieve.training.plan import (
    GlanceSettings,
    OutlierSettings,
    TrainingPlan,
    differing_settings,
    make_plan,
)


@pytest.mark.parametrize(
    "plan",
    [
        make_plan(),
        make_plan("paper", pool_sizes=(4, 8), shares=(0.5,) + (0.0625,) * 8),
        make_plan(outliers=OutlierSettings(clusters=(1, 4)), glance=GlanceSettings(shrink=4)),
    ],
)
def test_a_plan_comes_back_from_its_file(plan):
    assert TrainingPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_an_older_plan_takes_defaults_and_a_strange_one_is_refused():
    older = make_plan(seed=3).to_json()
    del older["glance"], older["select_by"]
    assert TrainingPlan.from_json(older) == make_plan(seed=3)
    with pytest.raises(ValueError, match="no plan of a training run"):
        TrainingPlan.from_json({**older, "colour": "blue"})


def test_an_older_run_goes_on_unless_a_newer_setting_is_asked_for():
    older = make_plan(seed=3).to_json()
    del older["fresh_views"], older["glance"]
    assert differing_settings(older, make_plan(seed=3).to_json()) == []
    assert differing_settings(older, make_plan(seed=3, fresh_views=2).to_json()) == ["fresh_views: 0 -> 2"]
