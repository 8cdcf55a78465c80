"""What of the books and of the warehouse is one demo's own, though earlier ones wrote to the same topic and the same windows.

Of a window that was there before, the part of before is what the live log held then: every tier ends with those records, and some
may reach the warehouse only now, when an earlier demo was cut short. Rows are told apart by their place in the log.
"""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ...audit.service.web import report
from ...client.connection.cluster import Cluster
from ...client.errors import UnknownTopic
from ...client.fetch.fetched import TopicPartition
from ...client.fetch.log_offsets import LATEST, log_offsets
from ...runtime.layout import Layout
from .. import audit_queries

Windows = Mapping[int, Mapping[str, Any]]
"""By `window_start_ms`, as `GET /api/completeness` gives them."""
SETTLED_MS = 10_000
EVERY_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """The topic as a demo finds it."""

    windows: Windows
    log_ends: Mapping[int, int]
    """By partition, of the live cluster; empty where there was no topic."""

    def own(self, found: Windows, start: int, tier: str) -> int | None:
        """Return how many records of the window are of after, in that tier; None where the tier has not reported."""
        count: int | None = found[start]["tiers"].get(tier) if start in found else None
        if count is None:
            return None
        earlier: int | None = self.windows[start]["tiers"].get("live") if start in self.windows else 0
        return max(0, count - (earlier or 0))

    def total(self, found: Windows, starts: Collection[int], tier: str) -> int:
        """Return `own` over these windows; one that has not been reported adds nothing."""
        return sum(self.own(found, start, tier) or 0 for start in starts)

    def shared(self, starts: Collection[int]) -> int:
        """Return how many of these windows hold earlier records, too."""
        return sum(1 for start in starts if start in self.windows and self.windows[start]["tiers"].get("live"))

    def rows_since(self) -> str:
        """Return the SQL condition that holds of the rows of after, '' where there were none before."""
        if not any(self.log_ends.values()):
            return ""
        since = " OR ".join(f"(_partition = {number} AND _offset >= {end})" for number, end in sorted(self.log_ends.items()))
        known = ", ".join(str(number) for number in sorted(self.log_ends))
        return f"WHERE ({since} OR _partition NOT IN ({known}))"


def look(layout: Layout, topic: str) -> Before:
    """Return the topic as it is now, its books once they stand still: an earlier demo's last events may still be counted."""
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
    """Return one line a window of this demo, under a heading: its own records in every tier, and the verdict on the window."""
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
