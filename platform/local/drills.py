"""Plants a fault in the running platform and sees that the audit finds it, to the record, and that the gate stays shut.

`loss` makes whole batches unreadable on the offline side, between a stop and a start of that broker. `silence` holds
back an application that has logged events and not sealed them. Both end with a list of claims and whether each held;
neither repairs what it did.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from ..errors import HeadraceError
from ..runtime.layout import WINDOW_MS, Layout
from . import batch_damage, books, control

HOUR_MS = 3_600_000
MIRRORED_MS = 90_000
COUNTED_MS = 90_000
DECIDED_MS = 180_000
COMMAND_S = 300
LOGGED_S = 60
SILENT_MS = 120_000
SEALED_S = 60

Windows = dict[int, dict[str, Any]]
Progress = Callable[[str], None]


class DrillError(HeadraceError):
    """The drill could not be carried out; the message says at which step. It says nothing about the audit."""


@dataclass(slots=True)
class DrillResult:
    """What was done, what was claimed, and whether each claim held."""

    drill: str
    topic: str
    facts: dict[str, Any] = field(default_factory=dict)
    claims: list[tuple[str, bool, str]] = field(default_factory=list)

    @property
    def held(self) -> bool:
        return bool(self.claims) and all(held for _, held, _ in self.claims)

    def claim(self, what: str, held: bool, seen: str = "") -> None:
        """Note whether `what` held, and what was seen where it did not."""
        self.claims.append((what, held, "" if held else seen))

    def as_json(self) -> dict[str, Any]:
        claims = [{"claim": what, "held": held, "seen": seen} for what, held, seen in self.claims]
        return {"drill": self.drill, "topic": self.topic, "held": self.held, **self.facts, "claims": claims}

    def in_words(self) -> str:
        lines = [f"{'held' if held else 'FAILED':<7} {what}" + (f": {seen}" if seen else "") for what, held, seen in self.claims]
        return "\n".join([*lines, f"drill {self.drill} on {self.topic}: {'held' if self.held else 'FAILED'}"])


def loss(layout: Layout, topic: str, *, batches: int = 3, progress: Progress = lambda line: None) -> DrillResult:
    """Return whether the audit named a planted loss exactly.

    Raises DrillError, and PlatformError when a process does not come.
    """
    control.running(layout)
    result = DrillResult("loss", topic)
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

    counted, found = books.wait_until(layout, topic, is_counted, within_ms=COUNTED_MS)
    result.claim("the recount finds the damaged batches gone, and nothing else", counted, _unlike(found, whole, lost))
    progress("loading and publishing")
    _headrace(layout, "load", topic, "--wait", "60")
    decided, found = books.wait_until(layout, topic, _is_decided, within_ms=DECIDED_MS)
    result.claim("every window is decided", decided, _kinds(found))
    _claim_named(result, before, found, lost)
    _claim_hours(result, layout, topic, found, lost)
    return result


def _claim_named(result: DrillResult, before: Windows, found: Windows, lost: dict[int, int]) -> None:
    """Claim that each touched window is named with its number, and no other."""
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
    """Claim that exactly the hours that are complete and over show rows in the published view."""
    now_ms = time.time_ns() // 1_000_000
    shut = {start - start % HOUR_MS for start in lost}
    hours = {start - start % HOUR_MS for start in found}
    bad = {start - start % HOUR_MS for start, window in found.items() if window["verdict"] != "COMPLETE"}
    rows = {start - start % HOUR_MS for start, window in found.items() if window["tiers"].get("warehouse")}
    expected = {hour for hour in (hours & rows) - bad if hour + HOUR_MS <= now_ms}
    shown = _published_hours(layout, topic)
    result.facts |= {"shut_hours_ms": sorted(shut), "open_hours_ms": sorted(shown)}
    result.claim("the hours of the loss show no row", not shown & shut, f"{sorted(shown & shut)} show rows")
    result.claim(
        "every other hour that is over is published", shown == expected, f"shown {sorted(shown)}, expected {sorted(expected)}"
    )


def silence(
    layout: Layout, topic: str = "drill_silence", *, events: int = 50, progress: Progress = lambda line: None
) -> DrillResult:
    """Return whether a producer that does not seal makes its window UNKNOWN and keeps the gate shut, and its seal opens
    it.
    """
    control.running(layout)
    result = DrillResult("silence", topic)
    now_ms = time.time_ns() // 1_000_000
    # An hour that is over, so that only the verdict can keep it shut.
    event_time_ms = now_ms - now_ms % HOUR_MS - 2 * HOUR_MS + 5 * WINDOW_MS + WINDOW_MS // 2
    window, hour = event_time_ms - event_time_ms % WINDOW_MS, event_time_ms - event_time_ms % HOUR_MS
    command = [sys.executable, "-m", "headrace.local.held_back", topic, str(events), str(event_time_ms)]
    environment = {**os.environ, **layout.environment()}
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True)
    try:
        instance = _await_logged(child)
        progress(f"{instance} has {events} events acknowledged; holding it back before it seals")
        os.kill(child.pid, signal.SIGSTOP)
        result.facts |= {"instance": instance, "window_start_ms": window, "events": events}

        def is_unknown(found: Windows) -> bool:
            return window in found and found[window]["verdict"] == "UNKNOWN" and f"producer:{instance}" in found[window]["silent"]

        named, found = books.wait_until(layout, topic, is_unknown, within_ms=SILENT_MS)
        result.facts["verdict_while_silent"] = found.get(window, {}).get("verdict")
        result.claim("the window is UNKNOWN and names the silent producer", named, f"{found.get(window)}")
        progress("loading; the gate must stay shut")
        told = json.loads(_headrace(layout, "load", topic, "--json", "--wait", "5"))
        result.facts["load"] = told
        shown = _published_hours(layout, topic)
        result.claim("the gate is shut for that hour", hour not in shown, f"hours shown: {sorted(shown)}")
        progress("letting it go on; it seals")
        os.kill(child.pid, signal.SIGCONT)
        child.communicate("seal\n", timeout=SEALED_S)
        if child.returncode != 0:
            raise DrillError(f"the held-back application ended with {child.returncode}: what it said stands above")
    except subprocess.TimeoutExpired as error:
        raise DrillError(f"the held-back application did not seal within {SEALED_S} s after it went on") from error
    finally:
        if child.poll() is None:
            os.kill(child.pid, signal.SIGCONT)
            child.kill()
            child.wait()

    def is_decided(found: Windows) -> bool:
        return window in found and found[window]["verdict"] not in ("OPEN", "UNKNOWN")

    decided, found = books.wait_until(layout, topic, is_decided, within_ms=DECIDED_MS)
    after = found.get(window, {})
    result.facts["verdict_after"] = after.get("verdict")
    result.claim("with the seal the window is COMPLETE", decided and after.get("verdict") == "COMPLETE", f"{after}")
    _headrace(layout, "load", topic, "--step", "publish", "--wait", "30")
    shown = _published_hours(layout, topic)
    result.claim("and its hour is published", hour in shown, f"hours shown: {sorted(shown)}")
    return result


def _await_logged(child: "subprocess.Popen[str]") -> str:
    """Return the instance's name once its events are acknowledged."""
    assert child.stdout is not None
    # A child that hangs is ended by a timer of its own, so that the read below always comes back.
    with _EndsLater(child, LOGGED_S):
        words = child.stdout.readline().split()
    if len(words) != 2 or words[0] != "logged":
        raise DrillError(f"the application to hold back did not get its events acknowledged within {LOGGED_S} s: see above")
    return words[1]


class _EndsLater:
    """Kills the child unless the block ends in time."""

    def __init__(self, child: "subprocess.Popen[str]", seconds: int) -> None:
        self._timer = threading.Timer(seconds, child.kill)

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()


def _is_mirrored(found: Windows) -> bool:
    """Return whether each window stands offline as it stands live, but for losses that are named already."""
    return bool(found) and all(
        window["tiers"].get("live") is not None
        and window["tiers"].get("live") == window["tiers"].get("mirror")
        and (window["tiers"].get("offline") == window["tiers"]["live"] or window["first_bad_tier"] == "offline")
        for window in found.values()
    )


def _is_decided(found: Windows) -> bool:
    return bool(found) and all(window["verdict"] not in ("OPEN", "UNKNOWN") for window in found.values())


def _until(layout: Layout, topic: str, condition: Callable[[Windows], bool], within_ms: int, fault: str) -> Windows:
    held, found = books.wait_until(layout, topic, condition, within_ms=within_ms)
    if not held:
        raise DrillError(f"{fault} (waited {within_ms // 1000} s); the audit says {_kinds(found) or 'nothing of it'}")
    return found


def _recount(layout: Layout, topic: str) -> None:
    url = f"{layout.audit_url}/api/recount?{urlencode({'tier': 'offline', 'topic': topic})}"
    try:
        urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=30).close()
    except urllib.error.HTTPError as error:
        raise DrillError(
            f"the audit refused the recount at {url}: {error.code} {error.read().decode(errors='replace')}"
        ) from error
    except OSError as error:
        raise DrillError(f"the audit does not answer at {url}: {error}") from error


def _headrace(layout: Layout, *words: str) -> str:
    """Run one of our commands as a user would and return what it printed. Raises DrillError with what it complained of."""
    command = [sys.executable, "-m", "headrace.cli.main", *words]
    try:
        done = subprocess.run(
            command, env={**os.environ, **layout.environment()}, capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise DrillError(f"headrace {' '.join(words)} did not end within {COMMAND_S} s") from error
    if done.returncode != 0:
        raise DrillError(f"headrace {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()[-2_000:]}")
    return done.stdout


def _published_hours(layout: Layout, topic: str) -> set[int]:
    """Return the hours (ms) of which the published view shows rows."""
    sql = f'SELECT DISTINCT epoch_ms(_timestamp) // {HOUR_MS} AS hour FROM "{topic}"'
    return {row["hour"] * HOUR_MS for row in json.loads(_headrace(layout, "query", sql, "--json"))}


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
