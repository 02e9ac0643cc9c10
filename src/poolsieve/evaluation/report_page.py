"""The report of an evaluation: one HTML page that needs no network, and tables beside it."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Sequence
from pathlib import Path

from PIL import ImageOps

from poolsieve.calibration.pictures import plot_confusion
from poolsieve.evaluation.report_figures import (
    FIGURE_GROUPS,
    plot_cost,
    plot_detection_of,
    plot_frontier,
    plot_savings,
    plot_two_objects,
    rows_of,
)
from poolsieve.evaluation.report_html import figure_block, interval, page_of, percent, table_block
from poolsieve.evaluation.results import (
    EQUAL_DETECTION,
    Evaluation,
    EvaluationRow,
    ImageErrors,
    detects_as_well,
)
from poolsieve.evaluation.tables import write_table
from poolsieve.files import write_atomically
from poolsieve.html import escaped, name_of
from poolsieve.images.reading import UnreadableImage, read_image

PAGE = "report.html"
_THUMB = 120


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
    objects: list[dict[str, object]] = (
        []
        if two is None
        else [
            {"objects": objects, "read": read, "pools": pools}
            for objects, readings in ((1, two.single), (2, two.double))
            for read, pools in enumerate(readings)
        ]
    )
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
    body = "\n".join(
        [
            f"<h1>{escaped(evaluation.task)}: bundle {escaped(evaluation.bundle)}</h1>",
            *_first_screen(evaluation),
            *_detection(evaluation),
            *_cost(evaluation),
            *_confusions(evaluation),
            *_other_experiments(evaluation),
            *_tables(evaluation),
            *(_thumbnails(evaluation) if thumbnails else []),
            *_how(evaluation),
        ]
    )
    return page_of(f"poolsieve: {evaluation.task}", body)


def _first_screen(evaluation: Evaluation) -> list[str]:
    sentence = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", escaped(headline(evaluation)))
    return [
        f'<p class="headline">{sentence}</p>',
        figure_block(
            plot_savings(evaluation.savings(), bad=evaluation.wording.bad),
            f"At each share of {evaluation.wording.bad} images: the cheapest method whose sensitivity and "
            f"specificity are both at most {100 * EQUAL_DETECTION:g} percentage point below those of testing "
            "every image on its own. Intervals and all other methods are below.",
        ),
        f'<p class="soft">{escaped(evaluation.notes[0])}</p>' if evaluation.notes else "",
    ]


def _detection(evaluation: Evaluation) -> list[str]:
    words = evaluation.wording
    parts = [
        '<h2 id="detection">What is found</h2>',
        f"<p>Sensitivity is the share of {words.bad} images that are flagged, specificity the share of "
        f"{words.ordinary} images that are not. Bars are 95% intervals by distinct image. The vertical axes "
        "are broken: the upper part shows 0.9 to 1 enlarged.</p>",
    ]
    for title, methods in FIGURE_GROUPS.items():
        rows = rows_of(evaluation, methods)
        if len({row.method for row in rows} - {"individual", "mip"}):
            parts += [f"<h3>{title}</h3>", figure_block(plot_detection_of(rows, bad=words.bad), kind="wide")]
    return parts


def _cost(evaluation: Evaluation) -> list[str]:
    parts = [
        '<h2 id="cost">What it costs</h2>',
        "<p>Multiply-adds of all networks that were run, as a share of running the whole individual network "
        "on every image at full size.</p>",
        figure_block(plot_cost(evaluation.rows, bad=evaluation.wording.bad), kind="wide"),
    ]
    if evaluation.frontier:
        parts += [
            "<h3>The frontier</h3>",
            "<p>Every method with its flags made as specific as those of individual testing: up is better, "
            "left is cheaper. Large marks are the settings of the table below; the lines join all settings "
            "that were tried.</p>",
            figure_block(plot_frontier(evaluation.frontier), kind="wide"),
        ]
    return parts


def _confusions(evaluation: Evaluation) -> list[str]:
    bad = evaluation.wording.bad
    parts = [
        '<h2 id="counts">What the counting network reads</h2>',
        f"<p>Pools of known content. Rows: {bad} images in the pool; columns: {bad} images read. Numbers are "
        "pools, shades the share of the row.</p>",
    ]
    parts.append('<div class="pair">')
    for table in evaluation.confusions:
        figure = plot_confusion(table.pools, bad=bad)
        parts.append(figure_block(figure, f"{table.title}.", kind="small"))
    return [*parts, "</div>"]


def _other_experiments(evaluation: Evaluation) -> list[str]:
    parts = []
    two = evaluation.two_objects
    if two is not None:
        pools = sum(two.double)
        parts += [
            '<h2 id="two-objects">Two bad objects in one image</h2>',
            f"<p>{pools} pools with one bad image that shows two objects (two bad images side by side, each "
            f"squeezed to half the width): {two.double[1]} are read as one bad image, "
            f"{sum(two.double[2:])} as more, {two.double[0]} as none. With a usual bad image: "
            f"{two.single[1]}, {sum(two.single[2:])} and {two.single[0]}. The individual network flags "
            f"{two.found.value:.1%} of the images with two objects.</p>",
            figure_block(plot_two_objects(two), kind="small"),
        ]
    if evaluation.timings:
        methods = list(dict.fromkeys(row.title for row in evaluation.timings))
        by_place = {(row.prevalence, row.title): row for row in evaluation.timings}
        images = evaluation.timings[0].images
        lines = []
        for prevalence in sorted({row.prevalence for row in evaluation.timings}):
            rows = [by_place.get((prevalence, name)) for name in methods]
            cells = [f"{row.seconds:.1f} ({row.processor_seconds:.1f})" if row else "–" for row in rows]
            lines.append([f"{prevalence:g}", *cells])
        parts += [
            '<h2 id="wall-clock">Wall-clock time</h2>',
            f"<p>Seconds for {images:,} images of the mixture, from files to verdicts, on this machine "
            "(see below) with whatever else it was doing; in brackets the processor seconds of all threads, "
            "which other work disturbs less. Individual testing was timed once.</p>",
            table_block(["p", *methods], lines),
        ]
    return parts


def _tables(evaluation: Evaluation) -> list[str]:
    parts = [
        '<h2 id="tables">All numbers</h2>',
        "<p>With 95% intervals by distinct image. Methods in blue detect as well as individual testing "
        "for less. The last column is what was chosen on validation images. The same numbers are in "
        "<code>results.csv</code> and <code>results.parquet</code>.</p>",
    ]
    best = {saving.prevalence: saving for saving in evaluation.savings()}
    for prevalence in evaluation.prevalences:
        rows = [row for row in evaluation.rows if row.prevalence == prevalence]
        individual = best[prevalence].individual
        good = {row.title for row in rows if row.cost < 1 and detects_as_well(row, individual)}
        opened = " open" if prevalence == evaluation.prevalences[0] else ""
        parts.append(
            f"<details{opened}><summary>p = {prevalence:g}</summary>{_results(rows, good)}</details>"
        )
    return parts


def _results(rows: Sequence[EvaluationRow], good: set[str]) -> str:
    names = [
        "method",
        "sensitivity",
        "specificity",
        "precision",
        "cost",
        "pools",
        "tests",
        "tuned",
    ]
    lines = [
        [
            row.title,
            interval(row.detection.sensitivity),
            interval(row.detection.specificity),
            interval(row.detection.precision),
            f"{row.cost:.3f}",
            f"{row.pools:.3f}",
            f"{row.retests:.3f}",
            row.tuned or "–",
        ]
        for row in rows
    ]
    return table_block(names, lines, good, wrap=7)


def _thumbnails(evaluation: Evaluation) -> list[str]:
    words = evaluation.wording
    parts = [f'<h2 id="errors">Where {escaped(evaluation.errors_of)} errs</h2>']
    for title, images in (
        (f"{words.bad.capitalize()} images that were missed most often", evaluation.missed),
        (f"{words.ordinary.capitalize()} images that were flagged most often", evaluation.false_flags),
    ):
        parts.append(f"<h3>{title}</h3>")
        if not images:
            parts.append("<p>None.</p>")
            continue
        parts.append(f'<div class="thumbs">{"".join(map(_thumbnail, images))}</div>')
    return parts


def _thumbnail(image: ImageErrors) -> str:
    caption = f"{image.wrong} of {image.draws} times<br>{name_of(image.file.name)}"
    try:
        small = ImageOps.pad(read_image(image.file, at_least=_THUMB), (_THUMB, _THUMB), color="#eeeeee")
    except (UnreadableImage, OSError):
        return f"<figure><figcaption>{caption} (cannot be read any more)</figcaption></figure>"
    stream = io.BytesIO()
    small.save(stream, format="jpeg", quality=80)
    data = base64.b64encode(stream.getvalue()).decode()
    return (
        f'<figure><img alt="{escaped(image.file.name)}" width="{_THUMB}" height="{_THUMB}" '
        f'src="data:image/jpeg;base64,{data}"><figcaption>{caption}</figcaption></figure>'
    )


def _how(evaluation: Evaluation) -> list[str]:
    entries = "".join(
        f"<dt>{escaped(name)}</dt><dd>{escaped(value)}</dd>" for name, value in evaluation.provenance.items()
    )
    notes = "".join(f"<p>{escaped(note)}</p>" for note in evaluation.notes[1:])
    return ['<h2 id="how">How this was run</h2>', notes, f"<dl>{entries}</dl>"]
