"""Consumer groups for the attacks: one that reads with `EventReader`, and one that loses a record on its way."""

import threading
from collections.abc import Mapping, Sequence

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.audit.model.messages import Stretch
from headrace.audit.publisher import RangeReporter
from headrace.client.connection.cluster import Cluster
from headrace.client.producer.producer import Producer
from headrace.reader import EventReader
from tests.support.processes import eventually

from .topics import Topic, W


def group_of(topic: Topic) -> str:
    return f"group-of-{topic.name}"


def tier_of(topic: Topic) -> str:
    """The audit's name for the topic's group."""
    return f"consumer:{group_of(topic)}"


def begin_at(topic: Topic, group: str, offset: int) -> None:
    """Set the group back or forward; refused until its last member has left or its session is over."""
    admin = AdminClient({"bootstrap.servers": topic.platform.layout.live_bootstrap})

    def is_set() -> bool:
        word = ConsumerGroupTopicPartitions(group, [TopicPartition(topic.name, 0, offset)])
        (future,) = admin.alter_consumer_group_offsets([word]).values()
        try:
            return all(one.error is None for one in future.result(30).topic_partitions)
        except KafkaException:
            return False

    eventually(is_set, within_ms=60_000, every_ms=500, what=f"the group's offset set to {offset}")


def read(topic: Topic, expected: Sequence[int]) -> None:
    """Read with the topic's group, from where it stands, until it has handled just these offsets; then leave the group."""
    layout, handled = topic.platform.layout, list[int]()
    reader = EventReader[dict[str, object]](
        topic.name,
        group=group_of(topic),
        bootstrap=layout.live_bootstrap,
        registry_url=layout.registry_url,
        flush_every_ms=200,
    )
    thread = threading.Thread(target=reader.run, args=(lambda record: handled.append(record.offset),), daemon=True)
    thread.start()
    try:
        eventually(lambda: len(handled) >= len(expected), within_ms=60_000, what=f"{len(expected)} records handled")
    finally:
        reader.stop()
        thread.join(30)
    assert not thread.is_alive()
    assert handled == list(expected)


class _Positions:
    """Where the group has reported up to, in memory."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, int], int] = {}

    def read(self, tier: str, topic: str, partition: int) -> int | None:
        return self._known.get((tier, topic, partition))

    def write_many(self, tier: str, offsets: Mapping[tuple[str, int], int]) -> None:
        self._known |= {(tier, *name): offset for name, offset in offsets.items()}


def read_and_lose(topic: Topic, *, begins_at: int, lost: int) -> None:
    """Read the topic from an offset to its end as a service that reports for itself, and lose the record at `lost`."""
    layout = topic.platform.layout
    cluster = Cluster(layout.live_bootstrap)
    sender = Producer(cluster)
    try:
        reporter = RangeReporter(tier=tier_of(topic), instance="faulty", sender=sender, positions=_Positions())
        reporter.begin(topic.name, 0, begins_at)
        for one in topic.live():
            if one.offset >= begins_at:
                start = one.timestamp_ms - one.timestamp_ms % W
                held = {} if one.offset == lost else {start: [Stretch(one.offset, 1)]}
                reporter.add_records(topic.name, 0, one.offset + 1, held)
        assert reporter.publish() == 1
    finally:
        sender.close(0)
        cluster.close()
