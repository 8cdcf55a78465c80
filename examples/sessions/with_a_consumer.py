"""Sessions by user with a plain consumer: confluent-kafka and fastavro. Closed sessions as JSON lines."""

import argparse
import io
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka import Consumer, KafkaError, KafkaException

GAP_MS, WATERMARK_MS = 30 * 60_000, 10 * 60_000


class Visits:
    """A topic's events, as far as the topic holds them now: (time in ms, user)."""

    def __init__(self, bootstrap: str, registry: str, topic: str) -> None:
        self._bootstrap, self._registry, self._topic = bootstrap, registry, topic
        self._schemas: dict[int, Any] = {}

    def __iter__(self) -> Iterator[tuple[int, str]]:
        settings = {"bootstrap.servers": self._bootstrap, "group.id": "sessions", "enable.auto.commit": False}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.partition.eof": True})
        try:
            consumer.subscribe([self._topic])
            partitions = len(consumer.list_topics(self._topic, 30).topics[self._topic].partitions)
            ended = set[int]()
            while len(ended) < partitions:
                message = consumer.poll(1.0)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    yield message.timestamp()[1], str(self._event(message.value())["user"])
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    raise KafkaException(error)
        finally:
            consumer.close()

    def _event(self, framed: bytes) -> Any:
        """Decode a body behind Confluent's envelope: a zero byte and four bytes of the schema's id."""
        schema_id = int.from_bytes(framed[1:5], "big")
        if schema_id not in self._schemas:
            with urllib.request.urlopen(f"{self._registry}/schemas/ids/{schema_id}", timeout=30) as answer:
                self._schemas[schema_id] = fastavro.parse_schema(json.loads(json.load(answer)["schema"]))
        return fastavro.schemaless_reader(io.BytesIO(framed[5:]), self._schemas[schema_id], None)


def sessions(visits: list[tuple[int, str]]) -> Iterator[dict[str, object]]:
    """Yield each session that can no longer grow: its end is older than the youngest visit by the watermark."""
    if not visits:
        return
    closed_before_ms = max(at_ms for at_ms, _ in visits) - WATERMARK_MS
    running: dict[str, list[int]] = {}  # user → start, last visit, visits
    found: list[tuple[str, int, int, int]] = []
    for at_ms, user in sorted(visits):
        mine = running.get(user)
        if mine is None or at_ms > mine[1] + GAP_MS:
            if mine is not None:
                found.append((user, mine[0], mine[1] + GAP_MS, mine[2]))
            running[user] = [at_ms, at_ms, 1]
        else:
            mine[1], mine[2] = at_ms, mine[2] + 1
    found += [(user, start, last + GAP_MS, count) for user, (start, last, count) in running.items()]
    for user, start_ms, end_ms, count in sorted(found):
        if end_ms <= closed_before_ms:
            yield {"user": user, "start_ms": start_ms, "end_ms": end_ms, "visits": count}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "registry", "topic", "out"):
        parser.add_argument(f"--{name}", required=True)
    words = parser.parse_args()
    with Path(words.out).open("w") as out:
        for one in sessions(list(Visits(words.bootstrap, words.registry, words.topic))):
            out.write(json.dumps(one) + "\n")


if __name__ == "__main__":
    main()
