"""aiokafka, in its own environment. Run as a module with the bootstrap address."""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition

from .lines import Record, serve

T = TypeVar("T")


class _Consumer:
    def __init__(self, loop: asyncio.AbstractEventLoop, consumer: Any, topic: str) -> None:
        self._loop = loop
        self._consumer = consumer
        self._partition = TopicPartition(topic, 0)

    def _run(self, asked: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(asked)

    def poll(self) -> list[Record]:
        found = self._run(self._consumer.getmany(timeout_ms=100))
        return [Record(one.offset, one.value) for records in found.values() for one in records]

    def position(self) -> int:
        return int(self._run(self._consumer.position(self._partition)))

    def commit(self, offset: int) -> None:
        self._run(self._consumer.commit({self._partition: offset}))

    def committed(self) -> int:
        return int(self._run(self._consumer.committed(self._partition)))

    def lag(self) -> int | None:
        end = self._run(self._consumer.end_offsets([self._partition]))[self._partition]
        return int(end) - self.committed()

    def close(self) -> None:
        self._run(self._consumer.stop())


class Aiokafka:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)

    async def _started(self, group: str | None = None, reset: str = "none") -> Any:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap, group_id=group, enable_auto_commit=False, auto_offset_reset=reset, check_crcs=True
        )
        await consumer.start()
        return consumer

    def ends(self, topic: str) -> tuple[int, int]:
        async def asked() -> tuple[int, int]:
            consumer, partition = await self._started(), TopicPartition(topic, 0)
            try:
                begins, ends = await consumer.beginning_offsets([partition]), await consumer.end_offsets([partition])
                return begins[partition], ends[partition]
            finally:
                await consumer.stop()

        return self._loop.run_until_complete(asked())

    def at(self, topic: str, offset: int) -> _Consumer:
        async def begun() -> Any:
            consumer = await self._started()
            consumer.assign([TopicPartition(topic, 0)])
            consumer.seek(TopicPartition(topic, 0), offset)
            return consumer

        return _Consumer(self._loop, self._loop.run_until_complete(begun()), topic)

    def member(self, topic: str, group: str) -> _Consumer:
        async def joined() -> Any:
            consumer = await self._started(group, "earliest")
            consumer.subscribe([topic])
            async with asyncio.timeout(20):
                while not consumer.assignment():
                    await asyncio.sleep(0.02)
            return consumer

        return _Consumer(self._loop, self._loop.run_until_complete(joined()), topic)


if __name__ == "__main__":
    serve(Aiokafka(sys.argv[1]))
