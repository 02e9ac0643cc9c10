"""The report of an evaluation: one HTML page that needs no network, and tables beside it."""

from __future__ import annotations

from pathlib import Path

from poolsieve import pages
from poolsieve.calibration.confusion import plot_confusion
from poolsieve.evaluation.report_figures import (
    detection_figures,
    percent,
    plot_cost,
    plot_frontier,
    plot_savings,
    plot_two_objects,
)
from poolsieve.evaluation.results import EQUAL_DETECTION, Evaluation, detects_as_well
from poolsieve.evaluation.tables import write_table
from poolsieve.files import write_atomically
from poolsieve.images.sources import FileItem
from poolsieve.moderation.flagged_images import thumbnail

PAGE = "report.html"


def write_report(evaluation: Evaluation, folder: Path, *, thumbnails: bool = True) -> Path:
    """Write the page, the tables and the figures' data.

    Args:
        evaluation: What was found.
        folder: Made if need be; files of an earlier report are replaced.
        thumbnails: Put small pictures of the images that were judged wrongly into the page.

    Returns:
        The page.
    """
    for name, records in tables(evaluation).items():
        if records:
            for ending in ("csv", "parquet"):
                write_table(records, folder / f"{name}.{ending}")
    return write_atomically(folder / PAGE, page(evaluation, thumbnails=thumbnails).encode())


def tables(evaluation: Evaluation) -> dict[str, list[dict[str, object]]]:
    """Everything that is counted, as records, by the name of the table."""
    confusion: list[dict[str, object]] = [
        {
            "pool_size": table.pool_size,
            "half_size": table.half,
            "split": table.split,
            "true": true,
            "read": read,
            "pools": pools,
        }
        for table in evaluation.confusions
        for true, row in enumerate(table.pools)
        for read, pools in enumerate(row)
    ]
    two = evaluation.two_objects
    objects: list[dict[str, object]] = [
        {"objects": objects, "read": read, "pools": pools}
        for objects, readings in (() if two is None else ((1, two.single), (2, two.double)))
        for read, pools in enumerate(readings)
    ]
    errors: list[dict[str, object]] = [
        {"kind": kind, "file": str(image.file), "draws": image.draws, "wrong": image.wrong}
        for kind, images in (("missed", evaluation.missed), ("false flag", evaluation.false_flags))
        for image in images
    ]
    return {
        "results": [row.as_record() for row in evaluation.rows],
        "frontier": [point.as_record() for point in evaluation.frontier],
        "wall_clock": [row.as_record() for row in evaluation.timings],
        "confusion": confusion,
        "two_objects": objects,
        "errors": errors,
    }


def headline(evaluation: Evaluation) -> str:
    """The one sentence: what is saved at equal detection. Plain text with **the number** marked."""
    found = [saving for saving in evaluation.savings() if saving.best is not None]
    bad = evaluation.wording.bad
    if not found:
        return f"On these images **no method** finds the {bad} ones as well as testing every image for less."
    near = min(found, key=lambda saving: abs(saving.prevalence - 0.01))
    best, individual = near.best, near.individual
    assert best is not None
    text = (
        f"Where {percent(near.prevalence)} of images are {bad}, {best.title} needs "
        f"**{1 - best.cost:.0%} less computation** than testing every image and finds "
        f"{best.detection.sensitivity.value:.1%} of the {bad} ones (testing every image: "
        f"{individual.detection.sensitivity.value:.1%})."
    )
    return text


def page(evaluation: Evaluation, *, thumbnails: bool = True) -> str:
    """The whole page."""
    bad, two = evaluation.wording.bad, evaluation.two_objects
    return pages.render(
        "evaluation.html",
        found=evaluation,
        headline=headline(evaluation),
        equal_detection=EQUAL_DETECTION,
        detects_as_well=detects_as_well,
        savings=plot_savings(evaluation.savings(), bad=bad),
        detection=detection_figures(evaluation),
        cost=plot_cost(evaluation.rows, bad=bad),
        frontier=plot_frontier(evaluation.frontier) if evaluation.frontier else None,
        confusions={table.title: plot_confusion(table.pools, bad=bad) for table in evaluation.confusions},
        two_objects=None if two is None else plot_two_objects(two),
        thumbnail=(lambda file: thumbnail(FileItem(str(file)))) if thumbnails else None,
    )
