"""The registry as an ASGI application: its routes, its health, its 404 and 405 in the API's own words."""

from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import RegistryError
from . import endpoints_schemas, endpoints_subjects
from .http_exchange import Exchange, answered, refusal
from .registry import SchemaRegistry
from .topic_store import TopicStore


def application(registry: SchemaRegistry, store: TopicStore) -> ASGIApp:
    """Return the ASGI application."""
    table = [*endpoints_subjects.routes(registry), *endpoints_schemas.routes(registry), *_about(store)]
    routes = [Route(path, answered(endpoint), methods=[method]) for method, path, endpoint in table]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _not_routed})
    return _PathAsSent(app)


def _about(store: TopicStore) -> endpoints_subjects.Routes:
    def front(ask: Exchange) -> Any:
        return {}

    def facts() -> dict[str, Any]:
        with store.state_lock:
            counts = store.state.counts()
        return {
            "topic": store.topic,
            "bootstrap": store.bootstrap,
            "is_caught_up": store.is_caught_up,
            "next_offset": store.next_offset,
            "trouble": store.trouble,
            **counts,
        }

    def healthy(ask: Exchange) -> Any:
        return {"status": "degraded" if store.trouble else "healthy", **facts()}

    def ready(ask: Exchange) -> Any:
        is_ready = store.is_caught_up and store.damage is None
        return JSONResponse({"ready": is_ready, **facts()}, status_code=200 if is_ready else 503)

    return [("GET", "/", front), ("GET", "/healthz", healthy), ("GET", "/readyz", ready)]


async def _not_routed(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    what = {404: "there is no such path here", 405: f"{request.method} is not served on this path"}.get(status, str(error))
    return refusal(RegistryError(f"{request.url.path}: {what}", error_code=status))


class _PathAsSent:
    """Lets routes be matched on the path as it was sent, so that a subject may hold %2F."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = scope.get("raw_path")
        if scope["type"] == "http" and raw:
            scope = {**scope, "path": raw.split(b"?")[0].decode("latin-1")}
        await self._app(scope, receive, send)
