"""Clients that never end their TLS handshake, or end it at once in great number: they are closed or served, what they took is
given back, and a client with an open connection is answered all the while. Real sockets and handshakes.

Faults: handshakes that did not end were not seen as a burst, and 150 MB of 3,000 of them stayed with the process; closed
connections kept what OpenSSL had for them (40 KB) until a garbage collection.
"""

import gc
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from headrace.broker.network.memory_return import WORTH_BYTES
from headrace.broker.network.server import TLS_CONNECTION_BYTES
from tests.support.certificates import Authority
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient, batch
from tests.support.tls_broker import TlsBroker

HALF_OPEN, SLOW, AT_ONCE = 150, 50, 60
TOPIC = "clicks"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def test_handshakes_that_never_end_are_closed_and_leave_nothing_behind(authority: Authority, tmp_path: Path) -> None:
    gc.collect()
    before = _open_tls()
    with (
        TlsBroker(tmp_path, authority=authority, topics={TOPIC: 1}, settings={"request.read.timeout.ms": 4_000}) as broker,
        broker.client() as honest,
    ):
        hello = _client_hello(broker.trust)
        half = [RawClient(broker.port, timeout_ms=60_000) for _ in range(HALF_OPEN)]
        for one in half:
            one.socket.sendall(hello[: len(hello) // 2])
        slow = [RawClient(broker.port, timeout_ms=60_000) for _ in range(SLOW)]
        for at in range(len(hello) - 1):
            for one in slow:
                with suppress(OSError):  # the broker has closed it
                    one.socket.sendall(hello[at : at + 1])
            assert honest.produce(TOPIC, batch(b"meanwhile")).error_code == 0
        assert all(one.is_closed_by_peer() for one in (*half, *slow)), "a byte now and then gives a handshake no more time"
        eventually(lambda: broker.server._handshake_count == 0, within_ms=60_000, what="no handshake under way")
        assert broker.server._handshakes is not None
        assert not broker.server._handshakes._open
        eventually(lambda: len(broker.server._connections) == 1, within_ms=60_000, what="only the honest client is connected")
        eventually(
            lambda: broker.server.rejections.counts["tls_handshake_failed"] == HALF_OPEN + SLOW,
            within_ms=60_000,
            what="each is counted",
        )
        assert honest.produce(TOPIC, batch(b"after")).error_code == 0
        for one in (*half, *slow):
            one.close()
        assert _open_tls() <= before + 1, "OpenSSL's memory is held by the honest client's connection alone"
        assert broker.server.take_peak() > WORTH_BYTES, "this burst is worth a trim"
        assert broker.server.take_peak() < 10 * TLS_CONNECTION_BYTES, "its end is seen"


def test_clients_that_connect_at_once_are_all_served_and_leave_nothing_behind(authority: Authority, tmp_path: Path) -> None:
    gc.collect()
    before = _open_tls()
    with TlsBroker(tmp_path, authority=authority, topics={TOPIC: 1}) as broker, broker.client() as honest:
        for _ in range(3):
            raw = [RawClient(broker.port, timeout_ms=60_000) for _ in range(AT_ONCE)]
            assert honest.produce(TOPIC, batch(b"meanwhile")).error_code == 0
            for one in raw:
                one.socket = broker.trust.wrap_socket(one.socket, server_hostname="localhost")
                assert one.produce(TOPIC, batch(b"again")).error_code == 0
                one.close()
        eventually(lambda: len(broker.server._connections) == 1, within_ms=60_000, what="only the honest client is connected")
        assert broker.server._handshake_count == 0
        assert _open_tls() <= before + 1, "OpenSSL's memory is held by the honest client's connection alone"
        assert honest.fetch(TOPIC, 1 << 40).high_watermark == broker.partition(TOPIC).log.log_end_offset


def _open_tls() -> int:
    """Return how many server's sides of TLS are in memory, without a garbage collection."""
    return sum(type(one) is ssl.SSLObject and one.server_side for one in gc.get_objects())


def _client_hello(trust: ssl.SSLContext) -> bytes:
    sent = ssl.MemoryBIO()
    client = trust.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return sent.read()
