"""The audit log as a page, with the state of its chain, and as a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse

from poolsieve.review.access import Lead
from poolsieve.review.site import Here, page
from poolsieve.store.schema import canonical

routes = APIRouter()
_ENTRIES = 100
Word = Annotated[str, Query(max_length=256)]


@routes.get("/audit")
def audit(
    request: Request,
    site: Here,
    session: Lead,
    actor: Word = "",
    action: Word = "",
    subject: Word = "",
    before: int | None = None,
    verify: bool = False,
) -> Response:
    """Entries, newest first."""
    given = {"actor": actor, "action": action, "subject": subject}
    wanted = {name: value or None for name, value in given.items()}
    entries = site.store.audit.newest(_ENTRIES, before=before, **wanted)
    state = site.store.audit.verify() if verify else None
    head = site.store.audit.head()
    more = entries[-1].number if len(entries) == _ENTRIES else None
    return page(
        request, "audit.html", session, entries=entries, state=state, head=head, given=given, more=more
    )


@routes.get("/audit.jsonl")
def export(site: Here, session: Lead) -> Response:
    """The whole log, as `poolsieve store export --table audit` writes it."""

    def lines() -> Iterator[str]:
        for entry in site.store.audit.entries():
            yield canonical(asdict(entry)) + "\n"

    headers = {"Content-Disposition": 'attachment; filename="audit.jsonl"'}
    return StreamingResponse(lines(), media_type="application/jsonl", headers=headers)
