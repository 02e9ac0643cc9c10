"""The networks that the paper compares: every run can be started, and a small one goes to its end twice."""

import json
from dataclasses import replace

import pytest
from drawn_shapes import draw_task, small_backbone
from paper_networks import RUNS, make, take_networks

from poolsieve.evaluation.evaluation_plan import EvaluationPlan
from poolsieve.progress import Reporter
from poolsieve.training.settings import TrainingSettings


@pytest.mark.parametrize("name", sorted(RUNS))
def test_settings_of_every_run_are_told_apart_and_come_back(name):
    run = RUNS[name]
    assert TrainingSettings.from_json(run.settings.to_json()) == run.settings
    same = [other for other in RUNS if (RUNS[other].task, RUNS[other].settings) == (run.task, run.settings)]
    assert same == [name]
    assert run.like is None or RUNS[run.like].task == run.task


@pytest.mark.parametrize(
    ("name", "phases"),
    [("cars-mixture", ["counting-8", "front", "individual"]), ("half-max", ["front", "individual"])],
)
def test_networks_of_another_run_are_taken_as_far_as_they_are_the_same(name, phases, tmp_path):
    run, other = RUNS[name], tmp_path / "other"
    for phase in ("counting-8", "front", "individual"):
        if phase != "front" or run.settings.front != "frozen":
            (other / "phases" / phase).mkdir(parents=True)
    known = {"settings": RUNS[run.like].settings.to_json() | {"resize_mode": "stretch"}, "data": "these"}
    (other / "settings.json").write_text(json.dumps(known))
    take_networks(other, tmp_path / "own", run.settings)
    assert sorted(folder.name for folder in (tmp_path / "own" / "phases").iterdir()) == phases
    mine = json.loads((tmp_path / "own" / "settings.json").read_text())
    assert mine == known | {"settings": run.settings.to_json() | {"resize_mode": "stretch"}}


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
