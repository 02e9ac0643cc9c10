"""Pictures for reviewers: small JPEGs, blurred or grey before they leave the server.

A browser that has not asked for the plain picture does not have it: nothing can flash up before a style
or a script is loaded.
"""

from __future__ import annotations

import io

from fastapi import APIRouter, HTTPException
from fastapi.responses import Response
from PIL import Image, ImageFilter

from poolsieve.review.access import Reviewer
from poolsieve.review.site import Here

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
