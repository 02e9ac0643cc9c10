"""Small charts as SVG without a single style: colours come from the page's own."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

from poolsieve.statistics import Estimate

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 440, 170, 50, 24, 10, 10


def line_chart(
    title: str, points: Sequence[tuple[float, Estimate]], ends: tuple[str, str], style: str = ".1%"
) -> Markup:
    """Values over time with their intervals, if they have any.

    Args:
        title: What is seen, for those who do not see it.
        points: Places from 0 to 1, and values.
        ends: What stands below the left and the right end.
        style: How values are written.
    """
    known = [(place, value) for place, value in points if value.defined]
    top = 1.1 * max((max(value.high, value.value) for _, value in known), default=0.0) or 1.0
    if style.endswith("%"):
        top = min(top, 1.0)
    parts = [Markup('<svg class="chart" role="img" viewBox="0 0 {} {}"><title>{}</title>').format(
        _WIDTH, _HEIGHT, title
    )]  # fmt: skip
    for share in (0.0, 0.5, 1.0):
        height = _y(share * top, top)
        parts.append(_line(_LEFT, height, _WIDTH - _RIGHT, height, "grid"))
        parts.append(_text(_LEFT - 6, height + 4, format(share * top, style), "end"))
    for place, value in known:
        parts.append(_line(_x(place), _y(value.low, top), _x(place), _y(value.high, top), "interval"))
    way = " ".join(f"{_x(place):.1f},{_y(value.value, top):.1f}" for place, value in known)
    parts.append(Markup('<polyline class="curve" points="{}"/>').format(way))
    for place, value in known:
        dot = '<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="3"><title>{}</title></circle>'
        parts.append(Markup(dot).format(_x(place), _y(value.value, top), format(value.value, style)))
    if not known:
        parts.append(_text(_WIDTH / 2, _HEIGHT / 2, "nothing yet", "middle"))
    parts.append(_text(_LEFT, _HEIGHT - 6, ends[0], "start"))
    parts.append(_text(_WIDTH - _RIGHT, _HEIGHT - 6, ends[1], "end"))
    return Markup("").join(parts) + Markup("</svg>")


def _x(place: float) -> float:
    return _LEFT + place * (_WIDTH - _LEFT - _RIGHT)


def _y(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - min(value / top, 1.0) * (_HEIGHT - _BOTTOM - _TOP)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    text = '<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>'
    return Markup(text).format(kind, x1, y1, x2, y2)


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, escape(text))
