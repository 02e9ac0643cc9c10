"""Building blocks of a report's page: style, figures, tables. Nothing in it is fetched from elsewhere."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from poolsieve.html import escaped
from poolsieve.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = """
:root { --ink: #1d1d1f; --soft: #5c5f66; --line: #dcdfe4; --accent: #0072B2; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: #fff; font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 1rem 1.2rem 4rem; }
h1 { font-size: 1.3rem; font-weight: 600; color: var(--soft); margin: .6rem 0 0; }
h2 { font-size: 1.3rem; margin: 3rem 0 .4rem; padding-top: .6rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .2rem; }
p { margin: .4rem 0 .8rem; max-width: 46rem; }
.headline { font-size: clamp(1.35rem, 4.2vw, 2.1rem); line-height: 1.25; font-weight: 650; }
p.headline { margin: .6rem 0; max-width: none; }
.headline b { color: var(--accent); }
.soft { color: var(--soft); font-size: .93rem; }
figure { margin: .6rem 0 1.2rem; overflow-x: auto; }
figure svg { display: block; width: 100%; height: auto; }
figure.wide svg { min-width: 660px; }
figure.small { max-width: 520px; }
figure.lead { max-width: 780px; }
.pair { display: flex; flex-wrap: wrap; gap: 0 2rem; }
.pair figure { flex: 1 1 400px; max-width: 480px; }
figcaption { color: var(--soft); font-size: .9rem; max-width: 46rem; position: sticky; left: 0; }
.scroll { overflow-x: auto; margin: .4rem 0 1rem; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { padding: .28rem .5rem; text-align: right; white-space: nowrap; }
tr { border-bottom: 1px solid var(--line); }
th { font-weight: 600; position: sticky; top: 0; background: #fff; vertical-align: bottom; }
th:first-child, th:last-child.wrap, td:first-child { text-align: left; }
td.wrap { white-space: normal; min-width: 11rem; text-align: left; overflow-wrap: anywhere; }
tr.good td:first-child { font-weight: 650; color: var(--accent); }
details { margin: .5rem 0; }
summary { cursor: pointer; font-weight: 600; padding: .3rem 0; }
.thumbs { display: grid; grid-template-columns: repeat(auto-fill, minmax(110px, 1fr)); gap: .7rem; }
.thumbs figure { margin: 0; overflow: hidden; }
.thumbs img { width: 100%; height: auto; border-radius: 4px; display: block; background: #eee; }
.thumbs figcaption { font-size: .78rem; overflow-wrap: anywhere; line-height: 1.3; padding-top: .2rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; font-size: .9rem; }
dt { font-weight: 600; } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 700px) { figure.wide::before { content: "scroll sideways to see all \\2192";
  color: var(--soft); font-size: .85rem; position: sticky; left: 0; } }
@media (max-width: 600px) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .5rem; } }
"""


def page_of(title: str, body: str) -> str:
    """A whole page.

    Args:
        title: Plain text.
        body: HTML.
    """
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def figure_block(figure: Figure, caption: str = "", kind: Literal["lead", "wide", "small"] = "lead") -> str:
    """A figure with its caption; a wide one scrolls sideways on a narrow screen."""
    text = f"<figcaption>{escaped(caption)}</figcaption>" if caption else ""
    return f'<figure class="{kind}">{svg(figure)}{text}</figure>'


def svg(figure: Figure) -> str:
    """A figure as SVG to put into a page: text stays text, and equal figures are equal bytes."""
    import matplotlib as mpl

    stream = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "poolsieve"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]


def table_block(
    names: Iterable[str],
    lines: Iterable[Sequence[str]],
    good: Collection[str] = (),
    wrap: int | None = None,
) -> str:
    """A table that scrolls sideways on a narrow screen.

    Args:
        names: Of the columns.
        lines: Cells of each row.
        good: First cells of the rows to stress.
        wrap: Column whose text may be broken into lines.
    """
    head = "".join(
        f"<th{' class=wrap' if k == wrap else ''}>{escaped(name)}</th>" for k, name in enumerate(names)
    )
    rows = []
    for line in lines:
        cells = "".join(
            f"<td{' class=wrap' if k == wrap else ''}>{escaped(cell)}</td>" for k, cell in enumerate(line)
        )
        rows.append(f"<tr{' class=good' if line[0] in good else ''}>{cells}</tr>")
    body = "".join(rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def interval(share: Estimate) -> str:
    """A share with its interval."""
    if not share.defined:
        return "–"
    return f"{share.value:.4f} [{share.low:.3f}, {share.high:.3f}]"


def percent(share: float) -> str:
    """A share as people write it: 0.1%, 5%."""
    return f"{100 * share:g}%"
