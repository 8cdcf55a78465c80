import asyncio
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from headrace.runtime.clock import ManualClock
from headrace.sdk import ACCESS_LOG_SCHEMA, AuditedRequests
from tests.unit.sdk.adapters.kept import KeptEvents


def _logger(error: Exception | None = None) -> KeptEvents:
    return KeptEvents(ACCESS_LOG_SCHEMA, "access_log", error)


async def _hello(_: Request) -> Response:
    return PlainTextResponse("hello")


async def _stream(_: Request) -> Response:
    async def parts():  # type: ignore[no-untyped-def]
        for _ in range(3):
            yield b"12345"

    return StreamingResponse(parts())


async def _fail(_: Request) -> Response:
    raise RuntimeError("the application's own fault")


def _app(logger: KeptEvents) -> Starlette:
    app = Starlette(
        routes=[
            Route("/hello", _hello),
            Route("/stream", _stream),
            Route("/fail", _fail),
            Route("/healthz", _hello),
            Route("/caf%C3%A9", _hello),
        ]
    )
    app.add_middleware(AuditedRequests, logger=logger, skip_paths=["/healthz"], clock=ManualClock(123_456))  # type: ignore[arg-type]
    return app


def _get(logger: KeptEvents, target: str, **headers: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=_app(logger), raise_app_exceptions=False, client=("203.0.113.9", 4711))
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
            return await client.get(target, headers=headers)

    return asyncio.run(ask())


def test_a_request_is_one_event_with_all_that_an_access_log_says() -> None:
    logger = _logger()
    assert _get(logger, "/hello?a=1&b=%20", Referer="http://other/", **{"User-Agent": "test/1"}).status_code == 200
    assert logger.events == [
        {
            "event_time": 123_456,
            "client_ip": "203.0.113.9",
            "ident": None,
            "user": None,
            "method": "GET",
            "path": "/hello?a=1&b=%20",
            "protocol": "HTTP/1.1",
            "status": 200,
            "size_bytes": 5,
            "referrer": "http://other/",
            "user_agent": "test/1",
        }
    ]


def test_a_streamed_answer_is_counted_whole() -> None:
    logger = _logger()
    _get(logger, "/stream")
    assert logger.events[0]["size_bytes"] == 15


def test_what_is_not_found_is_an_event_too() -> None:
    logger = _logger()
    assert _get(logger, "/nothing").status_code == 404
    assert (logger.events[0]["status"], logger.events[0]["path"]) == (404, "/nothing")


def test_a_failing_application_is_a_500_and_still_fails() -> None:
    logger = _logger()
    assert _get(logger, "/fail").status_code == 500
    assert logger.events[0]["status"] == 500


def test_health_probes_are_no_events() -> None:
    logger = _logger()
    assert _get(logger, "/healthz").status_code == 200
    assert logger.events == []


@pytest.mark.parametrize("error", [RuntimeError("any"), MemoryError()])
def test_logging_that_fails_never_fails_the_request(error: Exception) -> None:
    assert _get(_logger(error), "/hello").status_code == 200


def test_a_client_that_went_away_is_an_event_without_an_answer() -> None:
    logger = _logger()

    async def ask() -> None:
        async def never(scope: Any, receive: Any, send: Any) -> None:
            await asyncio.sleep(60)

        app = AuditedRequests(never, logger, clock=ManualClock(1))  # type: ignore[arg-type]
        scope = {"type": "http", "method": "GET", "path": "/slow", "raw_path": b"/slow", "query_string": b"", "headers": []}
        request = asyncio.create_task(app(scope, None, None))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request

    asyncio.run(ask())
    assert (logger.events[0]["status"], logger.events[0]["client_ip"]) == (499, "-")


def test_what_is_no_http_request_passes_through_untouched() -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    logger = _logger()
    asyncio.run(AuditedRequests(app, logger)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert seen == ["lifespan"]
    assert logger.events == []
