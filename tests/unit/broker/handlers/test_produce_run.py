"""The fast path of Produce against the general path: for any requests, cut anywhere into reads, both give the same bytes on the
wire and in the log. Real sockets, connections and logs on one thread; ZooKeeper is simulated.
"""

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from headrace.broker.handlers.produce_run import MOST_REQUESTS, ProduceRuns
from headrace.broker.handlers.request_template import LONGEST_PREFIX
from headrace.wire.batch.compression import Codec
from headrace.wire.batch.crc32c import crc32c
from headrace.wire.batch.record_batch import BatchBuilder
from headrace.wire.messages import produce
from tests.support.raw_kafka import batch, frame, produce_body
from tests.unit.broker.handlers.produce_sides import Side, answered, compared, stream


@dataclass
class Sender:
    """Makes a stream of requests from choices; keeps the sequences of two idempotent producers per partition."""

    due: dict[tuple[int, str, int], int]
    number: int = 0

    def requests(self, choice: dict[str, Any]) -> bytes:
        out = b""
        for _ in range(choice["times"]):
            out += self.request(**choice)
        return out

    def request(
        self,
        *,
        times: int,
        kind: str,
        version: int,
        acks: int,
        topic: str,
        partition: int,
        values: list[int],
        producer: int,
        sequence: str,
        damage: str,
        at: float,
        client_id: str | None,
        stamp: int,
    ) -> bytes:
        self.number += 1
        if kind == "metadata":
            return frame(3, 1, self.number, b"\xff\xff\xff\xff", client_id)
        if kind == "old":
            return frame(0, 2, self.number, struct.pack(">hii", acks, 1, 0), client_id)
        key = (producer, topic, partition)
        due = self.due.get(key, 0)
        first = {"next": due, "again": max(0, due - len(values)), "gap": due + 7}[sequence]
        if sequence == "next":
            self.due[key] = due + len(values)
        builder = BatchBuilder(
            codec=Codec.GZIP if kind == "zipped" else Codec.NONE,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=first if producer >= 0 else -1,
        )
        for size in values:
            builder.append(1_700_000_000_000 + stamp, None, b"v" * size)
        data = damaged(builder.build(), damage, at)
        body = produce_body(
            topic,
            data,
            partition=partition,
            acks=acks,
            version=version,
            conditional_start=0 if damage == "mirror" and version == 9 else None,
            transactional_id="t" if damage == "transaction" else None,
        )
        if kind == "two":
            both = [produce.ProducePartition(index, data, None) for index in (0, 1)]
            body = produce.encode_request(version, produce.ProduceRequest(acks, 1, None, [produce.ProduceTopic(topic, both)]))
        if damage == "tail" and version == 9:
            body = body[:-2] + b"\x01\x05\x01x" + body[-1:]
        if damage == "more":
            body += b"\0"
        return frame(0, version, self.number, body, client_id)


def damaged(data: bytes, damage: str, at: float) -> bytes:
    changed = bytearray(data)
    where = int(at * (len(changed) - 1))
    match damage:
        case "flip":
            changed[where] ^= 1 << int(at * 1000) % 8
        case "flip header":
            changed[where % 61] ^= 1 << int(at * 1000) % 8
        case "header, CRC right":
            changed[21 + where % 40] ^= 1 << int(at * 1000) % 8
            changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
        case "cut":
            del changed[where:]
        case "longer":
            changed += b"\0" * (1 + where % 3)
        case "delta":
            changed[23:27] = where.to_bytes(4, "big")
            changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
        case "front":
            changed[0:8], changed[12:16] = where.to_bytes(8, "big"), b"\0\0\0\3"
        case "many":
            changed[57:61] = (where * 40).to_bytes(4, "big")
            changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


def mostly(usual: Any, *rare: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([usual] * 6 + list(rare))


CHOICE = st.fixed_dictionaries(
    {
        "times": st.sampled_from([1, 1, 2, 3, 6]),
        "kind": mostly("plain", "plain", "zipped", "two", "metadata", "old"),
        "version": st.sampled_from([9, 9, 9, 3, 5, 7, 8]),
        "acks": st.sampled_from([1, 1, -1, -1, 0, 2]),
        "topic": mostly("clicks", "small", "rolls", "rolls", "copied", "stamped", "nowhere"),
        "partition": st.sampled_from([0, 0, 0, 1]),
        "values": st.lists(st.sampled_from([0, 1, 40, 41, 80, 127, 300]), min_size=1, max_size=4),
        "producer": st.sampled_from([-1, -1, 5, 5, 6]),
        "sequence": mostly("next", "again", "gap"),
        "damage": mostly(
            "", *[""] * 20, "flip", "flip header", "header, CRC right", "cut", "longer", "delta", "front", "many", "tail", "more",
            "mirror", "transaction",
        ),
        "at": st.floats(0, 1),
        "client_id": st.sampled_from(["raw", "raw", None, "another client"]),
        "stamp": st.sampled_from([0, 1, -5, 1_000]),
    }
)  # fmt: skip


EXAMPLES = int(os.environ.get("HEADRACE_RUN_EXAMPLES", "60"))


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(CHOICE, min_size=1, max_size=12), st.lists(st.integers(0, 6_000), max_size=5))
def test_the_short_way_and_the_general_one_give_the_same_bytes(choices: list[dict[str, Any]], cuts: list[int]) -> None:
    sender = Sender({})
    # No run begins a segment. With a batch in each log, more of the following requests can be in runs.
    begun = b"".join(frame(0, 9, 0, produce_body(topic, batch(b"x"))) for topic in ("clicks", "small", "rolls", "stamped"))
    short = compared(begun + b"".join(sender.requests(choice) for choice in choices), [len(begun), *cuts])
    event(f"runs: {min(short.taken, 5)}")


def test_requests_of_one_read_are_one_run_and_requests_of_changing_length_too(tmp_path: Path) -> None:
    first = stream(produce_body("clicks", batch(b"first")))
    many = stream(*[produce_body("clicks", batch(b"x" * (60 + index % 90))) for index in range(100)])
    assert compared(first + many, [len(first)]).taken == 1


def test_a_run_has_its_bound() -> None:
    first = stream(produce_body("clicks", batch(b"first")))
    many = stream(*[produce_body("clicks", batch(b"")) for _ in range(MOST_REQUESTS + 1)])
    side = compared(first + many, [len(first)])
    assert side.taken > 1


def test_idempotent_requests_are_a_run_and_their_repetition_is_known() -> None:
    bodies = [produce_body("clicks", batch(b"x", producer_id=4, epoch=0, sequence=number)) for number in range(9)]
    first, rest = stream(bodies[0]), stream(*bodies[1:], *bodies[-3:])
    assert compared(first + rest, [len(first)]).taken == 1


def test_sequences_begin_at_0_again_within_a_run() -> None:
    top = 2**31 - 1
    bodies = [produce_body("clicks", batch(b"x", producer_id=4, epoch=0, sequence=number)) for number in (top - 1, top, 0, 1)]
    first, rest = stream(bodies[0]), stream(*bodies[1:])
    assert compared(first + rest, [len(first)]).taken == 1


def test_requests_to_partitions_in_turn_are_one_run(tmp_path: Path) -> None:
    begun = stream(*[produce_body("clicks", batch(b"x"), partition=index) for index in (0, 1)])
    turns = [produce_body("clicks", batch(b"x" * 70), partition=number // 2 % 2) for number in range(40)]
    assert compared(begun + stream(*turns), [len(begun)]).taken == 1


def test_places_of_topics_that_are_gone_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.broker.handlers.produce_run.RESPONSES_SPARED", 2)
    side = Side(tmp_path, runs=True)
    router: Any = side.broker.server.dispatch
    runs: ProduceRuns = router._runs
    runs._sweep_at = 2
    for number in range(30):
        topic = f"topic{number}"
        side.broker.topics.create(topic, 1, {}, lambda outcome: None)
        body = produce_body(topic, batch(b"x" * 70))
        side.peer.send(stream(body, body))
        side.peer.send(stream(body, body))
        side.broker.topics.delete(topic, lambda outcome: None)
    assert {error for _, error in answered(side.peer.answers)} == {0}
    assert len(runs._responses) <= 4
    assert len(runs._templates) <= 4
    side.close()


def test_who_hears_of_an_append_may_append_before_the_rest_of_the_run(tmp_path: Path) -> None:
    """A parked fetch that is woken by the run's first partition takes up its connection's further requests at once."""
    side = Side(tmp_path, runs=True)
    bodies = [produce_body("clicks", batch(b"x" * 70), partition=index) for index in (0, 1)]
    side.peer.send(stream(*bodies))
    log = side.broker.partition("clicks", 1).log

    class Woken:
        def shown(self, bytes_more: int) -> None:
            log.append(bytearray(batch(b"from elsewhere")), 0)

        def gone(self) -> None: ...

    side.broker.partition("clicks", 0).wait(Woken())
    side.peer.send(stream(*bodies))
    size = len(batch(b"x" * 70))
    assert log.log_end_offset == 2 * size + len(batch(b"from elsewhere"))
    assert {error for _, error in answered(side.peer.answers)} == {0}
    side.close()


def test_a_topic_that_was_made_again_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    side = Side(tmp_path, runs=True)
    body = produce_body("clicks", batch(b"x"))
    side.peer.send(stream(body, body))
    old = side.broker.partition("clicks")
    side.broker.topics.delete("clicks", lambda outcome: None)
    side.peer.send(stream(body, body))
    assert old.log.log_end_offset == 2 * len(batch(b"x"))
    errors = [error for _, error in answered(side.peer.answers)]
    assert errors == [0, 0, 3, 3]
    side.close()


def test_what_is_remembered_of_requests_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.broker.handlers.produce_run.MOST_TEMPLATES", 3)
    side = Side(tmp_path, runs=True)
    router: Any = side.broker.server.dispatch
    runs: ProduceRuns = router._runs
    for number in range(10):
        side.peer.send(frame(0, 9, number, produce_body("clicks", batch(b"x")), f"client {number}"))
    assert len(runs._templates) == 3
    side.peer.send(frame(0, 9, 99, produce_body("clicks", batch(b"x")), "c" * LONGEST_PREFIX))
    assert len(runs._templates) == 3
    assert answered(side.peer.answers)[-1] == (99, 0)
    side.close()
