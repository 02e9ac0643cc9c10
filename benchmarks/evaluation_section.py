"""An evaluation as a section of a Markdown page, with figures beside it."""

from __future__ import annotations

import os
from pathlib import Path

from poolsieve.evaluation.report_figures import (
    detection_figures,
    plot_cost,
    plot_frontier,
    plot_savings,
)
from poolsieve.evaluation.report_page import headline
from poolsieve.evaluation.results import Evaluation
from poolsieve.figures import save_figure
from poolsieve.files import write_atomically
from poolsieve.shown_text import shown


def write_figures(evaluation: Evaluation, folder: Path) -> dict[str, Path]:
    """Draw the figures of a section as PNG files; gives them by what they show."""
    bad = evaluation.wording.bad
    figures = {
        "Saving at equal detection": plot_savings(evaluation.savings(), bad=bad),
        **detection_figures(evaluation),
        "Cost against prevalence": plot_cost(evaluation.rows, bad=bad),
        "Cost against sensitivity": plot_frontier(evaluation.frontier),
    }
    written = {}
    for number, (title, figure) in enumerate(figures.items()):
        written[title] = save_figure(figure, folder / f"evaluation-{evaluation.bundle}-{number}.png")
    return written


def section(evaluation: Evaluation, figures: dict[str, Path], page_folder: Path) -> str:
    """The section: sentence, figures, tables, and how it was run.

    Args:
        evaluation: What was found.
        figures: From `write_figures`.
        page_folder: Folder of the page, which figures are named relative to.
    """
    lines = [f"### {evaluation.task}", "", headline(evaluation), ""]
    for title, file in figures.items():
        lines += [f"![{title}]({Path(os.path.relpath(file, page_folder)).as_posix()})", ""]
    for prevalence in evaluation.prevalences:
        lines += [
            f"**p = {prevalence:g}** (95% intervals by distinct image)",
            "",
            "| method | sensitivity | specificity | precision | cost | pools | tests | tuned |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for row in evaluation.rows:
            if row.prevalence == prevalence:
                found = row.detection
                lines.append(
                    f"| {row.title} | {found.sensitivity} | {found.specificity} | {found.precision} | "
                    f"{row.cost:.3f} | {row.pools:.3f} | {row.retests:.3f} | {row.tuned or '–'} |"
                )
        lines.append("")
    for table in evaluation.confusions:
        bad = evaluation.wording.bad
        lines += [
            f"**{table.title}**: {bad} images in the pool (rows) against {bad} images read.",
            "",
            f"| | {' | '.join(map(str, range(len(table.pools))))} |",
            f"|{'---|' * (len(table.pools) + 1)}",
            *(f"| {true} | {' | '.join(map(str, row))} |" for true, row in enumerate(table.pools)),
            "",
        ]
    two = evaluation.two_objects
    if two is not None:
        lines += [
            f"**Two objects in one image** ({two.images} images): of {sum(two.double)} pools with one of "
            f"them {two.double[1]} were read as one bad image, {sum(two.double[2:])} as more and "
            f"{two.double[0]} as none "
            f"(with one object: {two.single[1]}, {sum(two.single[2:])}, {two.single[0]}).",
            "",
        ]
    if evaluation.timings:
        lines += [
            f"**Wall-clock** for {evaluation.timings[0].images:,} images, in seconds, and processor seconds:",
            "",
            "| p | method | seconds | processor seconds |",
            "|---|---|---|---|",
            *(
                f"| {row.prevalence:g} | {row.title} | {row.seconds:.1f} | {row.processor_seconds:.1f} |"
                for row in evaluation.timings
            ),
            "",
        ]
    lines += [*(f"{shown(note)}\n" for note in evaluation.notes)]
    lines += [f"- {name}: {shown(value)}" for name, value in evaluation.provenance.items()]
    return "\n".join(lines).rstrip() + "\n"


def put_section(page: Path, name: str, text: str) -> Path:
    """Put text between the markers of a page that bear a name, or at its end if it has none of them.

    All else stays as it is.

    Args:
        page: A Markdown file; made if need be.
        name: Such as the name of the bundle.
        text: The section.

    Raises:
        ValueError: One marker stands there without the other.
    """
    begin, end = (f"<!-- evaluation of {name}: {place} -->" for place in ("begin", "end"))
    old = page.read_text() if page.is_file() else ""
    if (begin in old) != (end in old) or old.find(begin) > old.find(end):
        raise ValueError(f"{page}: {begin} and {end} must stand both, in this order, or not at all")
    block = f"{begin}\n{text}{end}\n"
    if begin in old:
        head, _, rest = old.partition(begin)
        new = head + block + rest.partition(end)[2].removeprefix("\n")
    else:
        new = f"{old.rstrip()}\n\n{block}" if old else block
    return write_atomically(page, new.encode())
