"""How requests are refused: a status, a word for programs and a sentence for people."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse


class Refused(Exception):  # noqa: N818 - it is an answer
    """A request that is answered with something else than what it asks for.

    Args:
        status: Of HTTP.
        code: For programs.
        message: For people.
        retry_after: Seconds after which it is worth another try.
    """

    def __init__(self, status: int, code: str, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after = status, code, message, retry_after

    def response(self) -> JSONResponse:
        """As it is answered."""
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return JSONResponse({"error": {"code": self.code, "message": self.message}}, self.status, headers)


async def answer_refusal(_: Request, error: Exception) -> JSONResponse:
    """The answer to a refused request."""
    assert isinstance(error, Refused)
    return error.response()
