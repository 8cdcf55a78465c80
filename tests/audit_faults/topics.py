"""Topics with real events for the faults, and what confluent-kafka finds in them: the truth that the audit is held to."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.local.drills.batch_damage import StoredBatch, stored_batches
from headrace.sdk import ACCESS_LOG_SCHEMA, EventLogger
from tests.support.platform import Platform
from tests.support.processes import eventually

W = 600_000
HOUR_MS = 3_600_000
TOLD: dict[str, float] = {}
"""Fault → seconds from the moment when every word was in until the audit told it."""
WITHIN_S = 60


class Record(NamedTuple):
    """One record as confluent-kafka reads it."""

    partition: int
    offset: int
    timestamp_ms: int
    value: bytes


class Topic:
    """One topic and its windows, all in an hour that is over."""

    def __init__(self, platform: Platform, name: str, *, windows: int = 3) -> None:
        self.platform = platform
        self.name = name
        hour_ms = time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS - 2 * HOUR_MS
        self.windows = tuple(hour_ms + number * W for number in range(windows))

    def make(self, partitions: int = 1) -> "Topic":
        admin = AdminClient({"bootstrap.servers": self.platform.layout.live_bootstrap})
        admin.create_topics([NewTopic(self.name, partitions, 1)])[self.name].result(30)
        return self

    def delete(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.platform.layout.live_bootstrap})
        admin.delete_topics([self.name])[self.name].result(30)
        eventually(lambda: self.name not in self.platform.topics(self.platform.layout.live_bootstrap), what="topic deleted")

    def delete_copy(self) -> None:
        """Delete the offline topic; the mirror may make it again at once."""
        admin = AdminClient({"bootstrap.servers": self.platform.layout.offline_bootstrap})
        admin.delete_topics([self.name])[self.name].result(30)

    def logger(self, **settings: object) -> EventLogger:
        """Return an application's logger; it seals when it is closed."""
        layout = self.platform.layout
        return EventLogger(
            self.name,
            ACCESS_LOG_SCHEMA,
            bootstrap=layout.live_bootstrap,
            registry_url=layout.registry_url,
            application="faults",
            lateness_ms=None,
            linger_ms=1_000,
            start_timeout_ms=30_000,
            **settings,  # type: ignore[arg-type]
        )

    def log(self, count: int, *, batch: int = 1) -> "Topic":
        """Log `count` events in each window, in batches of this many, and seal."""
        with self.logger() as logger:
            for start in self.windows:
                self.log_window(logger, start, count, batch=batch)
        return self

    def log_at(self, times_ms: Sequence[int], **settings: object) -> Counter[int]:
        """Log one event at each time, and seal; return how many belong in each window."""
        with self.logger(**settings) as logger:
            for at_ms in times_ms:
                assert logger.log({"client_ip": "127.0.0.1", "method": "GET", "path": "/", "status": 200}, event_time_ms=at_ms)
        return Counter(at_ms - at_ms % W for at_ms in times_ms)

    def log_window(self, logger: EventLogger, start: int, count: int, *, batch: int = 1) -> None:
        for number in range(count):
            event = {"client_ip": "127.0.0.1", "method": "GET", "path": path_of(number), "status": 200}
            assert logger.log(event, event_time_ms=start + number)
            if (number + 1) % batch == 0:
                logger.flush()
        logger.flush()

    # -- the truth

    def records(self, bootstrap: str) -> list[Record]:
        """Return every record of the topic, by partition and offset."""
        settings = {"bootstrap.servers": bootstrap, "group.id": "truth", "auto.offset.reset": "earliest"}
        consumer = Consumer({**settings, "enable.partition.eof": True, "check.crcs": True, "enable.auto.commit": False})
        partitions = set(consumer.list_topics(self.name, timeout=10).topics[self.name].partitions)
        consumer.assign([TopicPartition(self.name, partition, 0) for partition in partitions])
        found: list[Record] = []
        while partitions:
            message = consumer.poll(30)
            assert message is not None, f"nothing came from partitions {partitions} of {self.name}"
            if message.error() is None:
                found.append(Record(message.partition(), message.offset(), message.timestamp()[1], message.value()))
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                partitions.discard(message.partition())
        consumer.close()
        return sorted(found)

    def live(self) -> list[Record]:
        return self.records(self.platform.layout.live_bootstrap)

    def offline(self) -> list[Record]:
        return self.records(self.platform.layout.offline_bootstrap)

    def copied_as(self) -> tuple[set[int], set[int], set[int]]:
        """Return the offsets that are only on live, those that are only offline, and those with other records on either side."""
        live, offline = ({one.offset: one for one in side} for side in (self.live(), self.offline()))
        both = live.keys() & offline.keys()
        return set(live) - both, set(offline) - both, {offset for offset in both if live[offset] != offline[offset]}

    # -- the files

    def batches(self, broker: str) -> list[StoredBatch]:
        """Return the batches in the files of `broker-live` or `broker-offline`."""
        return stored_batches(self.platform.layout.home / broker, self.name)

    def batch(self, broker: str, offset: int) -> StoredBatch:
        """Return the batch that begins at the offset, as it stands in the files now."""
        return next(one for one in self.batches(broker) if one.base_offset == offset)

    def sequences(self) -> dict[int, int]:
        """Return offset → the producer's sequence number, by the live log's files."""
        stored = self.batches("broker-live")
        return {one.base_offset + at: one.base_sequence + at for one in stored for at in range(one.record_count)}

    # -- what the audit says

    def await_mirrored(self) -> "Topic":
        """Return when every window has as many records offline as there are in the live log."""
        counts = {start: sum(start <= one.timestamp_ms < start + W for one in self.live()) for start in self.windows}

        def is_level() -> bool:
            found = self.platform.windows(self.name)
            seen = {start: {found[start]["tiers"].get(tier) for tier in ("live", "mirror", "offline")} for start in found}
            assert seen == {start: {count} for start, count in counts.items()}, found
            return True

        eventually(is_level, within_ms=60_000, every_ms=200, what=f"{self.name} mirrored")
        return self


def path_of(number: int) -> str:
    return f"/fault/{number:06}"


def in_window(records: Sequence[Record], start: int) -> list[int]:
    """Return the offsets of the records whose time is in the window."""
    return [one.offset for one in records if start <= one.timestamp_ms < start + W]
