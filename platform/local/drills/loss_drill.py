"""The drill `loss`: makes whole batches unreadable on the offline side, between a stop and a start of that broker. Checks that
the audit reports the exact number of lost records and that the gate stays shut. It does not repair the damage.
"""

import time
from collections.abc import Callable

from ...audit import client as audit
from ...audit.model.errors import AuditError
from ...audit.model.windows import WINDOW_MS
from ...runtime.layout import Layout
from .. import audit_queries, commands, control
from . import batch_damage
from .drill import DECIDED_MS, HOUR_MS, DrillError, DrillResult, Progress, Windows, hour_start_ms, published_hours

MENTIONED_MS = 10_000
"""How long to wait for a topic that the audit does not know yet: a producer reports every second."""
MIRRORED_MS = 90_000
COUNTED_MS = 90_000


def run(layout: Layout, topic: str, *, batches: int = 3, progress: Progress = lambda line: None) -> DrillResult:
    """Return whether the audit reported a planted loss exactly.

    Raises DrillError, CommandFailed, and PlatformError if a process does not start.
    """
    control.running(layout)
    result = DrillResult("loss", topic)
    nothing = f"{topic} has no audited window: log events to it first (`headrace replay LOG --topic {topic}`)"
    _until(layout, topic, bool, MENTIONED_MS, nothing)
    progress(f"waiting until {topic} is counted on the offline side")
    before = _until(layout, topic, _is_mirrored, MIRRORED_MS, f"{topic} has no data that is whole on the offline side")
    progress("stopping broker-offline")
    control.stop(layout, "broker-offline")
    try:
        stored = batch_damage.stored_batches(layout.home / "broker-offline", topic)
        chosen = batch_damage.choose(stored, count=batches, window_ms=WINDOW_MS)
        for batch in chosen:
            batch_damage.damage(batch)
    finally:
        progress("starting broker-offline")
        control.start(layout, "broker-offline")
    if not chosen:
        raise DrillError(f"{topic} has no batch in the middle of a partition that lies in one window: log more events to it")
    lost: dict[int, int] = {}
    for batch in chosen:
        start = batch.window_start_ms(WINDOW_MS)
        assert start is not None
        lost[start] = lost.get(start, 0) + batch.record_count
    result.facts["lost"] = {str(start): count for start, count in sorted(lost.items())}
    result.facts["damaged"] = [
        {
            "file": str(batch.path.relative_to(layout.home)),
            "partition": batch.partition,
            "base_offset": batch.base_offset,
            "next_offset": batch.next_offset,
            "record_count": batch.record_count,
            "window_start_ms": batch.window_start_ms(WINDOW_MS),
        }
        for batch in chosen
    ]
    progress(f"{len(chosen)} batches with {sum(lost.values())} records damaged; having the offline side counted again")
    _recount(layout, topic)
    whole = {start: window["tiers"]["offline"] or 0 for start, window in before.items()}

    def is_counted(found: Windows) -> bool:
        return all(
            found[start]["tiers"]["offline"] == count - lost.get(start, 0) for start, count in whole.items() if start in found
        )

    counted, found = audit_queries.wait_until(layout, topic, is_counted, within_ms=COUNTED_MS)
    result.claim("the recount finds the damaged batches gone, and nothing else", counted, _unlike(found, whole, lost))
    progress("loading and publishing")
    commands.output_of(layout, "load", topic, "--wait", "60")
    decided, found = audit_queries.wait_until(layout, topic, _is_decided, within_ms=DECIDED_MS)
    result.claim("every window is decided", decided, _kinds(found))
    _claim_named(result, before, found, lost)
    _claim_hours(result, layout, topic, found, lost)
    return result


def _claim_named(result: DrillResult, before: Windows, found: Windows, lost: dict[int, int]) -> None:
    """Claim that the audit reports each damaged window with its number of lost records, and no other window."""
    for start, count in sorted(lost.items()):
        window = found.get(start, {})
        named = (window.get("verdict"), window.get("missing"), window.get("first_bad_tier"))
        expected = ("INCOMPLETE", count + before[start]["missing"], "offline")
        result.claim(f"window {start} is INCOMPLETE, {expected[1]} missing, first at offline", named == expected, f"{named}")
        tiers, was = window.get("tiers", {}), before[start]["tiers"]
        full = all(tiers.get(tier) == was[tier] for tier in ("producer", "live", "mirror") if tier in was)
        result.claim(f"window {start} is full before the offline side", full, f"{tiers}, before {was}")
    named_too = [start for start, window in found.items() if window["missing"] != lost.get(start, 0) + _missing(before, start)]
    result.claim("no other window misses anything", not named_too, f"{named_too}")


def _claim_hours(result: DrillResult, layout: Layout, topic: str, found: Windows, lost: dict[int, int]) -> None:
    """Claim that the published view shows rows of exactly the hours that are complete and over."""
    now_ms = time.time_ns() // 1_000_000
    shut = {hour_start_ms(start) for start in lost}
    hours = {hour_start_ms(start) for start in found}
    bad = {hour_start_ms(start) for start, window in found.items() if window["verdict"] != "COMPLETE"}
    rows = {hour_start_ms(start) for start, window in found.items() if window["tiers"].get("warehouse")}
    expected = {hour for hour in (hours & rows) - bad if hour + HOUR_MS <= now_ms}
    shown = published_hours(layout, topic)
    result.facts |= {"shut_hours_ms": sorted(shut), "open_hours_ms": sorted(shown)}
    result.claim("the hours of the loss show no row", not shown & shut, f"{sorted(shown & shut)} show rows")
    result.claim(
        "every other hour that is over is published", shown == expected, f"shown {sorted(shown)}, expected {sorted(expected)}"
    )


def _is_mirrored(found: Windows) -> bool:
    """Return whether each window has the same counts offline as live, except for losses that are reported already."""
    return bool(found) and all(
        window["tiers"].get("live") is not None
        and window["tiers"].get("live") == window["tiers"].get("mirror")
        and (window["tiers"].get("offline") == window["tiers"]["live"] or window["first_bad_tier"] == "offline")
        for window in found.values()
    )


def _is_decided(found: Windows) -> bool:
    return bool(found) and all(window["verdict"] not in ("OPEN", "UNKNOWN") for window in found.values())


def _until(layout: Layout, topic: str, condition: Callable[[Windows], bool], within_ms: int, fault: str) -> Windows:
    held, found = audit_queries.wait_until(layout, topic, condition, within_ms=within_ms)
    if not held:
        raise DrillError(f"{fault} (waited {within_ms // 1000} s); the audit says {_kinds(found) or 'nothing of it'}")
    return found


def _recount(layout: Layout, topic: str) -> None:
    try:
        audit.recount(layout.audit_url, tier="offline", topic=topic)
    except AuditError as error:
        raise DrillError(f"the offline side of {topic} is not counted again: {error}") from error


def _missing(windows: Windows, start: int) -> int:
    return int(windows[start]["missing"]) if start in windows else 0


def _kinds(found: Windows) -> str:
    kinds: dict[str, int] = {}
    for window in found.values():
        kinds[window["verdict"]] = kinds.get(window["verdict"], 0) + 1
    first = next((window for window in found.values() if window["verdict"] in ("OPEN", "UNKNOWN")), None)
    words = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return words + (f"; {first['window_start_ms']}: {first['reason']}" if first else "")


def _unlike(found: Windows, whole: dict[int, int], lost: dict[int, int]) -> str:
    unlike = {
        start: (found[start]["tiers"]["offline"], count - lost.get(start, 0))
        for start, count in whole.items()
        if start in found and found[start]["tiers"]["offline"] != count - lost.get(start, 0)
    }
    return f"window: (counted, expected) {dict(sorted(unlike.items())[:5])}"
