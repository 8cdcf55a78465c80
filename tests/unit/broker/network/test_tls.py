"""TLS on a broker's listeners: what is refused and why, certificates that change, bytes that epoll does not show."""

import fcntl
import os
import socket
import ssl
import struct
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.errors import TlsRefused
from headrace.broker.network.send_queue import SendQueue
from headrace.broker.network.tls_context import server_context
from headrace.broker.network.tls_stream import TlsStream
from headrace.broker.settings.tls_settings import TlsSettings
from tests.support.certificates import Authority
from tests.support.processes import eventually
from tests.support.raw_kafka import Closed, RawClient, batch, frame, produce_body
from tests.support.serving_broker import ServingBroker
from tests.support.tls_broker import TlsBroker, keystore, trusting
from tests.unit.broker.network.test_send_queue import OwnSlice

ALL_TOPICS_V1 = b"\xff\xff\xff\xff"
FEW_BYTES = 4_096
RECORD_BYTES = 16_384
READ_BYTES = 8_192
"""Less than a record: its parts come with several reads of the socket."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    with TlsBroker(tmp_path_factory.mktemp("broker"), authority=authority, topics={"t": 1}) as serving:
        yield serving


def why(caplog: pytest.LogCaptureFixture) -> str:
    """Return the reason of the handshake that failed."""

    def logged() -> str:
        return next((str(one.__dict__) for one in caplog.records if one.message == "tls_handshake_failed"), "")

    return eventually(logged, what="a line in the log")


# -- the stream ----------------------------------------


@pytest.fixture
def pair(authority: Authority) -> Iterator[tuple[TlsStream, ssl.SSLSocket]]:
    """A server's stream whose socket takes little, and its client."""
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, FEW_BYTES)
    for one in (ours, theirs):
        one.setblocking(False)
    context = server_context(TlsSettings(keystore=keystore(authority, "pair")))
    server = TlsStream(ours, context, memoryview(bytearray(READ_BYTES)))
    client = trusting(authority).wrap_socket(theirs, server_hostname="localhost", do_handshake_on_connect=False)
    waiting = {"server", "client"}
    for _ in range(1_000):
        if server.handshake():
            waiting.discard("server")
        try:
            client.do_handshake()
            waiting.discard("client")
        except ssl.SSLWantReadError:
            pass
    assert not waiting
    yield server, client
    server.close()
    client.close()


def test_bytes_and_file_regions_leave_in_order_through_a_narrow_socket(
    pair: tuple[TlsStream, ssl.SSLSocket], tmp_path: Path
) -> None:
    stream, client = pair
    content = os.urandom(600_000)
    (tmp_path / "log").write_bytes(content)
    sent = SendQueue(stream.sendfile)
    sent.put([b"head", OwnSlice(tmp_path / "log", 1_000, 500_000), b"between", OwnSlice(tmp_path / "log", 0, 5), b"tail"])
    sent.put_bytes(b"x" * 100_000)
    got, stalls = bytearray(), 0
    for _ in range(100_000):
        # What is added after a send that found the socket full must not come into the record that is being sent.
        if not sent.send(stream):
            stalls += 1
            if stalls == 5:
                sent.put_bytes(b"more")
        try:
            got += client.recv(5_000)
        except ssl.SSLWantReadError:
            if not sent:
                break
    assert stalls > 20, "the socket was never full"
    assert bytes(got) == b"head" + content[1_000:501_000] + b"between" + content[:5] + b"tail" + b"x" * 100_000 + b"more"


def test_a_read_takes_all_records_that_fit_and_says_when_decrypted_bytes_wait(pair: tuple[TlsStream, ssl.SSLSocket]) -> None:
    stream, client = pair
    for _ in range(3):
        client.send(b"a" * 1_000)
    buffer = memoryview(bytearray(2_500))
    assert stream.recv_into(buffer) == 2_500
    assert stream.has_more, "500 bytes of the third record are decrypted and epoll will not show them"
    assert stream.recv_into(buffer) == 500
    assert not stream.has_more
    with pytest.raises(BlockingIOError):
        stream.recv_into(buffer)


def test_the_peers_end_is_seen_though_its_socket_stays_open(pair: tuple[TlsStream, ssl.SSLSocket]) -> None:
    stream, client = pair
    client.send(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        client.unwrap()
    buffer = memoryview(bytearray(100))
    assert stream.recv_into(buffer) == 4
    assert stream.has_more
    assert stream.recv_into(buffer) == 0


# -- a broker ----------------------------------------


def test_a_request_that_comes_with_the_handshakes_last_message_is_answered(broker: TlsBroker) -> None:
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = broker.trust.wrap_bio(theirs, ours, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", broker.port), timeout=10) as client:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                client.sendall(ours.read())
                theirs.write(client.recv(1 << 16))
        tls.write(frame(3, 1, 7, ALL_TOPICS_V1))
        client.sendall(ours.read())  # both at once
        answer = b""
        while len(answer) < 8:
            theirs.write(client.recv(1 << 16))
            try:
                answer += tls.read()
            except ssl.SSLWantReadError:
                pass
    assert struct.unpack_from(">i", answer, 4) == (7,)


def test_requests_larger_than_one_read_are_answered(broker: TlsBroker) -> None:
    with broker.client() as client:
        for size in (200_000, 262_000, 262_144, 262_200, 700_000, 1):
            assert client.produce("t", batch(b"v" * size)).error_code == 0
        assert len(client.fetch("t", 0, max_bytes=10 << 20).records or b"") > 900_000


def test_the_end_of_a_request_that_waits_decrypted_is_read_though_the_socket_is_empty(broker: TlsBroker) -> None:
    # The first part gets a buffer of 128 KiB, which ends inside the last of eight records.
    whole = frame(0, 9, 7, produce_body("t", batch(os.urandom(3_900 + 8 * RECORD_BYTES))))
    first = len(whole) - 8 * RECORD_BYTES
    assert first < 4_096
    held, sent = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        assert sent.wait(10)

    def with_first_part() -> int | None:
        return next((one.fd for one in broker.server._connections.values() if one.unfinished_bytes == first), None)

    def arrived(fd: int) -> int:
        return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))[0])

    broker.server._listening["SSL"].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
    with broker.client() as client:
        client.socket.sendall(whole[:first])
        fd = eventually(with_first_part, what="the first part") or -1
        broker.loop.post(hold)
        assert held.wait(10)
        client.socket.sendall(whole[first:])
        eventually(lambda: arrived(fd) > 8 * RECORD_BYTES, what="all records in the socket")
        sent.set()
        assert client.receive(0, 9)[0] == 7


def test_a_client_without_tls_is_refused_and_the_log_says_what_to_set(
    broker: TlsBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with RawClient(broker.port) as client:
        client.socket.sendall(frame(3, 1, 1, ALL_TOPICS_V1))
        assert client.is_closed_by_peer()
    assert "security.protocol=SSL" in why(caplog)
    assert broker.server.rejections.counts["tls_handshake_failed"] > 0


def test_a_client_with_tls_on_a_listener_without_it_is_refused_and_the_log_says_so(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ServingBroker(tmp_path) as clear:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            RawClient(clear.port, tls=trusting(authority))
        (line,) = (str(one.__dict__) for one in caplog.records if one.message == "frame_refused")
        assert "speaks TLS to a listener without it" in line
        assert clear.server.rejections.counts == {"tls": 1}


def test_a_handshake_that_does_not_end_is_closed_and_others_are_served_meanwhile(authority: Authority, tmp_path: Path) -> None:
    with TlsBroker(tmp_path, authority=authority, settings={"request.read.timeout.ms": 300}) as broker:
        silent = [RawClient(broker.port) for _ in range(200)]
        with broker.client() as client:
            assert client.request(3, 1, ALL_TOPICS_V1)
        assert all(one.is_closed_by_peer() for one in silent)
        eventually(lambda: broker.server._handshake_count == 0, what="none under way")


def test_handshakes_count_as_connections(authority: Authority, tmp_path: Path) -> None:
    with TlsBroker(tmp_path, authority=authority, settings={"max.connections": 5}) as broker:
        silent = [RawClient(broker.port) for _ in range(5)]
        eventually(lambda: broker.server._handshake_count == 5, what="all under way")
        with RawClient(broker.port) as sixth:
            assert sixth.is_closed_by_peer()
        for one in silent:
            one.close()
        eventually(lambda: broker.server._handshake_count == 0, what="room again")
        with broker.client() as client:
            assert client.request(3, 1, ALL_TOPICS_V1)


def test_new_connections_get_a_changed_certificate_and_open_ones_go_on(authority: Authority, tmp_path: Path) -> None:
    def name_of(client: RawClient) -> str:
        assert isinstance(client.socket, ssl.SSLSocket)
        shown = client.socket.getpeercert() or {}
        return str(dict(one[0] for one in shown["subject"])["commonName"])

    def new() -> str:
        with broker.client() as client:
            assert client.request(3, 1, ALL_TOPICS_V1)
            return name_of(client)

    with TlsBroker(tmp_path, authority=authority) as broker, broker.client() as open_before:
        assert name_of(open_before) == "broker"
        store = broker.settings.tls["SSL"].keystore
        store.write_text("half a file")
        assert new() == "broker", "the last good certificate is used"
        os.replace(keystore(authority, "renewed"), store)
        eventually(lambda: new() == "renewed", what="the new certificate")
        assert open_before.request(3, 1, ALL_TOPICS_V1)


@pytest.mark.parametrize("mode", ["required", "requested", "none"])
def test_clients_certificates(authority: Authority, tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    stranger = Authority(tmp_path / "stranger", "stranger-ca")
    settings = {"ssl.client.auth": mode, "ssl.truststore.location": authority.file}

    def is_served(own: tuple[Path, Path] | None) -> bool:
        try:
            with RawClient(broker.port, tls=trusting(authority, own)) as client:
                return bool(client.request(3, 1, ALL_TOPICS_V1))
        except (OSError, Closed):
            return False

    with TlsBroker(tmp_path / "broker", authority=authority, settings=settings) as broker:
        assert is_served(authority.issue("alice"))
        assert is_served(None) is (mode != "required")
        if mode == "required":
            assert "showed no certificate" in why(caplog)
            caplog.clear()
        assert is_served(stranger.issue("mallory")) is (mode == "none")
        assert is_served(authority.issue("late", is_expired=True)) is (mode == "none")


def test_each_listener_has_its_own_certificate_cas_and_reload(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other", "other-ca")
    settings = {
        "listeners": "OUT://127.0.0.1:0,IN://127.0.0.1:0",
        "listener.security.protocol.map": "OUT:SSL,IN:SSL",
        "ssl.truststore.location": other.file,
        "listener.name.in.ssl.keystore.location": keystore(other, "inner"),
        "listener.name.in.ssl.client.auth": "required",
    }

    def shown(listener: str, by: Authority, own: tuple[Path, Path] | None = None) -> str:
        """Return the broker's name on a listener, once it has answered a request."""
        with RawClient(broker.server.ports[listener], tls=trusting(by, own)) as client:
            assert client.request(3, 1, ALL_TOPICS_V1)
            assert isinstance(client.socket, ssl.SSLSocket)
            certificate = client.socket.getpeercert() or {}
            return str(dict(one[0] for one in certificate["subject"])["commonName"])

    alice = other.issue("alice")
    with TlsBroker(tmp_path / "broker", authority=authority, settings=settings) as broker:
        assert (shown("OUT", authority), shown("IN", other, alice)) == ("broker", "inner")
        for own in (None, authority.issue("stranger")):
            with pytest.raises((OSError, Closed)):
                shown("IN", other, own)
        os.replace(keystore(other, "inner-renewed"), broker.settings.tls["IN"].keystore)
        eventually(lambda: shown("IN", other, alice) == "inner-renewed", what="the new certificate of the listener IN")
        assert shown("OUT", authority) == "broker"


def test_a_listener_with_a_login_can_want_a_certificate_too(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "ssl.truststore.location": authority.file,
        "listener.name.sasl_ssl.ssl.client.auth": "required",
    }

    def mechanisms(own: tuple[Path, Path] | None) -> list[str]:
        with RawClient(broker.port, tls=trusting(authority, own)) as client:
            return list(client.ask(17, 1, {"mechanism": "NONE"}).mechanisms)

    with TlsBroker(tmp_path, authority=authority, settings=settings) as broker:
        assert mechanisms(authority.issue("alice")) == ["SCRAM-SHA-512", "SCRAM-SHA-256"]
        with pytest.raises((OSError, Closed)):
            mechanisms(None)
        assert "showed no certificate" in why(caplog)


def test_a_keystore_that_cannot_be_used_stops_the_start_with_what_to_do(authority: Authority, tmp_path: Path) -> None:
    for store, word in [
        (tmp_path / "missing.pem", "No such file"),
        (authority.file, "private key"),
        (keystore(authority, "locked", password="secret"), "ssl.key.password"),
    ]:
        with pytest.raises(TlsRefused, match=r"ssl\.keystore\.location") as caught:
            server_context(TlsSettings(keystore=store))
        assert word in str(caught.value)
    server_context(TlsSettings(keystore=keystore(authority, "locked2", password="secret"), key_password="secret"))
    with pytest.raises(TlsRefused, match=r"ssl\.truststore\.location"):
        server_context(TlsSettings(keystore=keystore(authority), truststore=tmp_path / "missing.pem"))


def test_old_versions_are_refused(authority: Authority, tmp_path: Path) -> None:
    with TlsBroker(tmp_path, authority=authority, settings={"ssl.enabled.protocols": "TLSv1.3"}) as broker:
        old = trusting(authority)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises((ssl.SSLError, ConnectionError)):
            RawClient(broker.port, tls=old)
        with broker.client() as client:
            assert client.request(3, 1, ALL_TOPICS_V1)
