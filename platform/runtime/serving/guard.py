"""What is before every ASGI application of ours: the rules against browsers, the token, a bound of requests at once.

Requests about health pass the bound, so that a service under load is not taken for a dead one.
"""

from collections.abc import Sequence

from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..http_access import BearerToken, is_open
from .bounded_protocol import HEAD_LINES
from .request_rules import NO_PAGE, POLICY, SAFETY, AllowedHosts, why_refused

MOST_REQUESTS = 512
"""Requests under way at once; beyond it they get 503."""
_OF_PAGES = [(name.lower().encode(), value.encode()) for name, value in SAFETY]
_POLICY = POLICY.lower().encode()
_OF_OTHERS = [*_OF_PAGES, (_POLICY, NO_PAGE.encode())]


class Guarded:
    """An application behind these checks."""

    def __init__(
        self, app: ASGIApp, *, allowed: AllowedHosts, token: BearerToken | None = None, most_requests: int | None = MOST_REQUESTS
    ) -> None:
        self._app = app
        self._allowed = allowed
        self._token = token
        self._most_requests = most_requests or MOST_REQUESTS
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message.get("headers", ())
                is_page = any(name == _POLICY for name, _ in headers)  # names are in lower case: ASGI
                message["headers"] = [*headers, *(_OF_PAGES if is_page else _OF_OTHERS)]
            await send(message)

        if (refusal := self._refusal(scope)) is not None:
            await refusal(scope, receive, guarded)
        elif is_open(scope["path"]):
            await self._app(scope, receive, guarded)
        elif self._under_way >= self._most_requests:
            await _said(503, "too many requests at once: ask again")(scope, receive, guarded)
        else:
            self._under_way += 1
            try:
                await self._app(scope, receive, guarded)
            except ClientDisconnect:
                pass  # it went away while it sent the body: not our fault, and no client to answer
            finally:
                self._under_way -= 1

    def _refusal(self, scope: Scope) -> Response | None:
        headers: Sequence[tuple[bytes, bytes]] = scope["headers"]
        if len(headers) > HEAD_LINES:
            return _said(431, f"the request has more than {HEAD_LINES} header lines")

        def values(name: str) -> list[str]:
            wanted = name.encode()
            return [value.decode("latin-1") for key, value in headers if key == wanted]

        refused = why_refused(scope["method"], values, self._allowed)
        if refused is not None:
            return _said(*refused)
        if self._token is not None and not is_open(scope["path"]):
            authorization = values("authorization")
            if not self._token.admits(authorization[0] if authorization else None):
                return PlainTextResponse(f"{self._token.refusal}\n", 401, {"WWW-Authenticate": self._token.challenge})
        return None


def _said(status: int, words: str) -> Response:
    # In the form of the registry's errors, which its clients read; `error` is the audit's word.
    headers = {"Connection": "close"} | ({"Retry-After": "1"} if status == 503 else {})
    return JSONResponse({"error_code": status, "message": words, "error": words}, status, headers)
