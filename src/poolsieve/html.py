"""Pages that need no other file and no network: one style, everything escaped, no script."""

from __future__ import annotations

import base64
import html
import io

from PIL import Image

from poolsieve.shown_text import shown

_JPEG_QUALITY = 85
STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --faint: #5d6778; --line: #d8dde6; --card: #fff;
  --page: #f4f6f9; --accent: #0072b2; --bad: #b3400a; --good: #00734f; --warm: #e69f00; --pale: #56b4e9;
  --deep: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --faint: #9aa5b5; --line: #39424f;
  --card: #1e242d; --page: #14181e; --accent: #6bb8e8; --bad: #f08a55; --good: #4fc79c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 20px 16px 48px; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
p, .note { margin: .3rem 0; } .note, .faint { color: var(--faint); font-size: .87rem; }
code, .number { font-variant-numeric: tabular-nums; } td.number { white-space: nowrap; }
code { overflow-wrap: anywhere; font-size: .87rem; }
table { border-collapse: collapse; }
td, th { padding: .25rem .8rem .25rem 0; text-align: left; vertical-align: top; }
th { font-weight: 600; color: var(--faint); } .wide { overflow-x: auto; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr));
  gap: 10px; margin: 14px 0; }
.fact, .card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
.fact { padding: 10px 12px; } .fact b { display: block; font-size: 1.35rem; line-height: 1.3; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(300px, 1fr)); gap: 12px; }
.card { padding: 12px; min-width: 0; overflow-wrap: anywhere; }
.side { display: flex; gap: 12px; } .side > div:last-child { min-width: 0; }
.side > img, .missing { flex: none; width: 104px; height: 104px; border-radius: 4px; object-fit: contain;
  background: #202020; }
.missing { display: grid; place-items: center; color: #bbb; font-size: .8rem; text-align: center; }
a { color: var(--accent); }
.flagged { color: var(--bad); font-weight: 600; } .clear { color: var(--good); }
details { margin-top: 6px; } summary { cursor: pointer; color: var(--accent); }
.bar { display: flex; height: 22px; border-radius: 5px; overflow: hidden; background: var(--line); }
.bar span { height: 100%; } .key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; }
.pool { border-top: 1px solid var(--line); padding: 6px 0; font-size: .87rem; }
.pool ul { margin: 2px 0 0; padding-left: 1.1rem; }
@media (max-width: 420px) { .cards { grid-template-columns: 1fr; }
  .facts { grid-template-columns: 1fr 1fr; } }
"""


def page(title: str, body: str) -> str:
    """A whole page around a body that is HTML already. The browser is told to fetch and run nothing."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
        f"<title>{escaped(title)}</title><style>{STYLE}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def escaped(value: object) -> str:
    """Text as it is shown, with what cannot be seen or turns lines around as escapes."""
    return html.escape(shown(str(value)))


def name_of(value: object) -> str:
    """A name from a stranger: whichever way it is written, the text around it stays as it is."""
    return f"<bdi>{escaped(value)}</bdi>"


def data_url(picture: Image.Image) -> str:
    """A picture as part of the page."""
    buffer = io.BytesIO()
    picture.save(buffer, format="jpeg", quality=_JPEG_QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
