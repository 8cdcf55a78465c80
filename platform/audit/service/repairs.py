"""Which ranges of the logs were repaired from another replica, and how many records of a window lie in them. Changes no verdict.

The brokers of a tier are asked once a minute (DescribeDamage). They remember until they restart, and this process until it ends.
"""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import NamedTuple

from ...client.connection.cluster import Cluster
from ...client.damage import damage
from ...client.errors import BrokerError, ClientError
from ...runtime.clock import Clock
from ...runtime.lifecycle import StopSignal
from ...runtime.logs import get_logger
from ...wire.errors import ErrorCode
from ...wire.messages.describe_damage import Kind, Row
from ..model.books import TopicBook
from ..model.packed_rows import common, joined

log = get_logger(__name__)

MOST_RANGES = 10_000
"""Of one tier; those repaired longest ago are forgotten first."""
ASK_EVERY_MS = 60_000
REFUSED_MS = 600_000
"""How long brokers that refuse to answer this client are not asked again."""
REQUEST_MS = 10_000
LOOK_EVERY_MS = 1_000


class Repaired(NamedTuple):
    """A range of one log, half-open."""

    partition: int
    from_offset: int
    to_offset: int


class Repairs:
    """What is known. Any thread may ask; one thread takes."""

    def __init__(self) -> None:
        self._tiers: Mapping[str, Mapping[str, Mapping[Repaired, int]]] = {}
        """Tier → topic → range → when it was repaired, by the broker's clock. Replaced whole."""

    def take(self, tier: str, rows: Iterable[Row]) -> int:
        """Note what brokers of the tier repaired; return how many ranges were not known."""
        known = {(topic, one): at_ms for topic, mine in self._tiers.get(tier, {}).items() for one, at_ms in mine.items()}
        new = 0
        for row in rows:
            if row.kind is Kind.REPAIRED:
                key = row.topic, Repaired(row.partition, row.from_offset, row.to_offset)
                new += key not in known
                known[key] = max(row.at_ms, known.get(key, 0))
        topics: dict[str, dict[Repaired, int]] = {}
        for (topic, one), at_ms in sorted(known.items(), key=itemgetter(1))[-MOST_RANGES:]:
            topics.setdefault(topic, {})[one] = at_ms
        self._tiers = {**self._tiers, tier: topics}
        return new

    def is_known(self, topic: str) -> bool:
        """Return whether a range of the topic was repaired in any tier."""
        return any(topic in topics for topics in self._tiers.values())

    def of(self, topic: str, book: TopicBook, starts: Iterable[int], since_ms: int = 0) -> dict[int, dict[str, int]]:
        """Return window → tier → how many of its records lie in ranges that were repaired at `since_ms` or later. Windows
        without such records are left out.
        """
        ranges = {
            tier: _by_partition(one for one, at_ms in topics[topic].items() if at_ms >= since_ms)
            for tier, topics in self._tiers.items()
            if topic in topics
        }
        found: dict[int, dict[str, int]] = {}
        for start in starts:
            window = book.windows.get(start)
            if window is None:
                continue
            counts: dict[str, int] = {}
            for tier, by_partition in ranges.items():
                for partition, repaired in by_partition.items():
                    entry = window.found.get(tier, {}).get(partition)
                    if entry is None or not entry.held:
                        continue
                    held = entry.held
                    low = bisect_right(repaired, held.first, key=itemgetter(1))
                    near = repaired[low : bisect_left(repaired, held.end, key=itemgetter(0))]
                    if near and (count := common(held, ((begin, end - begin) for begin, end in near))):
                        counts[tier] = counts.get(tier, 0) + count
            if counts:
                found[start] = counts
        return found


def _by_partition(ranges: Iterable[Repaired]) -> dict[int, list[tuple[int, int]]]:
    """Return partition → the fewest ranges, in order."""
    found: dict[int, list[tuple[int, int]]] = {}
    for one in ranges:
        found.setdefault(one.partition, []).append((one.from_offset, one.to_offset - one.from_offset))
    return {partition: joined(mine) for partition, mine in found.items()}


class RepairsAsking:
    """The thread that asks the brokers of each tier."""

    def __init__(self, bootstraps: Mapping[str, str], repairs: Repairs, clock: Clock) -> None:
        """`bootstraps`: tier → its cluster."""
        self._clusters = {
            tier: Cluster(bootstrap, client_id=f"headrace-audit-repairs-{tier}", request_timeout_ms=REQUEST_MS, clock=clock)
            for tier, bootstrap in bootstraps.items()
        }
        self._repairs = repairs
        self._clock = clock
        self._next_ms = dict.fromkeys(bootstraps, clock.monotonic_ms())
        self._stop = StopSignal()
        self._thread = threading.Thread(target=self._run, name="audit-repairs", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        for cluster in self._clusters.values():
            cluster.close()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def ask_once(self) -> None:
        """Ask the clusters whose time has come. What does not answer is asked again later: readers tell that it is away."""
        for tier, cluster in self._clusters.items():
            if self._clock.monotonic_ms() < self._next_ms[tier]:
                continue
            try:
                found, errors = damage(cluster, repaired_since_ms=0)
            except ClientError as error:
                found, errors = [], [error]
            new = self._repairs.take(tier, (one.row for one in found)) if found else 0
            if new:
                log.warning("ranges_were_repaired", tier=tier, ranges=new)
            pause_ms = REFUSED_MS if any(map(_is_refused, errors)) else ASK_EVERY_MS
            self._next_ms[tier] = self._clock.monotonic_ms() + pause_ms

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.ask_once()
            except Exception:
                log.error("repairs_not_asked", exc_info=True)
                self._stop.wait(ASK_EVERY_MS)
            self._stop.wait(LOOK_EVERY_MS)


def _is_refused(error: ClientError) -> bool:
    """Return whether a broker refused to answer because of its access rules."""
    return isinstance(error, BrokerError) and error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
