"""Reports as pages: one look, one file each, everything escaped, nothing fetched and nothing run.

The templates lie beside this file. Whatever one of them prints is text, with what cannot be seen or turns
lines around as escapes; it writes names from strangers into <bdi>, so that the text around them stays as it
is, whichever way they are written.
"""

from __future__ import annotations

import base64
import io
from functools import cache
from typing import TYPE_CHECKING, Any

from poolsieve.shown_text import shown

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup
    from matplotlib.figure import Figure
    from PIL import Image

_JPEG_QUALITY = 85


def render(template: str, **values: Any) -> str:
    """A whole page, from the template's file and what it speaks of."""
    return templates().get_template(template).render(**values)


@cache
def templates() -> Environment:
    """The templates of reports; call it before long work to know that pages can be written.

    Raises ImportError if Jinja2 is missing.
    """
    made = environment("pages")
    made.filters |= {"data_url": data_url, "svg": svg}
    return made


def environment(folder: str) -> Environment:
    """Templates of a folder of the package, whose every printed value is escaped text."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise ImportError("reports need Jinja2: pip install 'poolsieve[moderate]'") from None
    made = Environment(
        loader=PackageLoader("poolsieve", folder),
        autoescape=True,
        finalize=_as_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["number"] = format
    return made


def data_url(picture: Image.Image) -> str:
    """A picture as part of a page."""
    buffer = io.BytesIO()
    picture.save(buffer, format="jpeg", quality=_JPEG_QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def svg(figure: Figure) -> Markup:
    """A figure as part of a page: text stays text, and equal figures are equal bytes."""
    import matplotlib as mpl
    from markupsafe import Markup

    stream = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "poolsieve"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    return Markup(text[text.index("<svg") :])


def _as_shown(value: object) -> object:
    """What is markup already stays as it is; jinja2 escapes the rest after this."""
    return value if hasattr(value, "__html__") else shown(str(value))
