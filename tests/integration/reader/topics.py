"""Topics with numbered events, written by librdkafka and fastavro alone, and what librdkafka finds in any topic."""

import io
import json
import uuid
from collections.abc import Iterable

import confluent_kafka
import fastavro
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.reader import EventReader
from tests.support.librdkafka import read_all
from tests.support.live_side import LiveSide
from tests.support.processes import eventually

START_MS = 1_790_000_400_000
W = 600_000
SCHEMA = {"type": "record", "name": "Click", "fields": [{"name": "number", "type": "int"}]}


def make_topic(live: LiveSide, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": live.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(20)


class Topic:
    """A topic of its own for one test."""

    def __init__(self, live: LiveSide, partitions: int = 2) -> None:
        self.live, self.partitions = live, partitions
        self.name = f"read-{uuid.uuid4().hex[:8]}"
        self.group = f"group-{self.name}"
        self._schema_id = live.registry.register(f"{self.name}-value", SCHEMA)[1]["id"]
        self._producer = confluent_kafka.Producer({"bootstrap.servers": live.bootstrap, "linger.ms": 5})
        make_topic(live, self.name, partitions)

    def send(self, numbers: Iterable[int], *, window: int = 0) -> "Topic":
        for number in numbers:
            out = io.BytesIO()
            fastavro.schemaless_writer(out, SCHEMA, {"number": number})
            value = b"\0" + self._schema_id.to_bytes(4, "big") + out.getvalue()
            at_ms = START_MS + window * W + number % W
            self._producer.produce(self.name, value, f"k{number}", number % self.partitions, timestamp=at_ms)
            self._producer.poll(0)
        assert self._producer.flush(30) == 0
        return self

    def poison(self, value: bytes, partition: int = 0) -> "Topic":
        self._producer.produce(self.name, value, None, partition, timestamp=START_MS)
        assert self._producer.flush(30) == 0
        return self

    def make_anew(self) -> None:
        """Delete the topic and make another one of its name."""
        admin = AdminClient({"bootstrap.servers": self.live.bootstrap})
        admin.delete_topics([self.name])[self.name].result(20)
        eventually(lambda: self.name not in admin.list_topics(timeout=10).topics, what="the topic gone")
        admin.create_topics([NewTopic(self.name, self.partitions, 1)])[self.name].result(20)
        self._producer = confluent_kafka.Producer({"bootstrap.servers": self.live.bootstrap, "linger.ms": 5})

    def reader(self, **settings: object) -> EventReader[object]:
        return EventReader(
            self.name,
            group=self.group,
            bootstrap=self.live.bootstrap,
            registry_url=self.live.registry_url,
            schema_cache=None,
            # A busy machine is not to be taken for a dead member.
            **{"flush_every_ms": 200, "session_timeout_ms": 10_000, **settings},  # type: ignore[arg-type]
        )

    def quarantined(self) -> list[tuple[int, int, str]]:
        """Return (partition, offset, code) of each record in the quarantine."""
        found = [json.loads(one.value()) for one in read_all(self.live.bootstrap, f"{self.name}.quarantine")]
        return sorted((one["origin"]["partition"], one["origin"]["offset"], one["code"]) for one in found)

    def committed(self) -> dict[int, int]:
        """Return partition → the group's offset."""
        admin = AdminClient({"bootstrap.servers": self.live.bootstrap})
        names = [TopicPartition(self.name, partition) for partition in range(self.partitions)]
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.group, names)])
        found = next(iter(asked.values())).result(20).topic_partitions
        return {one.partition: one.offset for one in found if one.offset >= 0}

    def ends(self) -> dict[int, int]:
        """Return partition → where its log ends."""
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.live.bootstrap, "group.id": "ends"})
        try:
            return {
                one: consumer.get_watermark_offsets(TopicPartition(self.name, one), timeout=10)[1]
                for one in range(self.partitions)
            }
        finally:
            consumer.close()
