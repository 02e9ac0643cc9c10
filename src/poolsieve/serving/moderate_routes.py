"""Judging images at once, in our own shape and in Rekognition's."""

from __future__ import annotations

import json
import time
from typing import Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from poolsieve._version import __version__
from poolsieve.serving.answers import ErrorAnswer, ImageResult, ModerateAnswer, image_result
from poolsieve.serving.bodies import Upload, check_length, decode_base64, parse_object, read_body
from poolsieve.serving.errors import Refused
from poolsieve.serving.limits import MAX_IMAGES
from poolsieve.serving.requests import Admission, judge_uploads, read_deadline, read_form, read_policies
from poolsieve.serving.service import Service

REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "The request cannot be understood."},
    401: {"model": ErrorAnswer, "description": "No valid API key."},
    403: {"model": ErrorAnswer, "description": "The key is not for this."},
    404: {"model": ErrorAnswer, "description": "There is no such thing."},
    409: {"model": ErrorAnswer, "description": "The idempotency key was used for another request."},
    413: {"model": ErrorAnswer, "description": "The body or an image is too large."},
    422: {"model": ErrorAnswer, "description": "The request makes no sense."},
    429: {"model": ErrorAnswer, "description": "The key's quota is used up; see Retry-After."},
    503: {"model": ErrorAnswer, "description": "Full, or the deadline cannot be met; see Retry-After."},
}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The documented refusals of a route."""
    return {status: REFUSALS[status] for status in statuses}


MODERATE = "/v1/moderate"
_IMAGE = {"type": "string", "format": "binary"}
_FIELDS = {"deadline_ms": {"type": "number"}, "policies": {"type": "string"}}
_BODY = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "properties": {
                    "image": {"type": "array", "items": _IMAGE, "maxItems": MAX_IMAGES},
                    **_FIELDS,
                },
                "required": ["image"],
            }
        },
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {
                    "images": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": MAX_IMAGES,
                        "items": {
                            "type": "object",
                            "properties": {
                                "name": {"type": "string"},
                                "data": {"type": "string", "format": "byte"},
                                "url": {"type": "string"},
                            },
                        },
                    },
                    "deadline_ms": {"type": "number"},
                    "policies": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["images"],
            }
        },
        "application/octet-stream": {"schema": _IMAGE},
        "image/*": {"schema": _IMAGE},
    },
}
_REKOGNITION_BODY = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {
                    "Image": {
                        "type": "object",
                        "properties": {"Bytes": {"type": "string", "format": "byte"}},
                    },
                    "MinConfidence": {"type": "number", "minimum": 0, "maximum": 100},
                },
                "required": ["Image"],
            }
        }
    },
}
_TARGET = "RekognitionService.DetectModerationLabels"
_AMAZON_TYPES = {
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    413: "ImageTooLargeException",
    429: "ProvisionedThroughputExceededException",
    503: "ThrottlingException",
}


def moderate_router(service: Service) -> APIRouter:
    """Routes of a service."""
    router = APIRouter(tags=["moderation"])

    @router.post(
        MODERATE,
        summary="Judge 1 to 64 images before a deadline",
        responses=refusals(400, 401, 403, 413, 422, 429, 503),
        openapi_extra={"requestBody": _BODY},
    )
    async def moderate(
        request: Request,
        deadline_ms: str | None = Query(None, description="Milliseconds to the answer."),
        policies: str | None = Query(None, description="Names of policies, with commas; all by default."),
        name: str | None = Query(None, description="Name of an image that is sent as raw bytes."),
    ) -> ModerateAnswer:
        begin = time.monotonic()
        key = await service.access.key(request, "moderate")
        deadline, chosen = read_deadline(service, deadline_ms, begin), read_policies(service, policies)
        check_length(request, service.limits.body_bytes)
        with Admission(service, key) as admission:
            admission.open(deadline)
            form = await read_form(service, request)
            if "deadline_ms" in form.fields:
                deadline = read_deadline(service, form.fields["deadline_ms"], begin)
            if "policies" in form.fields:
                chosen = read_policies(service, form.fields["policies"])
            admission.take(len(form.uploads), deadline)
            service.quotas.take(key, len(form.uploads))
            images = await judge_uploads(service, key, form.uploads, chosen, deadline)
        return ModerateAnswer(results=[image_result(image) for image in images])

    @router.post(
        "/v1/rekognition/detect-moderation-labels",
        summary="Rekognition's DetectModerationLabels",
        responses=refusals(400, 401, 403, 413, 422, 429, 503),
        openapi_extra={"requestBody": _REKOGNITION_BODY},
    )
    async def detect_moderation_labels(request: Request) -> JSONResponse:
        try:
            return JSONResponse(await _detect(service, request), media_type="application/x-amz-json-1.1")
        except Refused as error:
            return _amazon_error(error)

    # What the clients of Amazon send: the operation is in a header, whatever the path of the endpoint.
    @router.post("/", include_in_schema=False)
    @router.post("/v1/rekognition", include_in_schema=False)
    @router.post("/v1/rekognition/", include_in_schema=False)
    async def amazon_operation(request: Request) -> JSONResponse:
        if request.headers.get("x-amz-target") != _TARGET:
            return _amazon_error(Refused(400, "UnknownOperationException", f"only {_TARGET} is served"))
        return await detect_moderation_labels(request)

    return router


async def _detect(service: Service, request: Request) -> dict[str, Any]:
    begin = time.monotonic()
    key = await service.access.key(request, "moderate")
    deadline, policies = read_deadline(service, None, begin), service.chosen_policies(None)
    with Admission(service, key) as admission:
        admission.open(deadline)
        values = parse_object(await read_body(request, service.limits.body_bytes, service.unread))
        least = values.get("MinConfidence")
        if least is not None and not (isinstance(least, int | float) and 0 <= least <= 100):
            raise Refused(400, "InvalidParameterException", "MinConfidence lies between 0 and 100")
        image = values.get("Image")
        if not isinstance(image, dict) or "Bytes" not in image:
            raise Refused(400, "InvalidS3ObjectException", "Image needs Bytes; objects in S3 are not read")
        data = decode_base64(image["Bytes"], "Image.Bytes")
        if len(data) > service.limits.image_bytes:
            raise Refused(413, "ImageTooLargeException", f"more than {service.limits.image_bytes:,} bytes")
        admission.take(1, deadline)
        service.quotas.take(key, 1)
        result = image_result(
            (await judge_uploads(service, key, [Upload("image", data)], policies, deadline))[0]
        )
    if result.status in ("error", "not_image"):
        raise Refused(400, "InvalidImageFormatException", result.error or "the image cannot be read")
    return {
        "ModerationLabels": _labels(result, least),
        "ModerationModelVersion": f"poolsieve {__version__}",
        "ContentTypes": [],
    }


def _labels(result: ImageResult, least: float | None) -> list[dict[str, Any]]:
    """Policies as labels of the first level: those that flag the image, or from a confidence on."""
    labels = []
    for name, found in result.policies.items():
        confidence = 100 * (found.score or 0.0)
        shown = found.status == "flagged" if least is None else confidence >= least
        if found.score is not None and shown:
            labels.append({"Confidence": confidence, "Name": name, "ParentName": "", "TaxonomyLevel": 1})
    return sorted(labels, key=lambda label: -label["Confidence"])


def _amazon_error(error: Refused) -> JSONResponse:
    kind = _AMAZON_TYPES.get(error.status, error.code)
    if not kind.endswith("Exception"):
        kind = "InvalidParameterException"
    answer = error.response()
    headers = {
        "x-amzn-ErrorType": kind,
        **({"Retry-After": answer.headers["retry-after"]} if error.retry_after else {}),
    }
    content = {"__type": kind, "Message": error.message, "error": json.loads(bytes(answer.body))["error"]}
    return JSONResponse(content, error.status, headers, media_type="application/x-amz-json-1.1")
