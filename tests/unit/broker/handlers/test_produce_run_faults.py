"""Runs of Produce requests on a failing disk, and malformed requests: the fast path refuses what the general path refuses."""

import errno
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.raw_kafka import batch, produce_body
from tests.support.serving_broker import ServingBroker
from tests.unit.broker.handlers.produce_sides import Side, compared, stream


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
        # The log may have requests of the other partition that came after the one that closed the connection.
        with tempfile.TemporaryDirectory() as folder:
            side = Side(Path(folder), runs=True)
            side.peer.send(begun)
            side.peer.send(stream(*rest))
            assert side.peer.connection.is_closed
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


def test_a_batch_whose_length_no_frame_could_have_is_left_to_the_general_path(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lying = bytearray(batch(b"x"))
    lying[8:12] = (2**31 - 1).to_bytes(4, "big")
    with ServingBroker(tmp_path, topics={"t": 1}) as broker, broker.client() as client:
        assert client.produce("t", bytes(lying)).error_code == 2
        assert client.produce("t", batch(b"x")).error_code == 0
    assert not any(record.getMessage() == "loop_event_failed" for record in caplog.records)
