"""Pictures for reviewers: small JPEGs, blurred or grey before they leave the server.

A browser that has not asked for the plain picture does not have it: nothing can flash up before a style
or a script is loaded.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from fastapi import APIRouter, HTTPException
from fastapi.responses import Response
from PIL import Image, ImageFilter

from poolsieve.review.access import Reviewer
from poolsieve.review.site import Here

if TYPE_CHECKING:
    from poolsieve.images.sources import Item

SIZE = 640
"""Longest side of a thumbnail, in pixels."""
_BLUR = 0.09
"""Radius of the blur, as a share of the longest side."""
_QUALITY = 85

routes = APIRouter()


def thumbnail_jpeg(image: Image.Image) -> bytes:
    """What is kept of an image for people: at most 640 pixels long, without its metadata."""
    small = image.convert("RGB")
    small.thumbnail((SIZE, SIZE))
    return _jpeg(small)


def item_thumbnail(item: Item) -> bytes | None:
    """The thumbnail of an image of a source; None if it cannot be read any more."""
    from poolsieve.images.sources import read_content

    content = read_content(item, None, at_least=SIZE)
    return None if content.image is None else thumbnail_jpeg(content.image)


def softened(jpeg: bytes, *, blur: bool, grey: bool) -> bytes:
    """A picture of which less is seen."""
    if not blur and not grey:
        return jpeg
    picture: Image.Image = Image.open(io.BytesIO(jpeg))
    if grey:
        picture = picture.convert("L")
    if blur:
        picture.thumbnail((SIZE // 4, SIZE // 4))  # which is blurred faster, and hides as much
        picture = picture.filter(ImageFilter.GaussianBlur(_BLUR * max(picture.size)))
    return _jpeg(picture)


def _jpeg(picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format="jpeg", quality=_QUALITY)
    return buffer.getvalue()


@routes.get("/picture/{number}")
def picture(site: Here, session: Reviewer, number: int, blur: bool = True, grey: bool = True) -> Response:
    """The picture of a task; blurred and grey unless it is asked for otherwise."""
    task = site.store.tasks.get(number)
    jpeg = None if task is None else site.picture(task)
    if jpeg is None:
        raise HTTPException(404, "this picture is not kept any more")
    headers = {"Cache-Control": "private, max-age=600"}
    return Response(softened(jpeg, blur=blur, grey=grey), media_type="image/jpeg", headers=headers)
