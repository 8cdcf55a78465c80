"""Asks the running audit service for its verdicts, for the demo and the drills. The service decides; this module only reads."""

import time
from collections.abc import Callable
from typing import Any

from ..audit.client import ServiceUnreachable, completeness
from ..runtime.layout import Layout

ASK_MS = 10_000


def windows(layout: Layout, topic: str) -> dict[int, dict[str, Any]]:
    """Return the audited windows of `topic` by `window_start_ms`, as `GET /api/completeness` returns them."""
    return {window["window_start_ms"]: window for window in completeness(layout.audit_url, topic, timeout_ms=ASK_MS)}


def wait_until(
    layout: Layout,
    topic: str,
    condition: Callable[[dict[int, dict[str, Any]]], bool],
    *,
    within_ms: int,
    every_ms: int = 500,
    seen: Callable[[dict[int, dict[str, Any]]], None] = lambda found: None,
) -> tuple[bool, dict[int, dict[str, Any]]]:
    """Poll until `condition` is true for the windows, or until `within_ms` is over. Return whether it was true, and the last
    answer.

    `seen` is called with every answer, for progress. While the audit service restarts, it is asked again.
    """
    deadline = time.monotonic() + within_ms / 1000
    found: dict[int, dict[str, Any]] = {}
    while True:
        try:
            found = windows(layout, topic)
            seen(found)
            if condition(found):
                return True, found
        except ServiceUnreachable:
            if time.monotonic() > deadline:
                raise
        if time.monotonic() > deadline:
            return False, found
        time.sleep(every_ms / 1000)
