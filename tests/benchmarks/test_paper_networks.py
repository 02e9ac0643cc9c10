"""The networks that the paper compares: every run can be started, and a small one goes to its end twice."""

from dataclasses import replace

import pytest
from drawn_shapes import draw_task, small_backbone
from paper_networks import RUNS, make

from poolsieve.evaluation.evaluation_plan import EvaluationPlan
from poolsieve.progress import Reporter
from poolsieve.training.settings import TrainingSettings


@pytest.mark.parametrize("name", sorted(RUNS))
def test_settings_of_every_run_are_told_apart_and_come_back(name):
    settings = RUNS[name].settings
    assert TrainingSettings.from_json(settings.to_json()) == settings
    assert [other for other in RUNS if RUNS[other].settings == settings] == [name]


@pytest.mark.parametrize("name", ["max", "gated-binary"])
def test_a_small_run_goes_to_its_end_and_is_not_made_twice(name, tmp_path):
    data = draw_task(tmp_path / "shapes", numbers={"train": 16, "val": 12, "test": 12})
    settings = replace(
        RUNS[name].settings,
        cut="second",
        front="frozen",
        tune_from=None,
        front_epochs=0,
        individual_epochs=1,
        epochs=1,
        pools_per_epoch=32,
        pool_sizes=(4,),
        views=1,
        validation_pools=20,
        test_pools=20,
    )
    plan = EvaluationPlan(
        prevalences=(0.1,),
        images=100,
        tuning_images=100,
        methods=("dorfman",),
        timing_images=0,
        any_task=True,
    )

    def run():
        return make(name, data, tmp_path / "work", settings, plan, Reporter(quiet=True), small_backbone())

    first = run()
    written = {file: file.stat().st_mtime_ns for file in (tmp_path / "work" / name / "bundle").iterdir()}
    again = run()
    assert [row.detection for row in first.rows] == [row.detection for row in again.rows]
    assert written == {file: file.stat().st_mtime_ns for file in written}
    assert (tmp_path / "work" / name / "report" / "report.html").is_file()
