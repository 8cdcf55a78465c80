"""What is before every ASGI application of ours: the rules against browsers, the token, a bound of requests at once.

Requests about health pass the bound, so that a service under load is not taken for a dead one.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from anyio import to_thread
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...errors import HeadraceError
from ..http_access import BearerToken, NotAdmitted, Refused, is_open
from .bounded_protocol import HEAD_LINES
from .request_rules import NO_PAGE, POLICY, SAFETY, AllowedHosts, why_refused
from .threads import Threads

MOST_REQUESTS = 512
"""Requests under way at once; beyond it they get 503."""
_OF_PAGES = [(name.lower().encode(), value.encode()) for name, value in SAFETY]
_POLICY = POLICY.lower().encode()
_OF_OTHERS = [*_OF_PAGES, (_POLICY, NO_PAGE.encode())]


LOGIN_THREADS = 64
"""Requests whose login, or whose rights, are being asked for."""
CALLER = "headrace.caller"
"""Under this name the application finds who calls, where callers log in."""
CHALLENGE_OF_LOGINS = 'Basic realm="headrace", charset="UTF-8"'
NOT_ADMITTED = "the login is not accepted: send a user of the cluster with its password (HTTP basic), or a bearer token\n"


class Logins(Protocol):
    """Admits callers. Its methods block."""

    def admitted(self, authorization: str | None, host: str) -> AbstractContextManager[Any]:
        """Return what yields the caller. Entering it raises NotAdmitted, or HeadraceError when the cluster does not answer."""
        ...

    def check(self, caller: Any, method: str, path: str, query: bytes) -> None:
        """Raise Refused when the caller has no right to this request. Raises HeadraceError."""
        ...


class Guarded:
    """An application behind these checks."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        allowed: AllowedHosts,
        token: BearerToken | None = None,
        most_requests: int | None = MOST_REQUESTS,
        logins: Logins | None = None,
    ) -> None:
        self._logins = logins
        self._login_threads = Threads(LOGIN_THREADS)
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
                if self._logins is None:
                    await self._app(scope, receive, guarded)
                else:
                    await self._logged_in(self._logins, scope, receive, guarded)
            except ClientDisconnect:
                pass  # it went away while it sent the body: not our fault, and no client to answer
            finally:
                self._under_way -= 1

    async def _logged_in(self, logins: Logins, scope: Scope, receive: Receive, send: Send) -> None:
        shown = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"), None)
        host = (scope.get("client") or ("", 0))[0]
        raw = (scope.get("raw_path") or scope["path"].encode()).split(b"?")[0].decode("latin-1")

        def admitted() -> tuple[AbstractContextManager[Any], Any]:
            found = logins.admitted(shown, host)
            caller = found.__enter__()
            try:
                logins.check(caller, scope["method"], raw, scope["query_string"])
            except BaseException:
                found.__exit__(None, None, None)
                raise
            return found, caller

        try:
            admission, caller = await to_thread.run_sync(admitted, limiter=self._login_threads.limiter())
        except NotAdmitted:
            await PlainTextResponse(NOT_ADMITTED, 401, {"WWW-Authenticate": CHALLENGE_OF_LOGINS})(scope, receive, send)
            return
        except Refused as refused:
            await _said(403, str(refused), 40301)(scope, receive, send)
            return
        except HeadraceError as error:
            await _said(503, f"who calls cannot be found out now: {error}")(scope, receive, send)
            return
        try:
            await self._app({**scope, CALLER: caller}, receive, send)
        finally:
            admission.__exit__(None, None, None)

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


def _said(status: int, words: str, code: int | None = None) -> Response:
    # In the form of the registry's errors, which its clients read; `error` is the audit's word.
    headers = {"Connection": "close"} | ({"Retry-After": "1"} if status == 503 else {})
    return JSONResponse({"error_code": code or status, "message": words, "error": words}, status, headers)
