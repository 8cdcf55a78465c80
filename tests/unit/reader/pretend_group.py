"""A reading loop in a world without a network: a log in memory, a group of one member, a quarantine and the audit's topic.

The stream is the client's own (`MessageStream`, `StreamState`); only what would go over a socket is pretended.
"""

import io
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import fastavro
import pytest

from headrace.client.consumer.message_stream import Callbacks
from headrace.client.consumer.stream_consumer import StreamConsumer
from headrace.client.consumer.stream_items import Batch
from headrace.client.consumer.stream_message import Message
from headrace.client.consumer.zk_errors import PartitionsLost
from headrace.client.errors import ClientError
from headrace.client.fetch.fetched import TopicPartition
from headrace.reader import reading_loop
from headrace.reader.coordination import Coordination
from headrace.reader.decoding.event_decoder import Undecodable
from headrace.reader.loop_settings import LoopSettings
from headrace.wire.batch.record_batch import BatchBuilder, BatchHeader, place, read_header
from tests.support.audit_topic import AuditTopic, ReportedPositions

NAME = TopicPartition("clicks", 0)
SCHEMA = '{"type": "record", "name": "Click", "fields": [{"name": "number", "type": "int"}]}'


class NotNow(ClientError):
    retriable = True


def _batch(position: int, value: bytes) -> tuple[BatchHeader, memoryview]:
    builder = BatchBuilder()
    builder.append(5, None, value)
    batch = bytearray(builder.build())
    place(memoryview(batch), position)
    return read_header(batch), memoryview(bytes(batch))


@dataclass
class World:
    """What outlives a member, and what is wrong with it now."""

    poison: frozenset[int] = frozenset()
    length: int = 30
    topic: AuditTopic = field(default_factory=AuditTopic)
    reported: ReportedPositions = field(default_factory=ReportedPositions)
    committed: int = 0
    aside: set[int] = field(default_factory=set)
    """Offsets in quarantine, acknowledged."""
    refuses_commits: bool = False
    refuses_quarantine: bool = False
    batches: list[tuple[BatchHeader, memoryview]] = field(default_factory=list)

    def __post_init__(self) -> None:
        at = 0
        for number in range(self.length):
            out = io.BytesIO()
            fastavro.schemaless_writer(out, fastavro.parse_schema({**_schema()}), {"number": number})
            value = b"no avro" if number in self.poison else b"\0\0\0\0\x01" + out.getvalue()
            self.batches.append(_batch(at, value))
            at = self.batches[-1][0].next_offset
        self.end = at

    @property
    def offsets(self) -> list[int]:
        return [header.base_offset for header, _ in self.batches]

    def install(self, patch: pytest.MonkeyPatch) -> "list[Consumer]":
        """Have each loop that is made read this world; return the consumers, as they are made."""
        made: list[Consumer] = []

        def coordination(_cluster: object, callbacks: Callbacks, **settings: Any) -> Coordination:
            made.append(Consumer(self, callbacks))
            return Coordination(made[-1], lambda: self.reported, lambda: None)

        patch.setattr(reading_loop, "coordination_of", coordination)
        patch.setattr(reading_loop, "UnusableRecords", lambda *_, **__: _Quarantine(self))
        patch.setattr(reading_loop, "Producer", lambda *_, **__: _Reports(self.topic))
        patch.setattr(reading_loop, "see_to_audit_topic", lambda *_, **__: None)
        patch.setattr(reading_loop, "RegistryClient", lambda *_, **__: _Registry())
        return made

    def settings(self, **more: Any) -> LoopSettings:
        return LoopSettings(
            topics=(NAME.topic,),
            group="g",
            tier="consumer:g",
            consumer_id="one",
            bootstrap="127.0.0.1:1",
            registry="http://127.0.0.1:1",
            audit_bootstrap="127.0.0.1:1",
            cache_folder=None,
            most_records=1 << 62,
            most_bytes=1 << 62,
            waits_for_audit=True,
            **more,
        )


def _schema() -> dict[str, Any]:
    return {"type": "record", "name": "Click", "fields": [{"name": "number", "type": "int"}]}


class _Registry:
    def schema(self, schema_id: int) -> str:
        return SCHEMA


class _Reports:
    """The audit's topic as the loop's producer."""

    def __init__(self, topic: AuditTopic) -> None:
        self.send = topic.send
        self._topic = topic

    def flush(self, timeout_ms: int, /) -> None:
        if self._topic.refuses:
            raise NotNow("the audit's topic is away")

    def close(self, timeout_ms: int) -> None:
        return


class _Quarantine:
    """Holds what it was given until a flush."""

    def __init__(self, world: World) -> None:
        self._world, self._waiting, self.previous_ms = world, set[int](), None

    def put_record(self, message: Message, fault: Undecodable) -> None:
        self._waiting.add(message.offset)

    def flush(self, timeout_ms: int) -> None:
        if self._world.refuses_quarantine:
            raise NotNow("quarantine is away")
        self._world.aside |= self._waiting
        self._waiting.clear()

    def close(self, timeout_ms: int) -> None:
        return


class Consumer(StreamConsumer):
    """The one member. The test gives it its partition, and takes it back."""

    def __init__(self, world: World, callbacks: Callbacks) -> None:
        super().__init__(
            "127.0.0.1:1", "g", [NAME.topic], consumer_id="one", auto_offset_reset="smallest", queue_bytes=1 << 20,
            fetch_wait_ms=1, callbacks=callbacks, commit_on_revoke=False,
        )  # fmt: skip
        self._world, self._has_begun, self._turn, self.is_sure = world, False, 0, True

    @property
    def _is_started(self) -> bool:
        return self._has_begun

    def start(self, timeout_ms: int = 30_000) -> Self:
        self._has_begun = True
        return self

    def assign(self) -> None:
        if not self._state.positions():
            self._turn += 1
            self._state.assign({NAME: self._world.committed}, committed={}, generation=self._turn)

    def revoke(self) -> None:
        self._state.announce_revocation([NAME])

    def lose(self) -> None:
        self._state.lose_all()

    def poll(self, timeout_ms: int) -> Message | None:
        for name, (epoch, offset) in self._state.wanted(0).items():
            for header, batch in self._world.batches:
                if header.next_offset > offset:
                    item = Batch(
                        partition=name, epoch=epoch, header=header, batch=batch, from_offset=max(offset, header.position)
                    )
                    self._state.put([item], partition=name, epoch=epoch, next_offset=header.next_offset)
                    break
        return super().poll(0)

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        assert offsets is not None
        if not self._state.positions() or self._state.has_unreported_loss():
            raise PartitionsLost("g", "one")
        if self._world.refuses_commits:
            raise NotNow("the coordinator is away")
        self._world.committed = offsets[NAME]

    def log_range(self, partition: TopicPartition) -> tuple[int, int]:
        return 0, self._world.end

    def close(self, timeout_ms: int = 30_000) -> None:
        self._state.stop()
        owned: Collection[TopicPartition] = self._state.positions()
        if owned:
            self._stream.notify_revoked(owned)

    def _may_deliver(self) -> bool:
        return self.is_sure
