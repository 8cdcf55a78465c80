"""Reads as a member of a consumer group, through confluent-kafka, and commits."""

from confluent_kafka import Consumer

from tests.support.processes import eventually


def consume(address: str, topic: str, group: str, count: int) -> list[bytes]:
    """Read so many committed records as a member of the group, commit, leave."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    values: list[bytes] = []

    def read() -> bool:
        for message in consumer.consume(count - len(values), timeout=0.5):
            assert message.error() is None
            values.append(message.value())
        return len(values) == count

    try:
        eventually(read, within_ms=60_000, what=f"{count} records")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return values
