"""What the schemas topic says by another client's reading (librdkafka), with the fencing rule written a second time."""

import json
from dataclasses import dataclass, field

from confluent_kafka import Consumer, TopicPartition


@dataclass(slots=True)
class TopicSays:
    """What is in the topic, once records behind a newer leader's epoch are left out."""

    meanings: dict[int, set[str]] = field(default_factory=dict)
    """Id → every text that was written for it."""
    versions: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    """Subject and version → every id."""
    epochs: list[int] = field(default_factory=list)
    fenced: int = 0


def read_topic(bootstrap: str, topic: str) -> TopicSays:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "oracle", "enable.auto.commit": False})
    said = TopicSays()
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
        consumer.assign([TopicPartition(topic, 0, 0)])
        highest, position = -1, 0
        while position < end:
            message = consumer.poll(10)
            assert message is not None, f"nothing at {position} of {end}"
            assert message.error() is None, message.error()
            position = message.offset() + 1
            stamp = dict(message.headers() or []).get("headrace.epoch")
            if stamp is not None and int(stamp) < highest:
                said.fenced += 1
                continue
            if stamp is not None and int(stamp) > highest:
                highest = int(stamp)
                said.epochs.append(highest)
            key = json.loads(message.key())
            if key["keytype"] == "SCHEMA" and message.value() is not None:
                value = json.loads(message.value())
                said.meanings.setdefault(value["id"], set()).add(value["schema"])
                said.versions.setdefault((value["subject"], value["version"]), set()).add(value["id"])
    finally:
        consumer.close()
    return said
