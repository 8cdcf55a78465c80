"""Flushes, retention and failing disks, as clients see them. Real sockets and logs; the file system fails on demand."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.wire.errors import ErrorCode
from headrace.wire.messages import fetch
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient, batch, fetch_body, fetched
from tests.support.serving_broker import ServingBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServingBroker]:
    topics: dict[str, int | tuple[int, dict[str, str]]] = {
        "kept": (1, {"segment.bytes": "300"}),
        "expiring": (1, {"segment.bytes": "300", "retention.bytes": "700"}),
        "emptied": (1, {"segment.bytes": "300", "retention.bytes": "0"}),
        "flushed": (1, {"flush.messages": "1"}),
        "timed": (1, {"flush.ms": "50"}),
    }
    with ServingBroker(tmp_path, topics=topics, settings={"log.retention.check.interval.ms": 50}) as serving:
        yield serving


@pytest.fixture
def client(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as raw:
        yield raw


def test_retention_deletes_whole_old_segments_and_readers_of_them_are_told(broker: ServingBroker, client: RawClient) -> None:
    for _ in range(20):
        client.produce("expiring", batch(b"x" * 100))
        client.produce("kept", batch(b"x" * 100))
    log = broker.partition("expiring").log
    eventually(lambda: log.size_bytes - log.segments[0].size_bytes < 700, what="old segments gone")
    assert log.log_start_offset > 0
    assert client.fetch("expiring", 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert len(client.fetch("expiring", log.log_start_offset).records or b"") > 0
    eventually(lambda: not list(log.folder.glob("*.deleted")), what="their files gone, too")
    assert broker.partition("kept").log.log_start_offset == 0


def test_retention_never_waits_for_the_disk_on_the_loops_thread(
    broker: ServingBroker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: set[int] = set()

    def noted(real: Callable[[int], None]) -> Callable[[int], None]:
        def sync(fd: int) -> None:
            waited.add(threading.get_ident())
            real(fd)

        return sync

    monkeypatch.setattr(os, "fsync", noted(os.fsync))
    monkeypatch.setattr(os, "fdatasync", noted(os.fdatasync))
    for _ in range(20):
        client.produce("emptied", batch(b"x" * 100))
    log = broker.partition("emptied").log
    eventually(lambda: log.log_start_offset == log.log_end_offset, what="all of it gone, a new segment in its place")
    eventually(lambda: [path.stat().st_size for path in log.folder.glob("*.log*")] == [0], what="its file alone there")
    loops: list[int] = []
    broker.on_loop(lambda: loops.append(threading.get_ident()))
    assert waited
    assert waited.isdisjoint(loops)


def test_a_closed_segment_is_on_disk_and_its_file_closed_after_a_while_without_any_flush_policy(
    broker: ServingBroker, client: RawClient
) -> None:
    for _ in range(10):
        client.produce("kept", batch(b"x" * 100))
    partition = broker.partition("kept")
    assert partition.log.flushed_offset == 0
    broker.on_loop(broker.maintenance._rolled_pass)
    eventually(lambda: partition.log.flushed_offset == partition.log.log_end_offset, what="flushed")


def test_the_age_of_a_segment_is_noted_soon_after_its_first_append(broker: ServingBroker, client: RawClient) -> None:
    client.produce("kept", batch(b"x"))
    log = broker.partition("kept").log
    assert log.note_job() is not None
    broker.on_loop(broker.maintenance._rolled_pass)
    eventually(lambda: log.note_job() is None, what="noted")
    assert (log.folder / "first-append").read_text().startswith(f"{0:020d} ")


def test_flush_ms_shows_messages_after_that_time(broker: ServingBroker, client: RawClient) -> None:
    for number in range(3):
        client.produce("timed", batch(b"%d" % number))
        answer = client.fetch("timed", number * len(batch(b"0")), max_wait_ms=10_000)
        assert len(answer.records or b"") == len(batch(b"0"))


def test_many_flush_requests_during_one_flush_become_one(
    broker: ServingBroker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, calls, real = threading.Event(), list[int](), os.fdatasync

    def slow(fd: int) -> None:
        calls.append(fd)
        assert gate.wait(10)
        real(fd)

    monkeypatch.setattr(os, "fdatasync", slow)
    log = broker.partition("timed").log
    for _ in range(50):
        client.produce("timed", batch(b"x"))
        broker.on_loop(lambda: broker.maintenance.flush(broker.partition("timed")))
    gate.set()
    eventually(lambda: log.flushed_offset == log.log_end_offset, what="all flushed")
    assert len(calls) == 2


def test_a_full_disk_is_a_retriable_error_and_the_log_goes_on_when_there_is_room_again(
    broker: ServingBroker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: object, position: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    client.produce("kept", batch(b"before"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        patched.setattr(os, "pwritev", full)
        answer = client.produce("kept", batch(b"lost"))
        assert ErrorCode(answer.error_code).retriable
        assert "No space left" in (answer.error_message or "")
    assert client.produce("kept", batch(b"after")).base_offset == len(batch(b"before")) + len(batch(b"after")) - 1


def test_after_a_failed_flush_nothing_more_is_acknowledged_or_shown(
    broker: ServingBroker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", broken)
        client.produce("flushed", batch(b"x"))
        log = broker.partition("flushed").log
        eventually(lambda: log.failure is not None, what="the failure seen")
    answer = client.produce("flushed", batch(b"y"))
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(client.fetch("flushed", 0).records or b"") == 0
    assert client.produce("kept", batch(b"others go on")).error_code == 0


def test_a_batch_that_is_damaged_on_disk_is_never_served_and_what_follows_is(tmp_path: Path) -> None:
    lengths = []
    with ServingBroker(tmp_path, topics={"t": 1}) as broker, broker.client() as client:
        for value in (b"one", b"two", b"three"):
            lengths.append(len(batch(value)))
            client.produce("t", batch(value))
    (segment,) = (tmp_path / "t-0").glob("*.log")
    with segment.open("r+b") as file:
        file.seek(lengths[0] + lengths[1] - 1)
        file.write(b"\xff")
    with ServingBroker(tmp_path, topics={"t": 1}) as broker, broker.client() as client:
        assert len(client.fetch("t", 0).records or b"") == lengths[0]
        for offset in (lengths[0], lengths[0] + 10, lengths[0] + lengths[1]):
            assert len(client.fetch("t", offset).records or b"") == lengths[2]
        assert client.produce("t", batch(b"four")).base_offset == sum(lengths) + len(batch(b"four")) - 1


def test_a_stop_answers_a_parked_fetch_before_it_closes_the_connection(broker: ServingBroker, client: RawClient) -> None:
    client.send(fetch.API_KEY, 12, fetch_body([("kept", 0, 0)], max_wait_ms=60_000))
    eventually(lambda: len(broker.partition("kept")._waiters) == 1, what="the fetch parked")
    finished = threading.Event()
    broker.on_loop(lambda: broker.server.finish(finished.set))
    assert fetched(12, client.receive(fetch.API_KEY, 12)[1])["kept", 0].error_code == 0
    assert client.is_closed_by_peer()
    assert finished.wait(10)
