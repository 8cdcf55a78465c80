"""Whether a broker lives and whether it is ready, with the reasons. Pure: facts in, reasons out.

A broker that is not alive must be restarted. A broker that is not ready should get no new work for now. Without ZooKeeper it
still serves its partitions, so it is alive. But clients may not find it, or another broker may have its id: it is not ready."""

import json
from dataclasses import dataclass

from ...runtime.disk_room import DiskRoom, why_no_room
from ...runtime.monitoring.http_server import Page

STILL_MS = 10_000
"""The loop turns at least once a second. It hangs when it has not turned for this long."""
NAMED_LOGS = 10
REFUSED_MS = 5_000
"""How long a broker is not ready after its file system has refused an append. Producers retry sooner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The state of a broker at one moment."""

    phase: str
    """`starting`, `ready` or `stopping`."""
    doing: str
    """The present step of the start."""
    loop_turned_ms_ago: int | None
    """None before the loop runs."""
    loop_lives: bool
    """The loop's thread has not ended unexpectedly."""
    zookeeper: str
    """The session's state, or that it has not begun."""
    is_sure: bool
    """The session is certainly alive, and this broker is registered in it."""
    fatal: str | None
    """Why the broker is about to end."""
    failed_logs: tuple[str, ...] = ()
    """`topic-partition` of logs that accept no more appends."""
    room: DiskRoom | str | None = None
    """The room of the data folder's file system, or why it is unknown; None before the broker is built."""
    append_refused_ms_ago: int | None = None
    """How long ago an append was last answered with KAFKA_STORAGE_ERROR; None: never."""


def why_dead(facts: Facts) -> list[str]:
    """Return why the broker must be restarted; an empty list when it is alive."""
    reasons = []
    if not facts.loop_lives:
        reasons.append("the loop has ended unexpectedly: the log says why")
    elif facts.loop_turned_ms_ago is not None and facts.loop_turned_ms_ago > STILL_MS:
        reasons.append(f"the loop has not turned for {facts.loop_turned_ms_ago} ms")
    if facts.fatal is not None:
        reasons.append(facts.fatal)
    return reasons


def why_not_ready(facts: Facts) -> list[str]:
    """Return why the broker should get no work now; an empty list when it is ready."""
    reasons = why_dead(facts)
    if facts.phase == "starting":
        reasons.append(f"starting: {facts.doing}")
    elif facts.phase != "ready":
        reasons.append(facts.phase)
    elif not facts.is_sure:
        reasons.append(f"the ZooKeeper session is {facts.zookeeper}: this broker may not be registered any more")
    if facts.failed_logs:
        named = ", ".join(facts.failed_logs[:NAMED_LOGS])
        more = f" and {len(facts.failed_logs) - NAMED_LOGS} more" if len(facts.failed_logs) > NAMED_LOGS else ""
        reasons.append(f"{named}{more}: the disk failed, nothing is appended until the broker is started again")
    no_room = None if facts.room is None else why_no_room(facts.room)
    if no_room is not None:
        reasons.append(no_room)
    elif not facts.failed_logs and facts.append_refused_ms_ago is not None and facts.append_refused_ms_ago < REFUSED_MS:
        reasons.append(
            f"the file system refused an append {facts.append_refused_ms_ago} ms ago (no quota left, no file may be opened?): "
            "the producer got the reason; the broker continues without a restart"
        )
    return reasons


def page(verdict: str, reasons: list[str], facts: Facts) -> Page:
    """Return the page: 200 without reasons, 503 with them."""
    words: dict[str, object] = {
        verdict: not reasons,
        "reasons": reasons,
        "phase": facts.phase,
        "zookeeper": facts.zookeeper,
    }
    if verdict == "ready" and isinstance(facts.room, DiskRoom):
        words["data"] = {"path": str(facts.room.path), "free_bytes": facts.room.free_bytes}
    return Page(503 if reasons else 200, "application/json", json.dumps(words).encode() + b"\n")
