"""The audit over HTTP: completeness as JSON, the page, the probes, recounts. Translates; decides nothing."""

import json
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from ....runtime.clock import Clock
from ...model.tiers import READ_BACK
from ..judge import Judge, as_json
from ..store.ledger import Ledger
from . import page

MOST_CHANGES = 1_000


class BadQuestion(Exception):
    """A parameter of a request is wrong; the message says which and how."""


def application(
    ledger: Ledger, judge: Judge, clock: Clock, *, not_ready: Callable[[], str | None], faults: Callable[[], list[str]]
) -> Starlette:
    """Return the ASGI application. `not_ready` says in words what is not up yet, `faults` what cannot be reached now."""

    def completeness(request: Request) -> Response:
        topic = request.query_params.get("topic")
        from_ms, to_ms = _whole(request, "from_ms"), _whole(request, "to_ms")
        topics = ledger.topics() if topic is None else [topic]
        found = [as_json(name, one) for name in topics for one in judge.windows(name, from_ms, to_ms)]
        return Response(json.dumps(found, separators=(",", ":")), media_type="application/json")

    def changes(request: Request) -> Response:
        limit = _whole(request, "limit")
        limit = 100 if limit is None else max(0, min(limit, MOST_CHANGES))
        topic = request.query_params.get("topic")
        return JSONResponse(ledger.ask(lambda notes: notes.verdict_changes(topic, limit)))

    def unreadable(request: Request) -> Response:
        topic = request.query_params.get("topic")
        return JSONResponse(ledger.ask(lambda notes: notes.unreadable(topic)))

    def recount(request: Request) -> Response:
        tier, topic = request.query_params.get("tier", ""), request.query_params.get("topic", "")
        if tier not in READ_BACK:
            raise BadQuestion(f"tier={tier!r} is not counted by the audit itself: tier is one of {', '.join(READ_BACK)}")
        if topic not in ledger.topics():
            raise BadQuestion(f"topic={topic!r} has not been mentioned by any tier: GET /api/topics lists those that have")
        ledger.forget(tier, topic)
        return JSONResponse({"tier": tier, "topic": topic, "recounting": True}, status_code=202)

    def unsealed(request: Request) -> Response:
        return JSONResponse(ledger.unsealed())

    def topics(request: Request) -> Response:
        return JSONResponse(ledger.topics())

    def hearing(request: Request) -> Response:
        return JSONResponse({**ledger.hearing(), "faults": faults()})

    def healthz(request: Request) -> Response:
        return JSONResponse({"state": "up"})

    def readyz(request: Request) -> Response:
        reason = not_ready()
        if reason is not None:
            return JSONResponse({"state": "starting", "reason": reason}, status_code=503)
        return JSONResponse({"state": "ready"})

    def index(request: Request) -> Response:
        known = ledger.topics()
        topic = request.query_params.get("topic") or (known[0] if known else None)
        html = page.render(
            topics=known,
            topic=topic,
            windows=judge.windows(topic) if topic in known and topic is not None else [],
            changes=ledger.ask(lambda notes: notes.verdict_changes(topic, 15)) if topic is not None else [],
            faults=faults(),
            now_ms=clock.now_ms(),
        )
        return HTMLResponse(html)

    def refused(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, status_code=400)

    return Starlette(
        routes=[
            Route("/", index),
            Route("/api/completeness", completeness),
            Route("/api/changes", changes),
            Route("/api/unreadable", unreadable),
            Route("/api/unsealed", unsealed),
            Route("/api/topics", topics),
            Route("/api/hearing", hearing),
            Route("/api/recount", recount, methods=["POST"]),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
        ],
        exception_handlers={BadQuestion: refused},
    )


def _whole(request: Request, name: str) -> int | None:
    text = request.query_params.get(name)
    if text is None or text == "":
        return None
    try:
        return int(text)
    except ValueError:
        raise BadQuestion(f"{name}={text[:40]!r} is not a whole number of milliseconds") from None
