"""A wake never touches a descriptor that is no longer its own: the number may be a socket's or a file's by then."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from headrace.client.connection.cluster import Cluster
from headrace.client.connection.wake import Wake
from headrace.client.errors import ClientError
from headrace.client.producer.producer import Producer
from tests.support.processes import free_port
from tests.unit.client.sending import send

OTHERS = 8
BLOCKED_S = 0.1
"""How long `close` is given to continue, before it counts as waiting."""


@pytest.fixture
def reuse() -> Iterator[Callable[[], list[int]]]:
    """Make pipes, which get the lowest free numbers; return the ends to read from."""
    with ExitStack() as made:

        def pipes() -> list[int]:
            ends = [os.pipe() for _ in range(OTHERS)]
            for end in (end for pair in ends for end in pair):
                os.set_blocking(end, False)
                made.callback(os.close, end)
            return [reading for reading, _ in ends]

        yield pipes


def is_empty(end: int) -> bool:
    try:
        return not os.read(end, 1)
    except BlockingIOError:
        return True


def test_a_set_that_a_close_overtakes_writes_into_no_other_descriptor(
    reuse: Callable[[], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: the thread was stopped between looking and writing, and its byte went into another connection."""
    wake, closing, real = Wake(), [], os.write
    others: list[int] = []

    def write(end: int, content: bytes) -> int:
        closing.append(threading.Thread(target=wake.close))
        closing[0].start()
        closing[0].join(BLOCKED_S)
        others.extend(reuse())
        return real(end, content)

    monkeypatch.setattr("headrace.client.connection.wake.os.write", write)
    wake.set()
    closing[0].join(10)
    assert wake.fileno() == -1
    assert len(others) == OTHERS
    assert all(map(is_empty, others))


def test_after_a_close_nothing_is_read_and_nothing_written(reuse: Callable[[], list[int]]) -> None:
    """Fault: `clear` read what came for the descriptor's next owner, and let the next `set` write to it."""
    wake = Wake()
    ends = wake._read_end, wake._write_end
    wake.close()
    others = reuse()
    assert set(ends) & set(others)
    for _ in range(2):
        wake.clear()
        wake.set()
    wake.close()
    assert all(map(is_empty, others))
    for end in ends:
        os.fstat(end)  # nobody closed the next owner's


def test_a_set_is_seen_once_until_it_is_cleared() -> None:
    wake = Wake()
    wake.set()
    wake.set()
    assert not is_empty(wake.fileno())
    assert is_empty(wake.fileno())
    wake.clear()
    wake.set()
    wake.clear()
    assert is_empty(wake.fileno())
    wake.close()


def test_a_producer_that_its_own_callback_closes_ends_in_order(caplog: pytest.LogCaptureFixture) -> None:
    """Its thread is about to wait for the wake that the callback has closed."""
    closed = threading.Event()

    def close(_: object) -> None:
        with suppress(ClientError):  # the record whose callback this is
            producer.close(0)
        closed.set()

    cluster = Cluster(f"127.0.0.1:{free_port()}", request_timeout_ms=50)
    producer = Producer(cluster, on_delivery=close, delivery_timeout_ms=50)
    send(producer, [b"v"])
    assert closed.wait(10)
    thread = producer._thread
    assert thread is not None
    thread.join(10)
    assert not thread.is_alive()
    assert producer._sender.wake.fileno() == -1
    cluster.close()
    assert "sender_turn_failed" not in caplog.text
