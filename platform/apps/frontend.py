"""The sample frontend: a small shop over HTTP. The SDK's middleware logs each request as an event.

A service needs only one `EventLogger`, one line of middleware, and `close` at the end. Holds no state that must survive.
"""

import html
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ..errors import HeadraceError
from ..runtime.lifecycle import StopSignal
from ..runtime.logs import get_logger
from ..runtime.monitoring.process_metrics import process_metrics
from ..runtime.monitoring.text_format import text
from ..runtime.status import StatusFile
from ..runtime.web_server import WebServer, bound
from ..sdk import ACCESS_LOG_SCHEMA, AuditedRequests, EventLogger
from ..sdk.metrics import CONTENT_TYPE, metrics_page

log = get_logger(__name__)

HEALTH_PATH, READY_PATH, METRICS_PATH = "/healthz", "/readyz", "/metrics"
"""Probes, load balancers and Prometheus request them all day: no events."""
CLOSE_TIMEOUT_MS = 60_000
DRAIN_TIMEOUT_S = 10
PRODUCTS = ("mill stone", "water wheel", "sluice gate", "hopper", "grain sack", "bolting cloth", "trough", "headrace plank")


class FrontendError(HeadraceError):
    """The sample frontend cannot run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontendSettings:
    """One frontend's settings."""

    host: str
    port: int
    topic: str
    bootstrap: str
    registry_url: str
    schema_cache: Path | None = None
    status_file: Path | None = None


def _page(title: str, body: str, status_code: int = 200) -> HTMLResponse:
    name = html.escape(title)
    text = f"<!doctype html><html lang=en><meta charset=utf-8><title>{name}</title><h1>{name}</h1>{body}</html>"
    return HTMLResponse(text, status_code=status_code)


async def _home(request: Request) -> Response:
    return _page("The mill shop", "<p><a href=/products>Products</a> · <a href=/about>About</a></p>")


async def _about(request: Request) -> Response:
    return _page("About", "<p>A sample service. Each request to it is an event on its way to the warehouse.</p>")


async def _products(request: Request) -> Response:
    items = "".join(f"<li><a href=/products/{number}>{html.escape(name)}</a>" for number, name in enumerate(PRODUCTS))
    return _page("Products", f"<ul>{items}</ul>")


async def _product(request: Request) -> Response:
    number = request.path_params["number"]
    if number >= len(PRODUCTS):
        return _page("No such product", "<p><a href=/products>What there is</a></p>", 404)
    return _page(PRODUCTS[number], f"<p>Number {number}, in stock.</p>")


async def _time(request: Request) -> Response:
    return JSONResponse({"now": datetime.now(UTC).isoformat(timespec="milliseconds")})


async def _health(request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _not_found(request: Request, _: Exception) -> Response:
    return _page("Not found", f"<p>There is nothing at {html.escape(request.url.path)}.</p>", 404)


def _metrics(request: Request) -> Response:
    return PlainTextResponse(metrics_page() + text(process_metrics("frontend")), media_type=CONTENT_TYPE)


def shop(logger: EventLogger) -> Starlette:
    """Return the application; `logger` logs each of its requests."""
    app = Starlette(
        routes=[
            Route("/", _home),
            Route("/about", _about),
            Route("/products", _products),
            Route("/products/{number:int}", _product),
            Route("/api/time", _time),
            Route(HEALTH_PATH, _health),
            Route(READY_PATH, _health),
            Route(METRICS_PATH, _metrics),
        ],
        exception_handlers={404: _not_found},
    )
    app.add_middleware(AuditedRequests, logger=logger, skip_paths=[HEALTH_PATH, READY_PATH, METRICS_PATH])
    return app


def serve(settings: FrontendSettings, stop: StopSignal) -> None:
    """Serve until `stop`; then answer the open requests, deliver every event and seal the windows.

    Raises if the seal did not reach the audit, or if the port is in use.
    """
    status = StatusFile(settings.status_file)
    status.write("starting")
    listener = bound(settings.host, settings.port)
    logger = EventLogger(
        settings.topic,
        ACCESS_LOG_SCHEMA,
        bootstrap=settings.bootstrap,
        registry_url=settings.registry_url,
        application="frontend",
        schema_cache=settings.schema_cache,
    )
    server = WebServer(shop(logger), listener, name="frontend-http", drain_s=DRAIN_TIMEOUT_S)
    try:
        server.start()
        status.write("ready", address=f"{settings.host}:{settings.port}", topic=settings.topic)
        while not stop.wait(200):
            if not server.is_serving:
                raise FrontendError(f"the HTTP server on {settings.host}:{settings.port} ended unexpectedly: see the log above")
    finally:
        status.write("stopping")
        server.stop()
        logger.close(CLOSE_TIMEOUT_MS)
    if logger.close_error is not None:
        raise logger.close_error
    log.info("frontend_stopped", topic=settings.topic)
