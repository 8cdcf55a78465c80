"""Another thread reads data that is not in the page cache, and nothing else waits. Real files, really dropped from the cache."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.event_loop.deferred_response import Region
from headrace.broker.handlers import fetch as fetch_handler
from headrace.broker.log.segment.file_region import FileRegion, OpenFile
from headrace.broker.partitions import cold_reads, page_cache
from headrace.broker.partitions.page_cache import PageCache
from headrace.wire.batch.record_batch import iter_batches, iter_records
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient, batch, fetch_body, fetched
from tests.support.serving_broker import ServingBroker

prefetch = page_cache.prefetch
BATCH = 20_000
COUNT = 50


class Gate:
    """Replaces the disk: reads wait until the test opens it."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.opened = threading.Event()

    def prefetch(self, file: Region, position: int, length: int) -> None:
        self.entered.release()
        assert self.opened.wait(20)
        prefetch(file, position, length)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path, topics={"cold": 1, "warm": 1}) as serving:
        with serving.client() as client:
            for number in range(COUNT):
                client.produce("cold", batch(bytes([number]) * BATCH))
        yield serving


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate()
    monkeypatch.setattr(cold_reads.page_cache, "prefetch", made.prefetch)
    yield made
    made.opened.set()


@pytest.fixture
def made_cold(broker: ServingBroker) -> ServingBroker:
    """The broker, without the topic's records in memory."""
    drop_cache(broker)
    return broker


def drop_cache(broker: ServingBroker) -> None:
    broker.partition("cold").log.flush()
    region = broker.partition("cold").log.region(0, 1 << 20)
    assert region is not None

    def is_dropped() -> bool:
        # A page that another core is using stays in the cache: try again.
        os.posix_fadvise(region.fd, 0, 0, os.POSIX_FADV_DONTNEED)
        return not PageCache().holds(region)

    eventually(is_dropped, what="the file dropped from the page cache (give pytest a --basetemp on a disk)")


def values(records: object) -> list[bytes | None]:
    assert isinstance(records, memoryview | bytes)
    return [record.value for _, data in iter_batches(records) for record in iter_records(data)]


def test_the_cache_says_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(16 << 20))
    file, cache = OpenFile(path, os.O_RDWR), PageCache()
    whole, head = FileRegion(file, 5, (16 << 20) - 5), FileRegion(file, 5, 50_000)
    assert cache.holds(whole)
    os.fsync(file.fd)

    def dropped() -> None:
        # Drop before each check: a check makes the system begin to read, which may end before the next.
        os.posix_fadvise(file.fd, 0, 0, os.POSIX_FADV_DONTNEED)

    for looks_cold in (lambda: not cache.holds(whole), lambda: not cache.holds(head), lambda: cache.copy(head) is None):
        eventually(lambda look=looks_cold: (dropped(), look())[1], what="seen to be cold")
    assert cache.holds(FileRegion(file, 5, 0))
    dropped()
    page_cache.prefetch(head, 5, 50_000)
    page_cache.prefetch(head, (16 << 20) - 10, 1000)
    assert cache.holds(head)
    assert not cache.holds(whole), "both ends are there, the middle is not"
    page_cache.prefetch(whole, 5, 16 << 20)
    assert cache.holds(whole)
    assert cache.copy(head) == path.read_bytes()[5:50_005]


@pytest.mark.parametrize("has_proc", [True, False])
def test_what_is_brought_is_read_through_an_opening_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_proc: bool
) -> None:
    """Before, the loop and two threads shared the log's own descriptor. To the system their reads looked random, and it read
    nothing ahead."""
    path = tmp_path / "file"
    path.write_bytes(bytes(100_000))
    file = OpenFile(path, os.O_RDONLY)
    path.unlink()
    sent: list[int] = []
    send, open_file = os.sendfile, os.open

    def sendfile(sink: int, fd: int, position: int, count: int) -> int:
        os.lseek(fd, 1 + len(sent), os.SEEK_SET)
        sent.append(send(sink, fd, position, count))
        return sent[-1]

    def opened(name: str, flags: int) -> int:
        if not has_proc and name.startswith("/proc"):
            raise FileNotFoundError(name)
        return open_file(name, flags)

    monkeypatch.setattr(os, "sendfile", sendfile)
    monkeypatch.setattr(os, "open", opened)
    page_cache.prefetch(FileRegion(file, 0, 100_000), 0, 200_000)
    assert sum(sent) == 100_000
    assert (os.lseek(file.fd, 0, os.SEEK_CUR) == 0) is has_proc, "without /proc there is no second opening of a deleted file"


def test_a_fetch_of_cold_data_gets_all_of_it(made_cold: ServingBroker) -> None:
    with made_cold.client() as client:
        assert values(client.fetch("cold", 0).records) == [bytes([number]) * BATCH for number in range(COUNT)]
    assert made_cold.cold_reads.count >= 1


def test_produces_and_warm_fetches_go_on_while_a_cold_fetch_waits_for_the_disk(made_cold: ServingBroker, gate: Gate) -> None:
    with made_cold.client() as reader, made_cold.client() as writer:
        reader.send(1, 12, fetch_body([("cold", 0, 0)]))
        assert gate.entered.acquire(timeout=10)
        for _ in range(20):
            assert writer.produce("warm", batch(b"x")).error_code == 0
            assert len(writer.fetch("warm", 0).records or b"") > 0
        gate.opened.set()
        answer = fetched(12, reader.receive(1, 12)[1])["cold", 0]
        assert len(values(answer.records)) == COUNT


def test_more_cold_fetches_than_threads_are_all_answered(made_cold: ServingBroker, gate: Gate) -> None:
    clients = [made_cold.client() for _ in range(3 * cold_reads.THREADS)]
    for client in clients:
        client.send(1, 12, fetch_body([("cold", 0, 0)]))
    for _ in range(cold_reads.THREADS):
        assert gate.entered.acquire(timeout=10)
    gate.opened.set()
    for client in clients:
        assert len(values(fetched(12, client.receive(1, 12)[1])["cold", 0].records)) == COUNT
        client.close()


def test_with_too_many_waiting_a_cold_fetch_is_answered_at_once(
    made_cold: ServingBroker, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(made_cold.cold_reads._worker, "submit", lambda *_: False)
    with made_cold.client() as client:
        assert len(values(client.fetch("cold", 0).records)) == COUNT


def test_a_client_that_leaves_meanwhile_costs_nothing(made_cold: ServingBroker, gate: Gate) -> None:
    with made_cold.client() as leaver:
        leaver.send(1, 12, fetch_body([("cold", 0, 0)], max_wait_ms=100_000))
        assert gate.entered.acquire(timeout=10)
    gate.opened.set()
    eventually(lambda: made_cold.server.connection_count == 0, what="the connection closed")
    with made_cold.client() as client:
        assert len(values(client.fetch("cold", 0).records)) == COUNT


def test_a_peer_that_has_finished_sending_still_gets_the_cold_data(made_cold: ServingBroker, gate: Gate) -> None:
    with made_cold.client() as client:
        client.send(1, 12, fetch_body([("cold", 0, 0)], max_wait_ms=1, min_bytes=1 << 30))
        assert gate.entered.acquire(timeout=10)
        client.socket.shutdown(1)
        gate.opened.set()
        assert len(values(fetched(12, client.receive(1, 12)[1])["cold", 0].records)) == COUNT


def test_cold_data_short_of_min_bytes_waits_for_more(made_cold: ServingBroker, gate: Gate) -> None:
    end = made_cold.partition("cold").log.log_end_offset
    body = fetch_body([("cold", 0, 0)], max_wait_ms=60_000, min_bytes=end + 1, partition_max_bytes=1 << 25)
    with made_cold.client() as reader, made_cold.client() as writer:
        reader.send(1, 12, body)
        assert gate.entered.acquire(timeout=10)
        gate.opened.set()
        eventually(lambda: made_cold.context.metrics.parked_fetches == 1, what="the fetch parked")
        writer.produce("cold", batch(b"more"))
        assert len(values(fetched(12, reader.receive(1, 12)[1])["cold", 0].records)) == COUNT + 1


def test_a_fault_of_the_disk_is_left_to_the_fetch(made_cold: ServingBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(file: Region, position: int, length: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(cold_reads.page_cache, "prefetch", failing)
    with made_cold.client() as client:
        assert len(values(client.fetch("cold", 0).records)) == COUNT


def test_a_reader_that_goes_on_finds_the_next_stretch_read_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_reads, "AHEAD_BYTES", 200_000)
    with ServingBroker(tmp_path, topics={"cold": 1}) as broker, broker.client() as client:
        for number in range(COUNT):
            client.produce("cold", batch(bytes([number]) * BATCH))
        drop_cache(broker)
        offset, got = 0, 0
        while got < COUNT:
            records = fetched(12, client.request(1, 12, fetch_body([("cold", 0, offset)], partition_max_bytes=50_000)))[
                "cold", 0
            ].records
            assert isinstance(records, memoryview)
            got += len(values(records))
            offset += len(records)
        assert 1 <= broker.cold_reads.count < COUNT // 2, "not each region was waited for"


def test_a_fetch_of_more_partitions_than_are_taken_ends_its_connection(broker: ServingBroker) -> None:
    with broker.client() as client:
        client.send(1, 12, fetch_body([("cold", 0, 0)] * (fetch_handler.MOST_PARTITIONS + 1)))
        assert client.is_closed_by_peer()
    with RawClient(broker.port) as other:
        assert other.fetch("warm", 0).error_code == 0


def test_a_reader_who_goes_on_gets_small_answers_copied_and_large_ones_sent_from_the_file(
    broker: ServingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[int] = []

    def copy(cache: PageCache, region: Region, real: object = PageCache.copy) -> bytes | None:
        copied.append(len(region))
        return real(cache, region)  # type: ignore[no-any-return, operator]

    monkeypatch.setattr(PageCache, "copy", copy)
    sizes = [10, fetch_handler.COPIED_BYTES + 1, 10, 10]
    with broker.client() as client:
        offset = broker.partition("warm").log.log_end_offset
        for number, size in enumerate(sizes):
            client.produce("warm", batch(bytes([number]) * size))
            answer = client.fetch("warm", offset)
            assert values(answer.records) == [bytes([number]) * size]
            offset = broker.partition("warm").log.log_end_offset
            assert answer.high_watermark == offset
    assert len(copied) == 2, "the first is not known yet, the second is large"
    assert max(copied) < fetch_handler.COPIED_BYTES


def test_a_small_answer_that_cannot_be_copied_without_waiting_goes_the_general_way(
    broker: ServingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(PageCache, "copy", lambda cache, region: asked.append(len(region)))
    with broker.client() as client:
        for value in (b"one", b"two", b"three"):
            offset = broker.partition("warm").log.log_end_offset
            client.produce("warm", batch(value))
            assert values(client.fetch("warm", offset).records) == [value]
    assert len(asked) == 2, "all but the first are known"


def test_what_a_read_gives_lies_within_the_stretch_that_was_looked_at(broker: ServingBroker) -> None:
    log = broker.partition("cold").log
    for offset in (0, 1, 777, BATCH, log.log_end_offset - 1):
        for max_bytes in (BATCH * 2, 100_000, 1 << 24):
            region, found = log.region(offset, max_bytes), log.read(offset, max_bytes)
            if found is not None:
                assert region is not None
                assert region.position <= found.position
                assert found.position + len(found) <= region.position + len(region) + BATCH
    assert log.region(log.log_end_offset, 1_000) is None
