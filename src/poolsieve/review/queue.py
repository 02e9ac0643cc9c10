"""The queue: a grid or one image at a time, with decisions, undo, batches and comments."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, HTTPException, Query, Request
from fastapi.responses import Response

from poolsieve.review.access import Reviewer
from poolsieve.review.opinions import opinions
from poolsieve.review.site import Here, Site, moved, page, set_cookie
from poolsieve.store import LeaseLostError, Session, Task, TaskFilter, User

routes = APIRouter()
GRID = 12
"""Tasks that a grid holds at a time."""
_SKIPPED = "poolsieve_skipped"
_MOST_SKIPPED = 100
_AGES = {"hour": 3_600.0, "day": 86_400.0, "week": 604_800.0}

Number = Annotated[str, Query(max_length=32)]
Name = Annotated[str, Query(max_length=256)]


@dataclass(frozen=True)
class Asked:
    """Filters and order as the form sends them; every link and form of the queue carries them on."""

    policy: Name = ""
    low: Number = ""
    high: Number = ""
    age: Name = ""
    key: Name = ""
    job: Name = ""
    reason: Name = ""
    order: Name = "score"

    @property
    def given(self) -> dict[str, str]:
        """What differs from the usual."""
        usual = asdict(Asked())
        return {name: value for name, value in asdict(self).items() if value and value != usual[name]}

    @property
    def query(self) -> str:
        """The end of an address."""
        return f"?{urlencode(self.given)}" if self.given else ""


Filters = Annotated[Asked, Depends()]


def _filter(site: Site, user: User, request: Request, asked: Asked) -> TaskFilter:
    """What a form of filters asks for; which tasks were sampled, nobody can ask while opinions are hidden."""
    now = site.store.database.now()
    if asked.reason and not user.may("lead"):
        raise HTTPException(403, "the filter by reason is for leads: it would tell which images were sampled")
    if asked.reason not in ("", "escalated") and not _opinion_first(site):
        raise HTTPException(
            403,
            f"the filter by {asked.reason} would tell which images were sampled; an admin can let opinions "
            "be seen before decisions, in the settings",
        )
    return TaskFilter(
        policy=asked.policy or None,
        low=_score(asked.low),
        high=_score(asked.high),
        since=now - _AGES[asked.age] if asked.age in _AGES else None,
        key_id=asked.key or None,
        job_id=asked.job or None,
        reason=asked.reason or None,
        skipped=_skipped(request),
        order=asked.order or "score",
    )


def _score(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise ValueError(f"score {text!r} is no number") from None


def _skipped(request: Request) -> tuple[int, ...]:
    words = request.cookies.get(_SKIPPED, "").split("-")
    return tuple(int(word) for word in words if word.isdecimal() and len(word) < 12)[-_MOST_SKIPPED:]


def look(site: Site, user: User) -> dict[str, bool]:
    """How pictures are shown to somebody at first: as they set it, else as the organisation did."""
    settings = site.store.settings.all()
    return {name: bool(user.wellness.get(name, settings[name])) for name in ("blur", "grey")}


@routes.get("/")
def queue(request: Request, site: Here, session: Reviewer, asked: Filters) -> Response:
    """The grid: tasks that are now this reviewer's."""
    wanted = _filter(site, session.user, request, asked)
    tasks = site.store.tasks.claim(session.user, GRID, _lease(site), wanted)
    return page(
        request,
        "queue.html",
        session,
        tasks=tasks,
        given=asdict(asked),
        query=asked.query,
        filtered=set(asked.given) - {"order"},
        policies=site.store.tasks.policies(),
        left=sum(site.store.tasks.counts(wanted, session.user).values()),
        shown_as=look(site, session.user),
        opinion=_opinion_first(site),
    )


@routes.get("/next")
def next_task(request: Request, site: Here, session: Reviewer, asked: Filters) -> Response:
    """One image at a time: the next one."""
    wanted = _filter(site, session.user, request, asked)
    tasks = site.store.tasks.claim(session.user, 1, _lease(site), wanted)
    return moved(request, (f"/task/{tasks[0].id}" if tasks else "/") + asked.query)


@routes.get("/task/{number}")
def task(request: Request, site: Here, session: Reviewer, asked: Filters, number: int) -> Response:
    """One image with all that is known of it."""
    found = site.store.tasks.get(number)
    if found is None:
        raise HTTPException(404, f"there is no task {number}")
    holds = False
    if found.outcome is None:
        try:
            found, holds = site.store.tasks.hold(session.user, number, _lease(site)), True
        except LeaseLostError:
            if found.reason == "escalated" and not session.user.may("lead"):
                raise HTTPException(403, f"task {number} was escalated; it is for leads") from None
    known = _known(site, session, found)
    return page(request, "task.html", session, **known, holds=holds, query=asked.query)


def _known(site: Site, session: Session, found: Task) -> dict[str, Any]:
    verdict = site.store.verdicts.get(found.verdict_id)
    if verdict is None:
        raise HTTPException(404, f"the verdict of task {found.id} is gone")
    opinion = found.outcome is not None or _opinion_first(site)
    return {
        "task": found,
        "verdict": verdict,
        "opinion": opinion,
        "lines": opinions(verdict.grounds, verdict.status, verdict.score, verdict.decided_by)
        if opinion
        else [],
        "similar": site.store.tasks.similar(found),
        "decisions": site.store.verdicts.decisions(found.verdict_id),
        "comments": site.store.verdicts.comments(found.verdict_id),
        "shown_as": look(site, session.user),
    }


def _opinion_first(site: Site) -> bool:
    """Whether people of any role see the program's opinion before they decide, which tells sampled images."""
    return not site.store.settings.get("blind")


def _lease(site: Site) -> float:
    return float(site.store.settings.get("lease_seconds"))


@routes.post("/decide")
def decide(
    request: Request,
    site: Here,
    session: Reviewer,
    asked: Filters,
    decision: Annotated[Literal["approve", "reject", "escalate", "skip"], Form()],
    tasks: Annotated[list[int], Form()],
    comment: Annotated[str, Form(max_length=2000)] = "",
    view: Annotated[Literal["grid", "single"], Form()] = "grid",
) -> Response:
    """Decide one task or a batch, or give them back."""
    answer = moved(request, ("/next" if view == "single" else "/") + asked.query)
    if decision == "skip":
        site.store.tasks.release(session.user, tasks)
        skipped = [*_skipped(request), *tasks][-_MOST_SKIPPED:]
        set_cookie(request, answer, _SKIPPED, "-".join(map(str, skipped)), 900)
        return answer
    site.store.tasks.decide(session.user, tasks, decision, comment or None)
    site.decided()
    return answer


@routes.post("/undo")
def undo(
    request: Request,
    site: Here,
    session: Reviewer,
    asked: Filters,
    view: Annotated[Literal["grid", "single"], Form()] = "grid",
) -> Response:
    """Take back one's newest decision."""
    found = site.store.tasks.undo(session.user)
    if not found:
        raise ValueError("there is nothing of yours to undo, or somebody has decided after you")
    site.decided()
    return moved(request, (f"/task/{found[0].id}" if view == "single" else "/") + asked.query)


@routes.post("/task/{number}/comment")
def comment(
    request: Request,
    site: Here,
    session: Reviewer,
    number: int,
    text: Annotated[str, Form(min_length=1, max_length=2000)],
) -> Response:
    """Say something about an image; with htmx only the comments come back."""
    found = site.store.tasks.get(number)
    if found is None:
        raise HTTPException(404, f"there is no task {number}")
    site.store.verdicts.comment(session.user.name, found.verdict_id, text)
    if "hx-request" in request.headers:
        known = site.store.verdicts.comments(found.verdict_id)
        return page(request, "comments.html", session, comments=known, task=found)
    return moved(request, f"/task/{number}")
