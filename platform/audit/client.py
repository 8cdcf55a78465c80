"""Asks a running audit service over HTTP. The service decides, this only asks and translates what comes back."""

import http.client
import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlencode

from .model.errors import AuditError

ASK_MS = 30_000


class ServiceUnreachable(AuditError):
    """The audit service does not answer, or not as one."""

    retriable = True


class ServiceRefused(AuditError):
    """The audit service will not do what it was asked; the message gives its reason."""


def completeness(url: str, topic: str | None = None, *, timeout_ms: int = ASK_MS) -> list[dict[str, Any]]:
    """Return every window (of one topic, or of all) as `GET /api/completeness` gives it. Raises ServiceUnreachable."""
    found = _ask("GET", url, "/api/completeness", {} if topic is None else {"topic": topic}, timeout_ms)
    if not isinstance(found, list):
        raise ServiceUnreachable(f"what answers at {url} is not an audit service: it sent no JSON array")
    return found


def topics(url: str, *, timeout_ms: int = ASK_MS) -> list[str]:
    """Return the topics that any tier has mentioned, sorted. Raises ServiceUnreachable."""
    found = _ask("GET", url, "/api/topics", {}, timeout_ms)
    if not isinstance(found, list):
        raise ServiceUnreachable(f"what answers at {url} is not an audit service: it sent no JSON array")
    return [str(topic) for topic in found]


def recount(url: str, *, tier: str, topic: str, timeout_ms: int = ASK_MS) -> None:
    """Have a tier that the audit counts itself counted anew. Raises ServiceUnreachable, ServiceRefused."""
    _ask("POST", url, "/api/recount", {"tier": tier, "topic": topic}, timeout_ms)


def unsealed(url: str, *, timeout_ms: int = ASK_MS) -> list[dict[str, Any]]:
    """Return the runs of producers that have not said all, the one heard longest ago first. Raises ServiceUnreachable."""
    found = _ask("GET", url, "/api/unsealed", {}, timeout_ms)
    if not isinstance(found, list):
        raise ServiceUnreachable(f"what answers at {url} is not an audit service: it sent no JSON array")
    return found


def _ask(method: str, url: str, path: str, query: dict[str, str], timeout_ms: int) -> Any:
    address = url.rstrip("/") + path + (f"?{urlencode(query)}" if query else "")
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method=method), timeout=timeout_ms / 1000) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            what = f"the audit service refused {method} {address}: {error.code} {_reason(error)}"
        raise (ServiceRefused if 400 <= error.code < 500 else ServiceUnreachable)(what) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ServiceUnreachable(
            f"the audit service does not answer at {url}: {error}; `headrace status` shows whether it runs"
        ) from error


def _reason(error: urllib.error.HTTPError) -> str:
    """Return the service's own words, or what HTTP calls the status."""
    try:
        return str(json.loads(error.read(10_000))["error"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return str(error.reason)
