"""The report as people and scripts ask for it: fetched from the running service, put in words. Judges nothing."""

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ..model.errors import AuditError
from ..model.tiers import in_order

ASK_MS = 30_000

STYLE = {"COMPLETE": "", "INCOMPLETE": "bold red", "OVERCOUNTED": "bold yellow", "OPEN": "dim", "UNKNOWN": "bold magenta"}
"""Verdict → style of its row on a terminal; the words say the same."""


class ServiceUnreachable(AuditError):
    """The audit service does not answer."""

    retriable = True


def fetch(url: str, topic: str | None = None, *, timeout_ms: int = ASK_MS) -> list[dict[str, Any]]:
    """Return the windows as `GET /api/completeness` gives them. Raises ServiceUnreachable."""
    query = f"?{urllib.parse.urlencode({'topic': topic})}" if topic is not None else ""
    address = f"{url.rstrip('/')}/api/completeness{query}"
    try:
        with urllib.request.urlopen(address, timeout=timeout_ms / 1000) as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        raise ServiceUnreachable(f"the audit service refused {address}: {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ServiceUnreachable(
            f"the audit service does not answer at {url}: {error}; `headrace status` shows whether it runs, --url names another"
        ) from error
    if not isinstance(found, list):
        raise ServiceUnreachable(f"what answers at {url} is not an audit service: it sent no JSON array")
    return found


def tiers(windows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return every tier that the windows name, in order."""
    return in_order(tier for window in windows for tier in window["tiers"])


def count_words(count: int | None) -> str:
    """Return a count; a tier that has not reported has none, which is not zero."""
    return "–" if count is None else f"{count:,}"


def time_words(window: Mapping[str, Any]) -> str:
    """Return the window's day and start in UTC."""
    start_ms = window["window_start_ms"]
    if start_ms < 0:
        return "without a time"
    try:
        return datetime.fromtimestamp(start_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        return f"{start_ms} ms"


def verdict_words(window: Mapping[str, Any]) -> str:
    """Return the verdict with its figures: INCOMPLETE(missing 3)."""
    parts = [f"{name} {window[name]:,}" for name in ("missing", "extra") if window[name]]
    return f"{window['verdict']}({', '.join(parts)})" if parts else str(window["verdict"])


def why_words(window: Mapping[str, Any]) -> str:
    """Return the reason where there is something to explain, and what is not in a column."""
    words = [] if window["verdict"] == "COMPLETE" else [window["reason"]]
    words += [
        f"{count:,} {name.replace('_', ' ')}" for name, count in window["losses"].items() if count and name != "quarantined"
    ]
    words += [f"{name} {window[name]:,}" for name in ("unaudited", "redelivered") if window[name]]
    return "; ".join(words)
