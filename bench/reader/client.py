"""One client of `bench.reader`, in a process of its own: `python -m bench.reader.client '{"client": …, …}'`."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class PageView:
    """The class that both read into."""

    client_ip: str
    method: str
    path: str
    status: int
    size_bytes: int | None
    referrer: str | None
    user_agent: str | None
    duration_ms: float


class Meter:
    """Counts records, and calls `at_end` at the last one."""

    def __init__(self, count: int, at_end: Callable[[], object]) -> None:
        self._left, self._at_end = count, at_end
        self._count = count
        self._began: float | None = None
        self.cpu_s = 0.0

    def take(self, event: Any) -> None:
        if self._began is None:
            self._began = time.process_time()
        if not isinstance(event, PageView):
            raise SystemExit(f"{event!r} is not a PageView")
        self._left -= 1
        if not self._left:
            self.cpu_s = time.process_time() - self._began
            self._at_end()


def headrace(words: dict[str, Any]) -> float:
    from headrace.reader import EventReader

    reader = EventReader(
        words["topic"],
        PageView,
        group=words["group"],
        bootstrap=words["bootstrap"],
        registry_url=words["registry_url"],
        schema_cache=None,
        audit=words["audit"],
    )
    meter = Meter(words["count"], reader.stop)
    take = meter.take
    if profile := words.get("profile"):
        import cProfile

        profiler = cProfile.Profile()
        profiler.runcall(reader.run, lambda record: take(record.event))
        profiler.dump_stats(profile)
    else:
        reader.run(lambda record: take(record.event))
    return meter.cpu_s


def confluent(words: dict[str, Any]) -> float:
    from confluent_kafka import Consumer
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    fields = tuple(PageView.__annotations__)

    def page_view(event: dict[str, Any], _: SerializationContext) -> PageView:
        return PageView(**{name: event[name] for name in fields})

    deserialize = AvroDeserializer(SchemaRegistryClient({"url": words["registry_url"]}), from_dict=page_view)
    consumer = Consumer(
        {
            "bootstrap.servers": words["bootstrap"],
            "group.id": words["group"],
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1_000,
        }
    )
    consumer.subscribe([words["topic"]])
    is_over: list[bool] = []
    meter = Meter(words["count"], lambda: is_over.append(True))
    while not is_over:
        for message in consumer.consume(1_000, timeout=1.0):
            if message.error() is None:
                meter.take(deserialize(message.value(), SerializationContext(words["topic"], MessageField.VALUE)))
    consumer.close()
    return meter.cpu_s


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps({"cpu_s": {"headrace": headrace, "confluent": confluent}[given["client"]](given)}))
