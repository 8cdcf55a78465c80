"""Topics with real events for the faults, and what confluent-kafka finds in them: the truth that the audit is held to."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.local.drills.batch_damage import StoredBatch, stored_batches
from headrace.local.drills.expected import Expected, unlike
from headrace.sdk import ACCESS_LOG_SCHEMA, EventLogger
from tests.support.platform import Platform
from tests.support.processes import eventually

W = 600_000
SWAPPED, EXPIRED_EARLY = WITH_WAREHOUSE = ("swapped", "expired_early")
"""The topics of which the warehouse is expected."""
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
        hour_ms = time.time_ns() // 1_000_000 // 3_600_000 * 3_600_000 - 7_200_000
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

    # -- the files

    def batches(self, broker: str) -> list[StoredBatch]:
        """Return the batches in the files of `broker-live` or `broker-offline`."""
        return stored_batches(self.platform.layout.home / broker, self.name)

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

    def await_told(self, what: str, expected: Expected, since: float, *, within_s: float = WITHIN_S) -> None:
        """Wait until the audit tells exactly what is expected; fail if that is later than `within_s` after `since`."""

        def told() -> bool:
            faults = unlike(expected, self.platform.windows(self.name))
            assert not faults, faults
            return True

        eventually(told, within_ms=int(within_s * 1000), every_ms=100, what=f"{what} told: {expected.in_words()}")
        TOLD[what] = time.monotonic() - since
        assert TOLD[what] <= within_s, f"{what} was told after {TOLD[what]:.1f} s"


def path_of(number: int) -> str:
    return f"/fault/{number:06}"


def in_window(records: Sequence[Record], start: int) -> list[int]:
    """Return the offsets of the records whose time is in the window."""
    return [one.offset for one in records if start <= one.timestamp_ms < start + W]
