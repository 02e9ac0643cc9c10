"""A whole evaluation of a small real bundle."""

import re
from dataclasses import replace
from pathlib import Path
from shutil import copy

import numpy as np
import pytest
from evaluation_section import section, write_figures
from small_bundle import write_data

from poolsieve.engines.engine import Engine
from poolsieve.evaluation import evaluate
from poolsieve.evaluation.detection_measures import Detection
from poolsieve.evaluation.evaluation_plan import EvaluationPlan
from poolsieve.evaluation.mixtures import Mixture
from poolsieve.evaluation.report_figures import (
    FIGURE_GROUPS,
    detection_figures,
    plot_cost,
    plot_detection_of,
    plot_frontier,
    plot_savings,
    rows_of,
)
from poolsieve.evaluation.report_page import headline, page, tables
from poolsieve.evaluation.results import EvaluationRow, ImageErrors, Saving, savings, sensitivity_at
from poolsieve.images.datasets import load_dataset
from poolsieve.schemes import make_scheme
from poolsieve.schemes.scheme import SCHEMES
from poolsieve.statistics import Proportion

PLAN = EvaluationPlan(
    prevalences=(0.05, 0.2),
    images=200,
    tuning_images=100,
    methods=("dorfman", "comp", "bp", "adaptive", "downsample", "downsample-bp"),
    timing_images=20,
    known_pools=60,
    two_object_pools=10,
    any_task=True,
)


@pytest.fixture(scope="module")
def bundle(small):
    return small


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return load_dataset(write_data(tmp_path_factory.mktemp("images")))


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """With a list of images that show two objects; the one of another split does not count."""
    names = tmp_path_factory.mktemp("list") / "two.txt"
    names.write_text("# these show two\nval-0.png\ntest-0.png\n\ntest-3.png\ntest-1.png\n")
    return replace(PLAN, two_objects=names)


@pytest.fixture(scope="module")
def found(bundle, dataset, plan, tmp_path_factory):
    return evaluate(bundle, dataset, plan, threads=1, cache_dir=tmp_path_factory.mktemp("cache"))


def numbers(evaluation):
    """Everything but times."""
    rows = [replace(row, decoding=0.0) for row in evaluation.rows]
    return rows, evaluation.frontier, evaluation.confusions, evaluation.two_objects, evaluation.missed


def test_every_method_is_measured_at_every_prevalence(found, bundle):
    assert [(row.prevalence, row.method) for row in found.rows] == [
        (prevalence, method) for prevalence in PLAN.prevalences for method in ("individual", *PLAN.methods)
    ]
    cost = bundle.config.cost
    by_method = {row.method: row for row in found.rows if row.prevalence == 0.05}
    assert by_method["individual"].cost == 1
    gate, f = cost.gate_share, cost.front_share
    pools_alone = gate + f + 0.5 * (1 - f)  # images that surprising pools leave in doubt are tested besides
    assert pools_alone - 1e-6 <= by_method["comp"].cost <= pools_alone + 1 - f
    # Half size is paid by its own network and compared with testing at full size.
    assert by_method["downsample"].cost < 0.3
    assert by_method["downsample-bp"].cost < by_method["bp"].cost / 2
    for row in found.rows:
        assert row.images == 200
        assert row.distinct_bad == 8
        assert row.distinct_clear == 16
    assert all(sum(map(sum, table.pools)) == 60 for table in found.confusions)
    assert {table.half for table in found.confusions} == {False, True}
    assert sum(found.two_objects.double) == sum(found.two_objects.single) == 10
    assert found.two_objects.images == 2  # test-1 is an ordinary image, val-0 one of another split
    assert {row.method for row in found.timings} == {"individual", "dorfman", "adaptive"}


def test_every_scheme_of_the_table_is_drawn(found):
    grouped = {name for group in FIGURE_GROUPS.values() for name in group}
    assert "early_exit" not in grouped  # it has stages, and nobody has to know it
    row = next(row for row in found.rows if row.method == "individual")
    rows = [row, *(replace(row, method=name, title=name) for name in SCHEMES if name != "individual")]
    figures = detection_figures(replace(found, rows=rows))
    drawn = {text.get_text() for figure in figures.values() for text in figure.legends[0].get_texts()}
    assert drawn >= set(SCHEMES) - {"individual"}


def test_an_interrupted_evaluation_goes_on_and_ends_with_the_same_numbers(
    found, bundle, dataset, plan, tmp_path, monkeypatch
):
    pooled, calls, allowed = Engine.pooled, [], 7

    def counted(self, *arguments):
        calls.append(1)
        if len(calls) == allowed:
            raise KeyboardInterrupt
        return pooled(self, *arguments)

    monkeypatch.setattr(Engine, "pooled", counted)
    plan = replace(plan, timing_images=0)
    with pytest.raises(KeyboardInterrupt):
        evaluate(bundle, dataset, plan, threads=1, cache_dir=tmp_path)
    again = evaluate(bundle, dataset, plan, threads=1, cache_dir=tmp_path)
    assert numbers(again) == numbers(found)
    computed = len(calls)
    evaluate(bundle, dataset, plan, threads=1, cache_dir=tmp_path)
    assert len(calls) == computed


def test_the_page_needs_nothing_from_elsewhere_and_shows_everything(found):
    text = page(found)
    assert not re.findall(r"(?:src|href)=[\"'](?!data:|#)", text)
    assert "default-src 'none'" in text
    assert "@import" not in text
    assert "<script" not in text
    for words in (
        "Individual",
        "BP soft, half size",
        "prevalence p (share of bad images)",
        "bad images in the pool",
        "Two bad objects in one image",
        "Wall-clock time",
        "How this was run",
        found.provenance["bundle"],
    ):
        assert words in text
    assert text.count("data:image/jpeg") == len(found.missed) + len(found.false_flags)
    assert "data:image/jpeg" not in page(found, thumbnails=False)
    assert len(tables(found)["results"]) == len(found.rows)


def test_a_section_of_markdown_names_figures_that_are_there(found, tmp_path):
    figures = write_figures(found, tmp_path / "figures")
    text = section(found, figures, tmp_path)
    for file in figures.values():
        assert file.is_file()
        assert f"(figures/{file.name})" in text
    for row in found.rows:
        assert f"| {row.title} | {row.detection.sensitivity} |" in text
    odd = replace(found, notes=("left out: \udcff\x1b\n.jpg",), provenance={"data": "\u202e\udcff"})
    text = section(odd, figures, tmp_path)
    text.encode()
    assert "left out: \\xff\\x1b\\n.jpg" in text and "- data: \\u202e\\xff" in text


def test_names_of_strange_files_do_not_become_markup(found):
    hostile = "<script>alert(1)</script>\u202e\udcff\n.jpg"
    shown = "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e\\xff\\n.jpg"
    odd = replace(
        found,
        **dict.fromkeys(("task", "bundle", "errors_of"), hostile),
        notes=(hostile, hostile),
        provenance={hostile: hostile},
        missed=(ImageErrors(Path(hostile), 2, 1),),
    )
    text = page(odd)
    text.encode()  # nothing is left that is no proper text
    assert "<script" not in text and "\u202e" not in text
    assert text.count(shown.removeprefix("&lt;script&gt;alert(1)&lt;/")) == 9
    assert "script&gt;\\u202e\\xff\\n.jpg</bdi>\n(cannot be read any more)" in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"split": "holdout"}, "there is no split 'holdout'; the splits are train, val, test"),
        ({"split": "val"}, "same split 'val' flatters"),
        ({"prevalences": ()}, "at least one prevalence"),
        ({"prevalences": (0.0001,)}, "draw at least 10000 images"),
        ({"prevalences": (1.2,)}, "must lie between 0 and 1"),
        ({"methods": ("best",)}, "no method is named 'best'"),
        ({"timing_images": -1}, "timing_images is -1"),
        ({"tuning_split": None, "by_density": True}, "calibrated on a split to tune on, and there is none"),
    ],
)
def test_plans_that_cannot_be_followed_are_refused_before_the_work(
    bundle, dataset, tmp_path, changes, message
):
    with pytest.raises(ValueError, match=message):
        evaluate(bundle, dataset, replace(PLAN, **changes), cache_dir=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_bundle_for_another_task_is_refused(bundle, tmp_path):
    """With labels swapped one of two data sets must look like another task."""
    plan = replace(PLAN, any_task=False, methods=("comp",), timing_images=0)
    refused = 0
    for swapped in (False, True):
        data = load_dataset(write_data(tmp_path / str(swapped), swapped=swapped))
        try:
            evaluate(bundle, data, plan, threads=1, cache_dir=tmp_path / "cache")
        except ValueError as error:
            refused += 1
            assert "(task light) hardly tells the flagged images" in str(error)
            assert "--any-task" in str(error)
    assert refused == 1


def row(method, sensitivity, specificity, cost):
    shares = [Proportion(value, value, value, 100) for value in (sensitivity, specificity, 0.5)]
    return EvaluationRow(
        0.01, method, method.title(), False, "", "", 100, 5, 9, Detection(*shares), cost, 0, 0, 0
    )


def test_the_saving_is_that_of_the_cheapest_method_that_detects_as_well(found):
    rows = [
        row("individual", 0.97, 0.98, 1.0),
        row("blind", 0.5, 0.999, 0.2),
        row("loud", 0.99, 0.9, 0.3),
        row("good", 0.961, 0.99, 0.4),
        row("dear", 0.98, 0.99, 0.6),
    ]
    (saving,) = savings(rows)
    assert saving.best.method == "good"
    assert "60% less computation" in headline(replace(found, rows=tuple(rows)))
    nothing = replace(found, rows=tuple(rows[:3]))
    assert savings(nothing.rows)[0].best is None
    assert "no method" in headline(nothing)
    page(nothing)


def test_sensitivity_at_a_specificity_is_read_off_the_curve():
    ranks = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2])
    bad = np.array([True, False, True, False, True, False, False, True])
    mixture = Mixture(np.arange(8), bad, 0.5)
    for specificity, expected in ((1.0, 0.25), (0.75, 0.5), (0.5, 0.75), (0.25, 0.75), (0.0, 1.0)):
        assert sensitivity_at(mixture, ranks, specificity).value == expected


def test_a_method_looks_the_same_in_every_figure(found):
    from matplotlib.colors import to_hex

    def looks(figure):
        handles, labels = figure.axes[0].get_legend_handles_labels()
        lines = [getattr(handle, "lines", [handle])[0] for handle in handles]
        marks = [(line.get_color(), line.get_marker(), line.get_markerfacecolor()) for line in lines]
        return dict(zip(labels, marks, strict=True))

    frontier = looks(plot_frontier(found.frontier))
    assert len(set(frontier.values())) == len(frontier) == 7
    for wanted in (("individual", "bp"), ("downsample", "dorfman"), ("adaptive",)):
        for look in (plot_detection_of(rows_of(found, wanted)), plot_cost(rows_of(found, wanted))):
            made = looks(look)
            assert made == {title: frontier[title] for title in made}
    best = next(row for row in found.rows if row.method == "adaptive")
    bars = plot_savings([Saving(0.05, found.rows[0], best), Saving(0.1, found.rows[0], None)]).axes[0].patches
    assert to_hex(bars[0].get_facecolor()).upper() == frontier["Adaptive"][0]
    assert to_hex(bars[1].get_facecolor()).upper() not in {look[0] for look in frontier.values()}


def test_where_every_image_is_a_test_image_nothing_is_tuned(bundle, tmp_path):
    source = write_data(tmp_path / "images")
    for line in source.read_text().splitlines()[1:]:
        name, label, _ = line.split(",")
        folder = tmp_path / "folder" / ("flagged" if label == "1" else "clear")
        folder.mkdir(parents=True, exist_ok=True)
        copy(source.parent / name, folder)
    data = load_dataset(tmp_path / "folder", needed=("test",), all_test=True)
    plan = replace(
        PLAN, tuning_split=None, methods=("comp", "classo", "cascade", "downsample"), timing_images=0
    )
    found = evaluate(bundle, data, plan, threads=1, cache_dir=tmp_path / "cache")
    rows = [row for row in found.rows if row.prevalence == 0.05]
    assert [row.method for row in rows] == ["individual", "comp", "classo", "cascade"]
    assert [row.tuned for row in rows] == ["", "", "defaults", "defaults"]
    assert rows[2].scheme == str(
        make_scheme("oneshot", (8,), decoder="classo", prevalence=0.05, pools_per_image=4)
    )
    assert rows[3].scheme == str(make_scheme("cascade", (8,), prevalence=0.05))
    assert {(row.distinct_bad, row.distinct_clear) for row in found.rows} == {(10, 48), (24, 48)}  # 200 draws
    notes = " ".join(found.notes)
    assert "nothing to tune on: methods have their defaults" in notes
    assert "Nothing was tried at half size: there are no validation images to calibrate on" in notes
    assert found.provenance["tuned on"] == "nothing"
    page(found)


def test_no_images_of_other_splits_are_needed(bundle, dataset, plan, found, tmp_path):
    """Without its images for training, the data give the same numbers."""
    kept = np.flatnonzero(dataset.splits != "train")
    less = replace(
        dataset,
        files=tuple(dataset.files[k] for k in kept),
        digests=tuple(dataset.digests[k] for k in kept),
        labels=dataset.labels[kept],
        splits=dataset.splits[kept],
    )
    again = evaluate(bundle, less, replace(plan, timing_images=0), threads=1, cache_dir=tmp_path)
    assert numbers(again)[:-1] == numbers(found)[:-1]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("# nothing\n", "names no image"),
        ("elsewhere.png\n", "names no flagged image of split test"),
        ("".join(f"test-{k}.png\n" for k in range(0, 24, 3)), "names all flagged images"),
    ],
)
def test_a_list_of_two_objects_that_is_of_no_use_is_refused(bundle, dataset, tmp_path, names, message):
    (tmp_path / "two.txt").write_text(names)
    plan = replace(PLAN, two_objects=tmp_path / "two.txt", methods=(), prevalences=(0.05,), timing_images=0)
    with pytest.raises(ValueError, match=message):
        evaluate(bundle, dataset, plan, threads=1, cache_dir=tmp_path)
