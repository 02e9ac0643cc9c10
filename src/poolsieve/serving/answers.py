"""The shapes of answers, as the OpenAPI page shows them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from poolsieve.moderation.verdicts import Status
from poolsieve.serving.judging import Pending, PolicyOutcome
from poolsieve.store import Job, StoredVerdict


class PolicyResult(BaseModel):
    """What one policy says of an image."""

    status: Status
    score: float | None
    decided_by: str | None
    verdict_id: str | None
    error: str | None


class ImageResult(BaseModel):
    """What became of one image: flagged if any policy flags it, an error if none of them could judge it."""

    name: str
    status: Status
    error: str | None
    policies: dict[str, PolicyResult]


class ModerateAnswer(BaseModel):
    """One result for each image, in the order in which they were sent."""

    results: list[ImageResult]


class ErrorDetail(BaseModel):
    """Why a request was refused."""

    code: str
    message: str


class ErrorAnswer(BaseModel):
    """A refused request."""

    error: ErrorDetail


class JobAnswer(BaseModel):
    """A job and how far it is."""

    id: str
    state: Literal["waiting", "running", "done", "cancelled", "failed"]
    error: str | None
    policies: list[str]
    total: int
    done: int
    flagged: int
    errors: int
    created_at: float
    finished_at: float | None

    @classmethod
    def of(cls, job: Job) -> JobAnswer:
        """From the store."""
        values = {name: getattr(job, name) for name in cls.model_fields}
        return cls.model_validate({**values, "policies": list(job.policies)})


class VerdictAnswer(BaseModel):
    """A verdict and its grounds; neither the seed nor who shared a pool."""

    id: str
    policy: str
    status: Status
    score: float | None
    decided_by: str | None
    error: str | None
    name: str
    sha256: str | None
    job_id: str | None
    position: int | None
    grounds: dict[str, Any]
    created_at: float

    @classmethod
    def of(cls, verdict: StoredVerdict) -> VerdictAnswer:
        """From the store."""
        values = {name: getattr(verdict, name, None) for name in cls.model_fields}
        return cls.model_validate({**values, "error": verdict.reason})


class DecisionBody(BaseModel):
    """A person's decision: an approved image may stay, a rejected one is bad."""

    model_config = ConfigDict(extra="forbid", title="Decision")

    decision: Literal["approve", "reject"]
    comment: str | None = None


def image_result(image: Pending) -> ImageResult:
    """What is answered for an image."""
    outcomes = [image.outcomes[policy] for policy in image.policies]
    status = next(
        (kind for kind in ("flagged", "clear") if any(outcome.status == kind for outcome in outcomes)),
        outcomes[0].status,
    )
    problem = next((outcome.reason for outcome in outcomes if outcome.reason is not None), None)
    results = {policy: _policy_result(image.outcomes[policy]) for policy in image.policies}
    return ImageResult.model_validate(
        {"name": image.name, "status": status, "error": problem, "policies": results}
    )


def _policy_result(outcome: PolicyOutcome) -> PolicyResult:
    return PolicyResult.model_validate(
        {
            "status": outcome.status,
            "score": outcome.score,
            "decided_by": outcome.decided_by,
            "verdict_id": outcome.verdict_id,
            "error": outcome.reason,
        }
    )
