"""The short way of a consumer's repeated fetches against the general one: whatever is asked and appended, both give the same
bytes. And the readers of an append get it in the turn that acknowledges it.
"""

import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from headrace.broker.handlers.fetch_request_cache import FetchRequestCache
from headrace.broker.network.send_queue import SendQueue
from headrace.wire.messages import fetch
from tests.support.raw_kafka import batch, fetch_body, frame, produce_body
from tests.support.serving_broker import NOW_MS
from tests.unit.broker.driven import Peer, driven

TOPICS: dict[str, int | tuple[int, dict[str, str]]] = {
    "clicks": 2,
    "rolls": (1, {"segment.bytes": "400"}),
    "flushed": (1, {"flush.messages": "1000"}),
}
VERSIONS = (12, 4, 11)


class NothingKnown(FetchRequestCache):
    """A cache without entries: every fetch takes the general path."""

    def get(self, version: int, body: bytes) -> None:
        return None


class Side:
    """A broker with three consumers and a producer."""

    def __init__(self, folder: Path, *, knows: bool) -> None:
        self.broker, self.producer = driven(folder, TOPICS)
        if not knows:
            self.broker.context.fetch_request_cache = NothingKnown()
        self.consumers = [Peer(self.broker) for _ in VERSIONS]
        self.number = 0

    def produce(self, topic: str, partition: int, sizes: list[int]) -> None:
        self.number += 1
        data = batch(*[b"v" * size for size in sizes])
        self.producer.send(frame(0, 9, self.number, produce_body(topic, data, partition=partition)))
        self.read()

    def fetch(self, consumer: int, topic: str, partition: int, offset: int, **asked: Any) -> None:
        self.number += 1
        version = VERSIONS[consumer]
        body = fetch_body([(topic, partition, offset)], version=version, **asked)
        self.consumers[consumer].send(frame(fetch.API_KEY, version, self.number, body))
        self.read()

    def flush(self, topic: str) -> None:
        partition = self.broker.partition(topic)
        partition.log.flush()
        partition.flushed()
        self.turn()

    def advance(self, topic: str, offset: int) -> None:
        self.broker.partition(topic).log.advance_start(offset, NOW_MS)

    def turn(self) -> None:
        self.broker.turn()
        self.read()

    def read(self) -> None:
        for peer in (self.producer, *self.consumers):
            peer.read()

    def answers(self) -> list[bytes]:
        return [bytes(peer.answers) for peer in (self.producer, *self.consumers)]

    def close(self) -> None:
        for peer in (self.producer, *self.consumers):
            peer.close()
        self.broker.close()


TOPIC = st.sampled_from(["clicks", "clicks", "rolls", "flushed"])
ASKED = st.fixed_dictionaries(
    {
        "max_wait_ms": st.sampled_from([60_000, 60_000, 0]),
        "min_bytes": st.sampled_from([1, 1, 0, 400]),
        "partition_max_bytes": st.sampled_from([1 << 20, 1 << 20, 200, 0]),
        "max_bytes": st.sampled_from([1 << 26, 1 << 26, 100]),
    }
)
"""The constant part of a consumer's fetches, without which the cache does not recognise them."""
STEP = st.one_of(
    st.tuples(st.just("produce"), TOPIC, st.sampled_from([0, 0, 1]), st.lists(st.sampled_from([0, 1, 40, 300]), min_size=1)),
    st.tuples(
        st.just("fetch"),
        TOPIC,
        st.sampled_from([0, 0, 1]),
        st.sampled_from(range(len(VERSIONS))),
        st.sampled_from(["end", "end", "end", "start", "middle", "beyond", "next"]),
    ),
    st.tuples(st.just("flush"), TOPIC),
    st.tuples(st.just("advance"), TOPIC),
    st.tuples(st.just("delete"), TOPIC),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ASKED, min_size=len(VERSIONS), max_size=len(VERSIONS)), st.lists(STEP, min_size=2, max_size=40))
def test_the_short_way_and_the_general_one_give_the_same_answers(asked: list[dict[str, int]], steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder, mock.patch("os.fsync"), mock.patch("os.fdatasync"):
        short, general = Side(Path(folder) / "s", knows=True), Side(Path(folder) / "g", knows=False)
        try:
            for step in steps:
                take(short, step, asked)
                take(general, step, asked)
                assert short.answers() == general.answers()
                assert short.broker.context.metrics.parked_fetches == general.broker.context.metrics.parked_fetches
                assert short.broker.context.fetch_request_cache.parked_partitions == (
                    general.broker.context.fetch_request_cache.parked_partitions
                )
            event(f"parked: {min(3, short.broker.context.metrics.parked_fetches)}")
            for side in (short, general):
                for consumer in side.consumers:
                    consumer.finish()
            assert short.answers() == general.answers()
            assert short.broker.context.fetch_request_cache.parked_partitions == 0
        finally:
            short.close()
            general.close()


def take(side: Side, step: tuple[Any, ...], asked: list[dict[str, int]]) -> None:
    what, topic, *rest = step
    table = side.broker.table
    if what == "delete":
        side.broker.topics.delete(topic, lambda outcome: None)
        side.turn()
        return
    if what == "produce":
        index, sizes = rest
        side.produce(topic, index, sizes)
        return
    partition = table.get(topic, 0)
    if what == "fetch":
        index, consumer, where = rest
        partition = table.get(topic, index)
        begin, end = (partition.log.log_start_offset, partition.log.log_end_offset) if partition is not None else (0, 0)
        shown = partition.high_watermark if partition is not None else 0
        offset = {"end": shown, "start": begin, "middle": (begin + end) // 2, "beyond": end + 1, "next": end}[where]
        side.fetch(consumer, topic, index, offset, **asked[consumer])
    elif partition is not None and what == "flush":
        side.flush(topic)
    elif partition is not None:
        side.advance(topic, (partition.log.log_start_offset + partition.log.flushed_offset) // 2)


@pytest.mark.parametrize("readers", [1, 9])
def test_an_append_is_acknowledged_and_then_sent_to_its_waiting_readers_in_the_same_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readers: int
) -> None:
    broker, producer = driven(tmp_path, TOPICS)
    consumers = [Peer(broker) for _ in range(readers)]
    send = SendQueue.send
    sent: list[str] = []

    def noted(send_queue: SendQueue, to: Any) -> bool:
        sent.append("acknowledgement" if send_queue is producer.connection._send_queue else "records")
        return send(send_queue, to)

    for turn in range(3):
        offset = broker.partition("clicks").log.log_end_offset
        for consumer in consumers:
            consumer.send(frame(fetch.API_KEY, 12, turn, fetch_body([("clicks", 0, offset)], max_wait_ms=60_000)))
        monkeypatch.setattr(SendQueue, "send", noted)
        producer.send(frame(0, 9, turn, produce_body("clicks", batch(b"x"))))
        monkeypatch.undo()
    assert sent == 3 * ["acknowledgement", *["records"] * readers]
    for peer in (producer, *consumers):
        peer.close()
    broker.close()
