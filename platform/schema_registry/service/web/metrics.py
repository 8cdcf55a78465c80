"""The registry's `/metrics`: what it holds, how far it has read its topic, and what it answered, by status."""

import threading
from collections.abc import Callable
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ....runtime.monitoring.process_metrics import process_metrics
from ....runtime.monitoring.text_format import CONTENT_TYPE, Metric, each, one, text

PREFIX = "headrace_registry_"
PATH = "/metrics"


class WithMetrics:
    """An application that answers `/metrics` and counts every other response by its class (2xx, 4xx, 5xx)."""

    def __init__(self, app: ASGIApp, facts: Callable[[], dict[str, Any]]) -> None:
        """`facts`: what the registry says at /readyz. Any thread may call it."""
        self._app = app
        self._facts = facts
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
        facts = self._facts()
        with self._lock:
            responses = dict(self._responses)
        metrics = [
            Metric(PREFIX + "ready", "gauge", "1 while /readyz answers 200.", one(facts["ready"])),
            Metric(PREFIX + "topic_reachable", "gauge", "0 while its topic cannot be read.", one(facts["trouble"] is None)),
            Metric(PREFIX + "subjects", "gauge", "Subjects, without deleted ones.", one(facts["subjects"])),
            Metric(PREFIX + "schemas", "gauge", "Schemas with an id.", one(facts["schemas"])),
            Metric(PREFIX + "highest_schema_id", "gauge", "The highest id that was given.", one(facts["highest_id"])),
            Metric(PREFIX + "topic_next_offset", "gauge", "Up to here its topic is read.", one(facts["next_offset"])),
            Metric(PREFIX + "responses_total", "counter", "Responses by the class of their status.", each("code", responses)),
        ]
        return text([*metrics, *process_metrics("registry")]).encode()
