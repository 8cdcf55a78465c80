"""Asks a running audit service over HTTP. The service decides, this only asks and translates what comes back."""

import http.client
import json
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlencode

from ..runtime import http_credentials
from ..runtime.http_call import HttpAddress, HttpAnswer, HttpAnswerTooLong, NoHttpAnswer
from .model.errors import AuditError

ASK_MS = 30_000
MOST_ANSWER_BYTES = 256 << 20
"""A page of windows, each with 100 ranges of differences in many partitions."""
PAGE = 1_000
"""Windows asked for at a time."""


class ServiceUnreachable(AuditError):
    """The audit service does not answer, or not as one."""

    retriable = True


class ServiceRefused(AuditError):
    """The audit service will not do what it was asked; the message gives its reason."""


def completeness(
    url: str,
    topic: str | None = None,
    *,
    from_ms: int | None = None,
    to_ms: int | None = None,
    by: Literal["window", "day"] = "window",
    timeout_ms: int = ASK_MS,
) -> list[dict[str, Any]]:
    """Return every window (of one topic, or of all; of a time) as `GET /api/completeness` gives it, asked page by page.

    `by="day"`: the days to which old windows were added. Raises ServiceUnreachable.
    """
    query = {"topic": topic, "from_ms": from_ms, "to_ms": to_ms, "by": by, "limit": PAGE}
    found: list[dict[str, Any]] = []
    while True:
        page = _list(url, "/api/completeness", query, timeout_ms)
        found += page
        if len(page) < PAGE:
            return found
        query["after"] = f"{page[-1]['topic']}/{page[-1]['window_start_ms']}"


def sequences(url: str, topic: str, *, from_ms: int, to_ms: int, timeout_ms: int = ASK_MS) -> list[dict[str, Any]]:
    """Return window_start_ms, ranges and more, for each window of a day at most whose books are kept. Raises ServiceUnreachable,
    ServiceRefused.
    """
    return _list(url, "/api/sequences", {"topic": topic, "from_ms": from_ms, "to_ms": to_ms}, timeout_ms)


def newest(
    url: str,
    topic: str,
    count: int,
    *,
    before: int | None = None,
    by: Literal["window", "day"] = "window",
    is_stored: bool = False,
    timeout_ms: int = ASK_MS,
) -> list[dict[str, Any]]:
    """Return the topic's latest windows (or days), in order; with `before` those before it. Raises ServiceUnreachable.

    `is_stored`: as the judge's last round left them. Else what is new of the topic is judged first.
    """
    query = {"topic": topic, "newest": count, "before": before, "by": by, "stored": 1 if is_stored else None}
    return _list(url, "/api/completeness", query, timeout_ms)


def window(url: str, topic: str, start_ms: int, *, timeout_ms: int = ASK_MS) -> dict[str, Any]:
    """Return one window. Raises ServiceUnreachable, and ServiceRefused if no tier has mentioned it."""
    return _object(url, "/api/window", {"topic": topic, "start": start_ms}, timeout_ms)


def overview(
    url: str, *, q: str = "", after: str = "", limit: int = 50, hours: int = 24, timeout_ms: int = ASK_MS
) -> dict[str, Any]:
    """Return `topics` (topic → its latest `hours` with verdict and wrong records, its `windows` by verdict), `total`, `after`."""
    return _object(url, "/api/overview", {"q": q, "after": after, "limit": limit, "hours": hours}, timeout_ms)


def topic_page(url: str, topic: str, *, before: int | None = None, timeout_ms: int = ASK_MS) -> dict[str, Any]:
    """Return what the page of one topic shows: `windows` and `days` newest first, as brief as a row of a table, `changes`,
    `producers`, `latencies` and `faults`. Raises ServiceUnreachable.
    """
    return _object(url, "/api/topic", {"topic": topic, "before": before}, timeout_ms)


def problems(url: str, *, limit: int = 50, timeout_ms: int = ASK_MS) -> dict[str, Any]:
    """Return `windows` (topic, verdict, how many, the latest one) that are not as they should be, `faults`, and `quiet`
    producers. Raises ServiceUnreachable.
    """
    return _object(url, "/api/problems", {"limit": limit}, timeout_ms)


def changes(
    url: str, topic: str, *, start_ms: int | None = None, limit: int = 15, timeout_ms: int = ASK_MS
) -> list[dict[str, Any]]:
    """Return the latest changes of the topic's verdicts, or of one window's, newest first. Raises ServiceUnreachable."""
    return _list(url, "/api/changes", {"topic": topic, "start": start_ms, "limit": limit}, timeout_ms)


def hearing(url: str, *, timeout_ms: int = ASK_MS) -> dict[str, Any]:
    """Return how well the audit hears, and its `faults`: what it cannot reach now. Raises ServiceUnreachable."""
    return _object(url, "/api/hearing", {}, timeout_ms)


def summary(url: str, *, timeout_ms: int = ASK_MS) -> dict[str, dict[str, Any]]:
    """Return topic → {windows: {verdict: n}, missing, doubled, altered}. Raises ServiceUnreachable."""
    return _object(url, "/api/summary", {}, timeout_ms)


def topics(url: str, *, timeout_ms: int = ASK_MS) -> list[str]:
    """Return the topics that any tier has mentioned, sorted. Raises ServiceUnreachable."""
    return [str(topic) for topic in _list(url, "/api/topics", {}, timeout_ms)]


def recount(url: str, *, tier: str, topic: str, timeout_ms: int = ASK_MS) -> None:
    """Have a tier that the audit counts itself counted again. Raises ServiceUnreachable, ServiceRefused."""
    _ask("POST", url, "/api/recount", {"tier": tier, "topic": topic}, timeout_ms)


def unsealed(url: str, topic: str | None = None, *, timeout_ms: int = ASK_MS) -> list[dict[str, Any]]:
    """Return the runs of producers that have not said all, the one heard longest ago first. Raises ServiceUnreachable."""
    return _list(url, "/api/unsealed", {"topic": topic}, timeout_ms)


def producers(url: str, *, q: str = "", limit: int, timeout_ms: int = ASK_MS) -> dict[str, Any]:
    """Return those of them whose names or topics contain `q`: at most `limit` `producers`, and the `total`. Raises
    ServiceUnreachable.
    """
    return _object(url, "/api/producers", {"q": q, "limit": limit}, timeout_ms)


def tiers(url: str, *topics: str | None, tier: str | None = None, timeout_ms: int = ASK_MS) -> list[dict[str, Any]]:
    """Return the topics' tiers (or one of them) and what is expected of each; without a topic, the groups that an operator has
    added or removed. Raises ServiceUnreachable.
    """
    return _list(url, "/api/tiers", {"topic": [one for one in topics if one], "tier": tier}, timeout_ms)


def _object(url: str, path: str, query: Mapping[str, object], timeout_ms: int) -> dict[str, Any]:
    found = _ask("GET", url, path, query, timeout_ms)
    if not isinstance(found, dict):
        raise ServiceUnreachable(f"what answers at {url} is not an audit service: it sent no JSON object")
    return found


def _list(url: str, path: str, query: Mapping[str, object], timeout_ms: int) -> list[Any]:
    found = _ask("GET", url, path, query, timeout_ms)
    if not isinstance(found, list):
        raise ServiceUnreachable(f"what answers at {url} is not an audit service: it sent no JSON array")
    return found


def _ask(method: str, url: str, path: str, query: Mapping[str, object], timeout_ms: int) -> Any:
    words = urlencode({name: value for name, value in query.items() if value is not None}, doseq=True)
    target = path + (f"?{words}" if words else "")
    try:
        address = HttpAddress(url)
        tls = http_credentials.tls_context("AUDIT") if address.is_tls else None
        answer = address.call(
            method, target, None, http_credentials.headers("AUDIT"), within_ms=timeout_ms, most_bytes=MOST_ANSWER_BYTES, tls=tls
        )
        if answer.is_success:
            return json.loads(answer.body)
    except (NoHttpAnswer, HttpAnswerTooLong, ValueError) as error:
        raise ServiceUnreachable(
            f"the audit service does not answer at {url}: {error}; `headrace status` shows whether it runs"
        ) from error
    what = f"the audit service refused {method} {url.rstrip('/')}{target}: {answer.status} {_reason(answer)}"
    raise (ServiceRefused if 400 <= answer.status < 500 else ServiceUnreachable)(what)


def _reason(answer: HttpAnswer) -> str:
    """Return the service's own words, or what HTTP calls the status."""
    try:
        return str(json.loads(answer.body)["error"])
    except (ValueError, KeyError, TypeError):
        return http.client.responses.get(answer.status, "")
