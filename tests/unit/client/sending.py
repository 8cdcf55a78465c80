"""Short ways to send many small records."""

from headrace.client.producer.producer import Producer


def send(producer: Producer, values: list[bytes], topic: str = "clicks", *, at: int = 1_000) -> None:
    for value in values:
        producer.send(topic, value, timestamp_ms=at)


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]
