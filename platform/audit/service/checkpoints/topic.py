"""The checkpoint topic of the live cluster, and the audit topic, where checkpoints shorten it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from ....client.admin import CLUSTERS_OWN, create_topic
from ....client.connection.cluster import Cluster
from ....client.errors import UnknownTopic
from ....client.fetch.fetched import TopicPartition
from ....client.fetch.log_offsets import log_range
from ....client.fetch.read_range import read_range
from ....client.groups import group_admin
from ....client.producer.producer import Producer
from ....client.record_deletion import delete_records
from ....runtime.clock import Clock
from ....runtime.layout import AUDIT_CHECKPOINT_TOPIC, AUDIT_TOPIC
from ....runtime.logs import get_logger
from ....wire.batch.record_batch import iter_records
from ....wire.errors import WireError
from ..hearing.other_audits import Position

log = get_logger(__name__)

CONFIG = {"retention.ms": "-1", "flush.messages": "1"}
"""Only who knows a later whole checkpoint deletes one. What is read back is on disk, before the audit topic is shortened."""
GROUP = "_headrace.audit."
"""Begins the name of the group, without members, under which an audit commits its position in the audit topic. Its store's id
follows.
"""
_PLACE = TopicPartition(AUDIT_CHECKPOINT_TOPIC, 0)
_FLUSH_MS = 60_000
_BUFFER_BYTES = 4 << 20


class CheckpointLog(Protocol):
    """What checkpoints need of the cluster."""

    def append(self, values: Iterable[bytes]) -> None:
        """Return once all values stand on the checkpoint topic, in order. Raises ClientError."""

    def read(self, from_offset: int = 0) -> Iterator[tuple[int, bytes | None]]:
        """Yield (offset, value) of what the checkpoint topic holds from there on now. Raises ClientError."""

    def trim(self, audit: Mapping[int, int], checkpoints_before: int) -> None:
        """Delete the audit topic before these offsets, then the checkpoint topic before that one. Raises ClientError."""

    def note_position(self, position: Position) -> None:
        """Tell other audits of this cluster how far one has read the audit topic. Raises ClientError."""

    def positions(self) -> list[Position]:
        """Return how far each audit of this cluster had read the audit topic when it was last seen. Raises ClientError."""


class ClusterCheckpoints:
    """`CheckpointLog` of a cluster."""

    def __init__(self, bootstrap: str, clock: Clock) -> None:
        self._cluster = Cluster(bootstrap, client_id="headrace-audit-checkpoints")
        self._clock = clock

    def close(self) -> None:
        self._cluster.close()

    def append(self, values: Iterable[bytes]) -> None:
        try:
            self._cluster.partitions(AUDIT_CHECKPOINT_TOPIC)
        except UnknownTopic:
            create_topic(self._cluster, AUDIT_CHECKPOINT_TOPIC, 1, CONFIG, replication_factor=CLUSTERS_OWN, timeout_ms=10_000)
        producer = Producer(self._cluster, buffer_bytes=_BUFFER_BYTES, delivery_timeout_ms=_FLUSH_MS)
        try:
            for value in values:
                producer.send(AUDIT_CHECKPOINT_TOPIC, value, partition=0, timestamp_ms=self._clock.now_ms())
            producer.flush(_FLUSH_MS)
        finally:
            producer.close(0)

    def read(self, from_offset: int = 0) -> Iterator[tuple[int, bytes | None]]:
        try:
            start, end = log_range(self._cluster, _PLACE)
        except UnknownTopic:
            return
        begin = max(start, from_offset)
        batches = read_range(
            self._cluster, *_PLACE, begin, end,
            on_corrupt=lambda bad: log.error(
                "checkpoints_unreadable", from_offset=bad.from_offset, to_offset=bad.to_offset, reason=bad.reason
            ),
        )  # fmt: skip
        for header, batch in batches:
            if header.is_control:
                continue
            try:
                records = list(iter_records(batch))
            except WireError as error:
                log.error("checkpoints_unreadable", from_offset=header.base_offset, reason=str(error))
                continue
            for one in records:
                if one.offset >= begin:
                    yield one.offset, None if one.value is None else bytes(one.value)

    def note_position(self, position: Position) -> None:
        offsets = {TopicPartition(AUDIT_TOPIC, partition): offset for partition, offset in position.audit.items()}
        group_admin.commit(self._cluster, f"{GROUP}{position.store}", offsets, str(position.at_ms))

    def positions(self) -> list[Position]:
        found = []
        for name in group_admin.list_groups(self._cluster):
            if not name.startswith(GROUP):
                continue
            committed = group_admin.committed_with_words(self._cluster, name)
            audit = {at.partition: offset for at, (offset, _) in committed.items() if at.topic == AUDIT_TOPIC}
            seen = [int(words) for _, words in committed.values() if words.isdigit()]
            found.append(Position(name.removeprefix(GROUP), max(seen, default=0), audit))
        return found

    def trim(self, audit: Mapping[int, int], checkpoints_before: int) -> None:
        delete_records(self._cluster, {TopicPartition(AUDIT_TOPIC, partition): offset for partition, offset in audit.items()})
        delete_records(self._cluster, {_PLACE: checkpoints_before})
