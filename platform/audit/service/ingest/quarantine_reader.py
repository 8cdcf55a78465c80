"""Reads the quarantine topics of the live cluster back, as the tier `quarantine` of the topics that they belong to."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from ....client.connection.control_plane import Listing
from ....client.fetch.fetched import TopicPartition
from ....client.fetch.log_offsets import EARLIEST, log_offsets
from ....runtime.clock import Clock
from ....runtime.layout import QUARANTINE_SUFFIX
from ...model.tier_reports import LogKey
from ...model.tiers import QUARANTINE
from ..settings import AuditSettings
from ..store.chunks import Chunk
from ..store.ledger import Ledger
from ..store.log_books import LogRead
from ..store.open_books import is_audited
from .reader import LogReader


class QuarantineBooks:
    """The ledger as a reader of quarantine topics sees it: each by its own name, where the books have the topic's."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @property
    def settings(self) -> AuditSettings:
        return self._ledger.books.settings

    def positions(self, tier: str, names: Iterable[TopicPartition] | None = None) -> tuple[int, Mapping[TopicPartition, int]]:
        generation, positions = self._ledger.logs.positions(tier, None if names is None else map(_topic, names))
        return generation, {_quarantine(name): at for name, at in positions.items()}

    def take_reads(
        self,
        tier: str,
        generation: int,
        reads: Iterable[LogRead],
        caught_up: Mapping[TopicPartition, int],
        *,
        behind: Collection[TopicPartition] = (),
        level_ms: int | None = None,
    ) -> bool:
        ended = {_topic(name): asked_ms for name, asked_ms in caught_up.items()}
        left = {_topic(name) for name in behind}
        return self._ledger.logs.take_reads(tier, generation, map(_read, reads), ended, behind=left, level_ms=level_ms)

    def take_scan(self, tier: str, generation: int, reads: Iterable[LogRead]) -> bool:
        return self._ledger.logs.take_scan(tier, generation, map(_read, reads))

    def chunks(self, key: LogKey) -> list[Chunk]:
        return self._ledger.logs.chunks(key._replace(topic=key.topic.removesuffix(QUARANTINE_SUFFIX)))

    def recount(self, tier: str, topic: str, log_starts: Mapping[int, int]) -> None:
        self._ledger.logs.recount(tier, topic.removesuffix(QUARANTINE_SUFFIX), log_starts)

    def log_shrank(self, tier: str, name: TopicPartition, log_start: int) -> None:
        self._ledger.logs.log_shrank(tier, _topic(name), log_start)


class QuarantineReader(LogReader):
    """The thread that reads the quarantine topics."""

    def __init__(self, live: str, ledger: Ledger, clock: Clock, *, fetch_wait_ms: int = 500) -> None:
        super().__init__(QUARANTINE, live, ledger, clock, fetch_wait_ms=fetch_wait_ms, books=QuarantineBooks(ledger))
        self._starts: dict[TopicPartition, int] = {}
        ledger.logs.await_quarantines()

    def _take_topics(self, listing: Listing, asked_ms: int) -> list[str]:
        """Note which quarantine topics there are; return them."""
        ids = listing.ids
        names = [topic for topic in listing.partitions if topic.endswith(QUARANTINE_SUFFIX) and is_audited(_audited(topic))]
        self._ledger.logs.see_topic_ids(QUARANTINE, {_audited(name): ids[name] for name in names if name in ids}, asked_ms)
        self._ledger.logs.see_quarantines({topic: ids.get(topic, "") for topic in listing.partitions}, asked_ms)
        return names

    def _same_topics(self, asked_ms: int) -> None:
        self._ledger.logs.see_quarantines({}, asked_ms)

    def _discover(self) -> bool:
        """Note, too, where the quarantine topics begin now."""
        if not super()._discover():
            return False
        starts = log_offsets(self._cluster, dict.fromkeys(self._known, EARLIEST)) if self._known else {}
        later = {_topic(name): start for name, start in starts.items() if start != self._starts.get(name, 0)}
        self._ledger.logs.quarantine_begins(later)
        self._starts = dict(starts)
        return True


def _audited(name: str) -> str:
    return name.removesuffix(QUARANTINE_SUFFIX)


def _topic(name: TopicPartition) -> TopicPartition:
    return name._replace(topic=_audited(name.topic))


def _quarantine(name: TopicPartition) -> TopicPartition:
    return name._replace(topic=name.topic + QUARANTINE_SUFFIX)


def _read(read: LogRead) -> LogRead:
    """Return what was read, under the name of the topic that it is the quarantine of."""
    found = replace(read.found, topic=_audited(read.found.topic))
    return replace(read, found=found, unreadable=tuple(replace(one, topic=found.topic) for one in read.unreadable))
