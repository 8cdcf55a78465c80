"""The short way of Produce requests against the general one: whatever is sent and however it is cut into reads, both give the
same bytes on the wire and in the log. Real sockets, connections and logs on one thread; ZooKeeper played.
"""

import errno
import os
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from headrace.broker.produce_front import LONGEST_PREFIX, Front
from headrace.broker.produce_run import MOST_REQUESTS, ProduceRuns, Taken
from headrace.wire import control, produce
from headrace.wire.compression import Codec
from headrace.wire.crc32c import crc32c
from headrace.wire.generators import run_to_end
from headrace.wire.record_batch import BatchBuilder
from tests.support.raw_kafka import batch, frame, produce_body
from tests.unit.broker.driven import driven
from tests.unit.broker.serving import ServingBroker

TOPICS: dict[str, int | tuple[int, dict[str, str]]] = {
    "clicks": 2,
    "small": (1, {"max.message.bytes": "150"}),
    "rolls": (1, {"segment.bytes": "700"}),
    "copied": (1, {"headrace.mirror": "true"}),
    "stamped": (1, {"message.timestamp.type": "LogAppendTime"}),
}


class Side:
    """One broker of the two, driven turn by turn on this thread. `runs` says whether it may take the short way."""

    def __init__(self, folder: Path, *, runs: bool, settings: dict[str, object] | None = None) -> None:
        self.broker, self.peer = driven(folder, TOPICS, settings)
        self.taken = 0
        self._runs = runs
        router: Any = self.broker.server.dispatch
        take = router.take_run

        def counted(front: Front | None, buffer: memoryview, start: int, end: int, peer: str) -> Taken:
            if not self._runs:
                return None, start, ()
            taken: Taken = take(front, buffer, start, end, peer)
            self.taken += taken[1] > start
            return taken

        router.take_run = counted

    def memory(self) -> list[object]:
        """What the logs remember besides their bytes."""
        return [
            (
                partition.topic,
                partition.index,
                partition.high_watermark,
                partition.messages_in,
                partition.bytes_in,
                list(partition.log.producers._producers.items()),
                partition.log.segments,
                run_to_end(partition.log.largest_timestamp()),
            )
            for partition in self.broker.table
        ]

    def close(self) -> None:
        self.peer.close()
        self.broker.close()


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


def compared(requests: bytes, cuts: Sequence[int], **settings: Any) -> Side:
    """Send the same bytes, cut at the same places, to both; hold them against each other; return the one with runs, closed."""
    # Nothing here depends on the disk; waiting for it would take most of the time. Nor on how much fits into a turn: on a busy
    # machine it may end in the middle, and what is answered before a connection closes would then differ.
    unhurried = mock.patch("headrace.broker.connection.TURN_NS", 1 << 62), mock.patch("headrace.broker.slices.SLICE_NS", 1 << 62)
    with tempfile.TemporaryDirectory() as folder, mock.patch("os.fsync"), mock.patch("os.fdatasync"), unhurried[0], unhurried[1]:
        short, general = Side(Path(folder) / "s", runs=True, **settings), Side(Path(folder) / "g", runs=False, **settings)
        try:
            ends = sorted({*(cut for cut in cuts if cut < len(requests)), *range(0, len(requests), 60_000), len(requests)})
            for before, after in zip([0, *ends], ends, strict=False):
                if before < after:
                    for side in (short, general):
                        side.peer.send(requests[before:after])
            for side in (short, general):
                side.peer.finish()
            # Error messages name the folder.
            assert bytes(short.peer.answers).replace(b"/s/", b"/g/") == bytes(general.peer.answers)
            assert short.peer.connection.is_closed == general.peer.connection.is_closed
            assert short.broker.files() == general.broker.files()
            assert short.memory() == general.memory()
        finally:
            short.close()
            general.close()
        return short


EXAMPLES = int(os.environ.get("HEADRACE_RUN_EXAMPLES", "60"))


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(CHOICE, min_size=1, max_size=12), st.lists(st.integers(0, 6_000), max_size=5))
def test_the_short_way_and_the_general_one_give_the_same_bytes(choices: list[dict[str, Any]], cuts: list[int]) -> None:
    sender = Sender({})
    # No run begins a segment: with something in each log more of what follows may be taken for one.
    begun = b"".join(frame(0, 9, 0, produce_body(topic, batch(b"x"))) for topic in ("clicks", "small", "rolls", "stamped"))
    short = compared(begun + b"".join(sender.requests(choice) for choice in choices), [len(begun), *cuts])
    event(f"runs: {min(short.taken, 5)}")


def stream(*bodies: bytes, version: int = 9) -> bytes:
    return b"".join(frame(0, version, number, body) for number, body in enumerate(bodies))


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


def limit_files(monkeypatch: pytest.MonkeyPatch, limit_bytes: int) -> None:
    """Play a disk on which no file grows beyond this: a write takes a part, the next one fails."""
    pwrite, pwritev = os.pwrite, os.pwritev

    def room(position: int) -> int:
        if position >= limit_bytes:
            raise OSError(errno.ENOSPC, "no room")
        return limit_bytes - position

    def limited(fd: int, data: bytes, position: int) -> int:
        return pwrite(fd, memoryview(data)[: room(position)], position)

    def limited_run(fd: int, pieces: Sequence[bytes], position: int) -> int:
        data = b"".join(pieces)
        return limited(fd, data, position) if len(data) > room(position) else pwritev(fd, pieces, position)

    monkeypatch.setattr(os, "pwrite", limited)
    monkeypatch.setattr(os, "pwritev", limited_run)


@pytest.mark.parametrize("limit_bytes", [0, 70, 200, 500, 700, 1_000])
def test_a_full_disk_refuses_the_same_requests_of_a_run(monkeypatch: pytest.MonkeyPatch, limit_bytes: int) -> None:
    bodies = [produce_body("clicks", batch(b"x" * size)) for size in (3, 10, 40, 41, 200, 10, 1, 100, 5)]
    limit_files(monkeypatch, limit_bytes)
    compared(stream(*bodies), [60])


@pytest.mark.parametrize("acks", [1, 0])
@pytest.mark.parametrize("limit_bytes", [300, 500, 800])
def test_where_one_partition_of_a_run_cannot_be_written_its_requests_alone_are_refused(
    monkeypatch: pytest.MonkeyPatch, limit_bytes: int, acks: int
) -> None:
    begun = stream(produce_body("clicks", batch(b"x" * 200)), produce_body("clicks", batch(b"x"), partition=1))
    rest = [produce_body("clicks", batch(b"x" * (70 + number)), partition=number % 2, acks=acks) for number in range(8)]
    limit_files(monkeypatch, limit_bytes)
    if acks:
        compared(begun + stream(*rest), [len(begun)])
    else:
        # The other partition's requests may stand in the log behind the one that has cost the connection.
        with tempfile.TemporaryDirectory() as folder:
            side = Side(Path(folder), runs=True)
            side.peer.send(begun)
            side.peer.send(stream(*rest))
            assert side.peer.connection.is_closed
            side.close()


def test_requests_to_partitions_in_turn_are_one_run(tmp_path: Path) -> None:
    begun = stream(*[produce_body("clicks", batch(b"x"), partition=index) for index in (0, 1)])
    turns = [produce_body("clicks", batch(b"x" * 70), partition=number // 2 % 2) for number in range(40)]
    assert compared(begun + stream(*turns), [len(begun)]).taken == 1


def test_places_of_topics_that_are_gone_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.broker.produce_run.PLACES_SPARED", 2)
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
    assert len(runs._places) <= 4
    assert len(runs._fronts) <= 4
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


def test_a_failed_run_is_not_tried_again_for_each_of_its_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    first = stream(produce_body("clicks", batch(b"first")))
    tried = []
    pwritev = os.pwritev

    def full(fd: int, pieces: Sequence[bytes], position: int) -> int:
        tried.append(len(pieces))
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "pwritev", full)
    compared(first + stream(*[produce_body("clicks", batch(b"x"))] * 50), [len(first)])
    assert tried == [2 * 50]
    monkeypatch.setattr(os, "pwritev", pwritev)


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


def answered(answers: bytes | bytearray) -> list[tuple[int, int]]:
    """Return correlation id and error of each Produce v9 answer."""
    found = []
    at = 0
    while at < len(answers):
        (size,) = struct.unpack_from(">i", answers, at)
        correlation_id, start = control.read_response_header(0, 9, answers[at + 4 : at + 4 + size])
        body = memoryview(answers)[at + 4 + start : at + 4 + size]
        found.append((correlation_id, produce.decode_response(9, body).topics[0].partitions[0].error_code))
        at += 4 + size
    return found


def test_what_is_remembered_of_requests_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.broker.produce_run.FRONTS_KEPT", 3)
    side = Side(tmp_path, runs=True)
    router: Any = side.broker.server.dispatch
    runs: ProduceRuns = router._runs
    for number in range(10):
        side.peer.send(frame(0, 9, number, produce_body("clicks", batch(b"x")), f"client {number}"))
    assert len(runs._fronts) == 3
    side.peer.send(frame(0, 9, 99, produce_body("clicks", batch(b"x")), "c" * LONGEST_PREFIX))
    assert len(runs._fronts) == 3
    assert answered(side.peer.answers)[-1] == (99, 0)
    side.close()


def test_a_batch_whose_length_no_frame_could_have_is_left_to_the_general_path(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lying = bytearray(batch(b"x"))
    lying[8:12] = (2**31 - 1).to_bytes(4, "big")
    with ServingBroker(tmp_path, topics={"t": 1}) as broker, broker.client() as client:
        assert client.produce("t", bytes(lying)).error_code == 2
        assert client.produce("t", batch(b"x")).error_code == 0
    assert not any(record.getMessage() == "loop_event_failed" for record in caplog.records)
