"""The registry as an ASGI application: its routes, and its 404 and 405 in the API's own format."""

from collections.abc import Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ....runtime.monitoring.with_metrics import WithMetrics
from ....runtime.serving.threads import Threads
from ...errors import RegistryError
from ..forwarding import Forwarding
from ..registry import SchemaRegistry
from ..topic_store import TopicStore
from . import endpoints_about, endpoints_schemas, endpoints_settings, endpoints_subjects
from .endpoints_subjects import Routes
from .http_exchange import HEAVY_THREADS, WRITERS, Endpoint, answered, refusal
from .metrics import ROLE, metrics

QUICK = {("GET", "/schemas/ids/{id}"), ("GET", "/subjects/{subject}/versions/{version}"), ("GET", "/config/{subject}")}
"""What clients ask all day; without `format`, for `format=resolved` parses."""
HEALTH = {("GET", "/healthz"), ("GET", "/readyz")}
"""Answered though all threads are taken."""


def table(registry: SchemaRegistry, store: TopicStore) -> Routes:
    """Return every method and path that is served, with its endpoint."""
    return [
        *endpoints_subjects.routes(registry),
        *endpoints_schemas.routes(registry),
        *endpoints_settings.routes(registry),
        *endpoints_about.routes(store, registry.gate),
    ]


def application(registry: SchemaRegistry, store: TopicStore, forwarding: Forwarding | None = None) -> ASGIApp:
    """Return the ASGI application. `forwarding`: how writes reach the leader, where one is elected."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for method, path, endpoint in table(registry, store):
        by_path.setdefault(path, {})[method] = endpoint
    # One route for each path, so that a refused method's `Allow` names all methods served there.
    heavy, writers = Threads(HEAVY_THREADS), Threads(WRITERS)
    routes = [
        Route(path, _by_method(path, endpoints, heavy, writers, forwarding), methods=list(endpoints))
        for path, endpoints in by_path.items()
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _not_routed})
    app.router.redirect_slashes = False
    return WithMetrics(_PathAsSent(app), ROLE, lambda: metrics(endpoints_about.facts(store, registry.gate)))


def _by_method(
    path: str, endpoints: Mapping[str, Endpoint], heavy: Threads, writers: Threads, forwarding: Forwarding | None
) -> Callable[[Request], Any]:
    handlers = {
        method: answered(endpoint, heavy, is_quick=(method, path) in QUICK | HEALTH)
        if method == "GET"
        else answered(endpoint, heavy, writers, forwarding)
        for method, endpoint in endpoints.items()
    }

    async def handle(request: Request) -> Response:
        response: Response = await handlers["GET" if request.method == "HEAD" else request.method](request)
        return response

    return handle


async def _not_routed(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    what = {404: "there is no such path here", 405: f"{request.method} is not served on this path"}.get(status, str(error))
    response = refusal(RegistryError(f"{request.url.path}: {what}", error_code=status))
    if isinstance(error, HTTPException) and error.headers:
        response.headers.update({"Allow": ", ".join(sorted(error.headers.get("Allow", "").split(", ")))})
    return response


class _PathAsSent:
    """Matches routes on the undecoded path, so that a subject may contain %2F; a slash at its end says nothing, as in JAX-RS."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = scope.get("raw_path")
        if scope["type"] == "http" and raw:
            path = raw.split(b"?")[0].decode("latin-1")
            scope = {**scope, "path": path[:-1] if len(path) > 1 and path.endswith("/") else path}
        await self._app(scope, receive, send)
