"""Ends every request in time, and lets go of those whose client went away: their threads serve others.

A thread cannot be stopped, so the deadline is known where it waits (`request_time`); a request that waits for a thread ends here.
No endpoint reads a body.
"""

import anyio
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..request_time import CURRENT, RequestTime

REQUEST_S = 10.0
"""How long a request may take."""


class InTime:
    """An application whose requests end."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._within_s = REQUEST_S

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = RequestTime(self._within_s)
        has_begun = False

        async def sent(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        async with anyio.create_task_group() as group:
            group.start_soon(_watch, receive, request, group.cancel_scope)
            token = CURRENT.set(request)
            try:
                with anyio.move_on_after(self._within_s) as time:
                    await self._app(scope, _no_body, sent)
                if time.cancelled_caught and not has_begun:
                    words = f"the audit is busy: no thread was free within {self._within_s:g} s. Send the request again"
                    await JSONResponse({"error": words}, 503, {"Retry-After": "1"})(scope, receive, send)
            finally:
                CURRENT.reset(token)
            group.cancel_scope.cancel()


async def _watch(receive: Receive, request: RequestTime, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    request.abandon()
    scope.cancel()


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}
