"""Counts what is wrong with the cluster's partitions, from the catalog. The catalog is immutable, so any thread may do it."""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from ..partitions.catalog import Catalog, TopicEntry
from ..partitions.placement import NO_LEADER, placement
from ..settings import topic_settings


class ReplicationCounts(NamedTuple):
    """One reading."""

    leaders: int
    """Partitions that this broker leads. The next two are among them."""
    under_replicated: int
    under_min_insync: int
    offline: int
    """Partitions of the whole cluster that no live broker leads."""
    led_elsewhere: int
    """Partitions of the whole cluster that another broker leads than the preferred one."""
    leader_changes: int
    """Leader epochs that began in the whole cluster since this broker looked first."""


class ReplicationReader:
    """Made once, called on one thread. Leader changes are counted by the epochs, so none is missed between two readings."""

    def __init__(self, catalog: Callable[[], Catalog], broker_id: int, defaults: Mapping[str, str]) -> None:
        """`defaults`: the broker's defaults of topic settings."""
        self._catalog = catalog
        self._broker_id = broker_id
        self._defaults = defaults
        self._seen: Catalog | None = None
        self._leader_changes = 0

    def read(self) -> ReplicationCounts:
        """Return the counts as they are now."""
        catalog = self._catalog()
        if self._seen is not None and self._seen is not catalog:
            self._leader_changes += _epochs_begun(self._seen, catalog)
        self._seen = catalog
        counts = counted(catalog, {self._broker_id, *catalog.brokers}, self._broker_id, self._defaults)
        return counts._replace(leader_changes=self._leader_changes)


def counted(catalog: Catalog, live: Collection[int], broker_id: int, defaults: Mapping[str, str]) -> ReplicationCounts:
    """Return the counts without the changes of leaders. Pure."""
    leaders = under_replicated = under_min = offline = led_elsewhere = 0
    for entry in catalog.topics.values():
        for index in entry.partitions:
            placed = placement(entry, index, live)
            if placed is None:
                continue
            offline += placed.leader == NO_LEADER
            led_elsewhere += placed.is_led_elsewhere
            if placed.leader == broker_id:
                leaders += 1
                under_replicated += placed.is_under_replicated
                if placed.is_under_replicated:
                    under_min += len(placed.in_sync) < _min_insync(entry, len(placed.replicas), defaults)
    return ReplicationCounts(leaders, under_replicated, under_min, offline, led_elsewhere, 0)


def _min_insync(entry: TopicEntry, replica_count: int, defaults: Mapping[str, str]) -> int:
    return topic_settings.min_insync(topic_settings.settings_of(entry.config, defaults).min_insync_replicas, replica_count)


def _epochs_begun(before: Catalog, after: Catalog) -> int:
    begun = 0
    for name, entry in after.topics.items():
        known = before.topics.get(name)
        if known is entry or known is None or known.topic_id != entry.topic_id:
            continue
        for index, state in entry.states.items():
            if (old := known.states.get(index)) is not None:
                begun += max(0, state.leader_epoch - old.leader_epoch)
    return begun
