"""`EventReader` on Apache Kafka: two topics of two classes, threads, coroutines, a seek by time, and the lag in records."""

import asyncio
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import fastavro
import pytest

from headrace.reader import EventReader, EventRecord
from tests.kafka.copying import make_topic, send
from tests.support.kafka import KafkaProcess
from tests.support.registry import RegistryProcess

pytestmark = pytest.mark.whole

COUNT = 50


@dataclass
class Click:
    number: int


@dataclass
class Order:
    number: int


def _framed(schema_id: int, schema: dict[str, object], numbers: Iterable[int]) -> list[bytes]:
    framed = []
    for number in numbers:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema({**schema}), {"number": number})
        framed.append(b"\0" + schema_id.to_bytes(4, "big") + out.getvalue())
    return framed


def test_a_reader_of_two_topics_on_kafka(other_kafka: KafkaProcess, topic: str, tmp_path: Path) -> None:
    topics = {topic: Click, f"{topic}_orders": Order}
    with RegistryProcess(tmp_path / "registry", other_kafka.address, f"_schemas.{topic}") as registry:
        for name, one in topics.items():
            make_topic(other_kafka, name)
            schema: dict[str, object] = {"type": "record", "name": one.__name__, "fields": [{"name": "number", "type": "int"}]}
            send(other_kafka, name, _framed(registry.register(f"{name}-value", schema)[1]["id"], schema, range(COUNT)))

        def reader() -> EventReader[Click | Order]:
            return EventReader(topics, group=f"g-{topic}", bootstrap=other_kafka.address, registry_url=registry.url,
                               schema_cache=None)  # fmt: skip

        first, seen = reader(), list[EventRecord]()

        def handle(record: EventRecord) -> None:
            seen.append(record)
            if len(seen) == 2 * COUNT:
                first.stop()

        first.run(handle, threads=2)
        assert {(one.topic, type(one.event)) for one in seen} == {*topics.items()}
        assert sorted(one.event.number for one in seen) == sorted(2 * [*range(COUNT)])
        second, again = reader(), list[EventRecord]()

        async def score(record: EventRecord) -> None:
            again.append(record)
            if len(again) == COUNT:
                second.stop()

        async def main() -> None:
            task = asyncio.create_task(second.run_async(score, concurrency=4))
            while len(lag := await asyncio.to_thread(second.lag)) < len(topics):
                await asyncio.sleep(0.1)
            assert {one.records for one in lag.values()} == {0}, "nothing is left, and Kafka counts records"
            await asyncio.to_thread(second.seek_to_time, topic, 0)
            await task

        asyncio.run(asyncio.wait_for(main(), 60))
        assert [one.topic for one in again] == [topic] * COUNT
