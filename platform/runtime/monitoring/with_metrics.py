"""`/metrics` of an ASGI application: its own numbers, its responses by the class of their status, and the process's."""

import threading
from collections.abc import Callable, Sequence

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .process_metrics import process_metrics
from .text_format import CONTENT_TYPE, Metric, each, text

PATH = "/metrics"


class WithMetrics:
    """An application that answers `/metrics` and counts every other response by its class (2xx, 4xx, 5xx)."""

    def __init__(self, app: ASGIApp, role: str, metrics: Callable[[], Sequence[Metric]]) -> None:
        """`role` is in every name, `headrace_<role>_…`. `metrics`: the application's own. Any thread may call it."""
        self._app = app
        self._role = role
        self._metrics = metrics
        self._lock = threading.Lock()
        self._responses: dict[str, float] = {"2xx": 0, "4xx": 0, "5xx": 0}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == PATH and scope["method"] in ("GET", "HEAD"):
            await Response(self._page(), media_type=CONTENT_TYPE)(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                kind = f"{message['status'] // 100}xx"
                with self._lock:
                    self._responses[kind] = self._responses.get(kind, 0) + 1
            await send(message)

        await self._app(scope, receive, counted)

    def _page(self) -> bytes:
        with self._lock:
            responses = each("code", dict(self._responses))
        name = f"headrace_{self._role}_responses_total"
        answered = Metric(name, "counter", "Responses by the class of their status.", responses)
        return text([*self._metrics(), answered, *process_metrics(self._role)]).encode()
