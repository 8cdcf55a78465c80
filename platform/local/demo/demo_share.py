"""The demo's own share of the audit's counts and of the warehouse, when earlier demos wrote to the same topic and windows.

The earlier part of a window is what the live log held before this demo. Every tier ends with those records. Some may reach the
warehouse only now, if an earlier demo was interrupted. Rows are distinguished by their position in the log.
"""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ...audit.model.tiers import PRODUCER
from ...audit.service.web import report
from ...client.connection.cluster import Cluster
from ...client.errors import UnknownTopic
from ...client.fetch.fetched import TopicPartition
from ...client.fetch.log_offsets import LATEST, log_offsets
from ...runtime.layout import Layout
from .. import audit_queries

Windows = Mapping[int, Mapping[str, Any]]
"""By `window_start_ms`, as `GET /api/completeness` returns them."""
SETTLED_MS = 10_000
EVERY_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """The topic before the demo."""

    windows: Windows
    log_ends: Mapping[int, int]
    """By partition, of the live cluster; empty if the topic did not exist."""

    def own(self, found: Windows, start: int, tier: str) -> int | None:
        """Return how many records of the window, in that tier, are this demo's; None if the tier has not reported."""
        count: int | None = found[start]["tiers"].get(tier) if start in found else None
        if count is None:
            return None
        if start not in self.windows:
            return count
        earlier: int = self.windows[start]["tiers"].get("live") or 0
        if tier == PRODUCER:
            earlier -= self.windows[start]["unaudited"]
        return max(0, count - earlier)

    def total(self, found: Windows, starts: Collection[int], tier: str) -> int:
        """Return the sum of `own` over these windows; a window that is not reported adds nothing."""
        return sum(self.own(found, start, tier) or 0 for start in starts)

    def shared(self, starts: Collection[int]) -> int:
        """Return how many of these windows hold earlier records, too."""
        return sum(1 for start in starts if start in self.windows and self.windows[start]["tiers"].get("live"))

    def rows_since(self) -> str:
        """Return the SQL condition that selects this demo's rows; '' if there were no rows before."""
        if not any(self.log_ends.values()):
            return ""
        since = " OR ".join(
            f"(_topic_partition = {number} AND _offset >= {end})" for number, end in sorted(self.log_ends.items())
        )
        known = ", ".join(str(number) for number in sorted(self.log_ends))
        return f"WHERE ({since} OR _topic_partition NOT IN ({known}))"


def look(layout: Layout, topic: str) -> Before:
    """Return the topic's state once the audit's counts are stable: an earlier demo's last events may still be counted."""
    deadline = time.monotonic() + SETTLED_MS / 1000
    windows = audit_queries.windows(layout, topic)
    while windows and time.monotonic() < deadline:
        time.sleep(EVERY_MS / 1000)
        earlier, windows = windows, audit_queries.windows(layout, topic)
        if all(
            window["tiers"].get("live") == earlier.get(start, {"tiers": {}})["tiers"].get("live")
            for start, window in windows.items()
        ):
            break
    return Before(windows=windows, log_ends=_log_ends(layout, topic))


def _log_ends(layout: Layout, topic: str) -> dict[int, int]:
    cluster = Cluster(layout.live_bootstrap)
    try:
        names = [TopicPartition(topic, number) for number in cluster.partitions(topic)]
        return {name.partition: end for name, end in log_offsets(cluster, dict.fromkeys(names, LATEST)).items()}
    except UnknownTopic:
        return {}
    finally:
        cluster.close()


def table(before: Before, found: Windows, starts: Collection[int]) -> list[str]:
    """Return a heading and one line for each window of this demo: its own records in every tier, and the verdict."""
    made = [start for start in starts if start in found]
    tiers = report.tiers([found[start] for start in made])
    lines = [["window (UTC)", *tiers, "verdict"]]
    for start in made:
        words = (report.verdict_words(found[start]), report.why_words(found[start]))
        counts = [report.count_words(before.own(found, start, tier)) for tier in tiers]
        lines.append([report.time_words(found[start]), *counts, ": ".join(word for word in words if word)])
    widths = [max(len(line[at]) for line in lines) for at in range(len(tiers) + 1)]
    return ["  ".join([line[0].ljust(widths[0]), *_right(line[1:-1], widths[1:]), line[-1]]) for line in lines]


def _right(words: list[str], widths: list[int]) -> list[str]:
    return [word.rjust(width) for word, width in zip(words, widths, strict=True)]
