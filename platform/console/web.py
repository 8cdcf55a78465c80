"""The console over HTTP: pages, errors as pages that say what to do, and orders: only by POST, and only on the loopback."""

import json
import time
from collections.abc import Callable

from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from ..client.errors import ClientError
from ..client.groups.group_admin import GroupHasMembers
from ..errors import HeadraceError
from ..runtime.monitoring.with_metrics import WithMetrics
from ..runtime.serving.request_rules import POLICY as POLICY_HEADER
from .answers import Answers, not_here
from .asked import Asked
from .errors import BadRequest
from .live import Streams, events
from .metrics import ROLE, PageTimes
from .pages import groups, home, messages, mirror, processes, producers, schemas, topic, topics, warehouse
from .rendering import POLICY, STATIC, render, static
from .warehouse_asking import Asking

MOST_BODY_BYTES = 1 << 20
OF_TOPIC = frozenset({"/topic", "/window", "/settings"})
"""Pages about the topic that their address names."""
OF_RECORDS = frozenset({"/messages", "/messages/live"})
FOR_ALL = frozenset(f"/{name}" for name in STATIC)
READ_ONLY = (
    "the console is served to other machines, and has no rights yet: it changes nothing there. Use the command on the platform's "
    "machine, or a console on the loopback"
)
Page = Callable[[Answers, Asked], str]


def application(answers: Answers, asking: Asking) -> ASGIApp:
    """Return the ASGI application."""
    streams = Streams()
    pages: dict[str, Page] = {
        "/": home.page,
        "/topic": topic.topic_page,
        "/window": topic.window_page,
        "/topics": topics.list_page,
        "/settings": topics.settings_page,
        "/messages": messages.page,
        "/groups": groups.list_page,
        "/group": groups.group_page,
        "/schemas": schemas.list_page,
        "/schema": schemas.subject_page,
        "/mirror": mirror.page,
        "/warehouse": lambda answers, asked: warehouse.list_page(answers, asked, asking),
        "/proof": lambda answers, asked: warehouse.proof_page(answers, asked, asking),
        "/producers": producers.page,
        "/processes": processes.page,
    }

    times = PageTimes(pages)

    def page(request: Request) -> Response:
        path = request.url.path
        began = time.monotonic()
        try:
            return _page(pages[path](answers, Asked(request.query_params)))
        finally:
            times.note(path, time.monotonic() - began)

    async def live(request: Request) -> Response:
        asked = Asked(request.query_params)
        messages.predicate(asked.text("where"))
        asked.needed("topic")
        stream = events(streams, lambda is_stopped: messages.live_records(answers, asked, is_stopped))
        return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    async def move(request: Request) -> Response:
        if answers.is_read_only:
            return JSONResponse({"error": READ_ONLY}, 403)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return JSONResponse({"error": "the body is no application/json"}, 415)
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > MOST_BODY_BYTES:
                return JSONResponse({"error": f"the body is longer than {MOST_BODY_BYTES} bytes"}, 413)
        try:
            order = json.loads(body)
        except ValueError:
            return JSONResponse({"error": "the body is no JSON"}, 400)
        try:
            return JSONResponse(await to_thread.run_sync(lambda: groups.move(answers, order)))
        except BadRequest as error:
            return JSONResponse({"error": str(error)}, 400)
        except GroupHasMembers as error:
            return JSONResponse({"error": str(error)}, 409)
        except ClientError as error:
            return JSONResponse({"error": str(error)}, 503)

    def file(request: Request) -> Response:
        name = request.url.path.removeprefix("/")
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(static(name), media_type=STATIC[name], headers=headers)

    async def healthz(request: Request) -> Response:
        return JSONResponse({"state": "up"})

    def refused(request: Request, error: Exception) -> Response:
        return _message(answers, "This address cannot be answered", str(error), "", 400)

    def away(request: Request, error: Exception) -> Response:
        assert isinstance(error, HeadraceError)
        found = not_here(answers.layout, error)
        return _message(answers, found.what, found.why, found.remedy, 503)

    def broken(request: Request, error: Exception) -> Response:
        times.failed()
        return _message(answers, "This page failed", "It is a fault of the console; its log says why", "", 500)

    def missing(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        what = "There is no such page" if error.status_code == 404 else error.detail
        return _message(answers, what, f"{request.method} {request.url.path[:200]}", "", error.status_code)

    made = Starlette(
        routes=[
            *(Route(path, page) for path in pages),
            Route("/messages/live", live),
            Route("/api/group/move", move, methods=["POST"]),
            *(Route(f"/{name}", file) for name in STATIC),
            Route("/healthz", healthz),
            Route("/readyz", healthz),
        ],
        exception_handlers={BadRequest: refused, HeadraceError: away, HTTPException: missing, Exception: broken},
    )
    return WithMetrics(made, ROLE, lambda: times.metrics(lambda: streams.count))


def _page(html: str, status: int = 200) -> Response:
    return HTMLResponse(html, status, {POLICY_HEADER: POLICY, "Cache-Control": "no-store", "Referrer-Policy": "same-origin"})


def _message(answers: Answers, what: str, why: str, remedy: str, status: int) -> Response:
    return _page(render("message", what=what, why=why, remedy=remedy, now_ms=answers.clock.now_ms()), status)
