"""Connections with TLS and a login, over a real socket, against a front before a scripted broker."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.client.connection.cluster import Cluster
from headrace.client.connection.connection import Connection
from headrace.client.errors import AuthenticationFailed, BrokerUnreachable, ClientError, RequestTimedOut, TlsFailed
from headrace.client.producer.producer import Producer
from headrace.client.security.client_security import ClientSecurity
from headrace.wire.messages import control
from tests.support.certificates import Authority
from tests.support.processes import eventually
from tests.support.scripted_broker import ScriptedBroker
from tests.support.secured_front import SecuredFront

METADATA = (3, 4)
LOGIN = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "hunter2"}
Front = Callable[..., SecuredFront]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


@pytest.fixture
def front(broker: ScriptedBroker) -> Iterator[Front]:
    with ExitStack() as made:

        def make(**words: object) -> SecuredFront:
            one = SecuredFront(broker.address, **words)  # type: ignore[arg-type]
            made.callback(one.close)
            return one

        yield make


def _ask(connection: Connection) -> object:
    body = control.encode_request(*METADATA, {"topics": None, "allow_auto_topic_creation": False})
    return control.decode_response(*METADATA, connection.request(*METADATA, body))


def _connection(front: SecuredFront, host: str = "127.0.0.1", **words: str) -> Connection:
    security = ClientSecurity({name.replace("_", "."): value for name, value in words.items()})
    return Connection(host, front.port, timeout_ms=5_000, security=security)


def test_tls_with_the_hosts_name_checked(front: Front, authority: Authority) -> None:
    one = front(tls=authority.issue("broker", hosts=("127.0.0.1",)))
    connection = _connection(one, security_protocol="SSL", ssl_cafile=str(authority.file))
    for _ in range(3):  # session tickets come unasked, and are no reason to connect again
        _ask(connection)
    assert one.connections == 1
    with pytest.raises(TlsFailed, match="connect by a name") as refused:
        _ask(_connection(one, "localhost", security_protocol="SSL", ssl_cafile=str(authority.file)))
    assert not refused.value.retriable
    words = {"security.protocol": "SSL", "ssl.cafile": str(authority.file), "ssl.endpoint.identification.algorithm": ""}
    _ask(Connection("localhost", one.port, security=ClientSecurity(words)))


def test_a_certificate_of_an_unknown_authority_is_refused_once_and_not_knocked_at_again(
    front: Front, authority: Authority, tmp_path: Path
) -> None:
    one = front(tls=authority.issue("broker", hosts=("127.0.0.1",)))
    connection = _connection(one, security_protocol="SSL", ssl_cafile=str(Authority(tmp_path / "other", "other").file))
    for _ in range(20):
        with pytest.raises(TlsFailed, match=r"ssl\.cafile"):
            _ask(connection)
    assert one.connections == 1


def test_who_makes_a_new_cluster_for_each_try_does_not_knock_again_until_the_file_changes(
    front: Front, authority: Authority, tmp_path: Path
) -> None:
    """Fault: refusals were remembered by each `Cluster`, so that a probe that makes one each time asked each time."""
    one = front(tls=authority.issue("broker", hosts=("127.0.0.1",)))
    file, ca = tmp_path / "client.properties", Authority(tmp_path / "other", "other").file
    file.write_text(f"security.protocol=SSL\nssl.cafile={ca}\n")
    for _ in range(20):
        cluster = Cluster(f"127.0.0.1:{one.port}", security=str(file))
        with pytest.raises(TlsFailed, match=r"ssl\.cafile"):
            cluster.topics()
        cluster.close()
    assert one.connections == 1
    ca.write_bytes(authority.file.read_bytes())
    cluster = Cluster(f"127.0.0.1:{one.port}", security=file)
    cluster.topics()
    cluster.close()
    assert one.connections == 2


def test_a_rotated_client_certificate_is_used_by_the_next_connection(front: Front, authority: Authority) -> None:
    one = front(tls=authority.issue("broker", hosts=("127.0.0.1",)), client_ca=authority.file)
    certificate, key = authority.issue("first")
    words = {"security.protocol": "SSL", "ssl.cafile": str(authority.file)}
    words |= {"ssl.certfile": str(certificate), "ssl.keyfile": str(key)}
    connection = Connection("127.0.0.1", one.port, timeout_ms=5_000, security=ClientSecurity(words))
    _ask(connection)
    second_certificate, second_key = authority.issue("second")
    second_certificate.replace(certificate)
    one.drop()
    _ask_through(connection)  # certificate and key do not belong together now: the last pair is used
    second_key.replace(key)
    one.drop()
    _ask_through(connection)
    assert one.peers == ["first", "first", "second"]


def _ask_through(connection: Connection) -> None:
    def is_answered() -> bool:
        try:
            _ask(connection)
        except BrokerUnreachable:
            return False
        return True

    eventually(is_answered)


def test_a_silent_peer_and_a_slow_one_are_waited_for_no_longer_than_the_timeout(authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        words = {"security.protocol": "SSL", "ssl.cafile": str(authority.file)}
        connection = Connection("127.0.0.1", listener.getsockname()[1], timeout_ms=200, security=ClientSecurity(words))
        with pytest.raises(BrokerUnreachable):
            _ask(connection)


def test_a_closed_connection_ends_a_waiting_request_of_another_thread(front: Front, authority: Authority) -> None:
    one = front(tls=authority.issue("broker", hosts=("127.0.0.1",)))
    connection = _connection(one, security_protocol="SSL", ssl_cafile=str(authority.file))
    _ask(connection)
    failures: list[ClientError] = []

    def wait() -> None:
        try:
            connection.finish(timeout_ms=20_000)
        except ClientError as error:
            failures.append(error)

    connection._in_flight = (*METADATA, 77)  # an answer that never comes
    thread = threading.Thread(target=wait)
    thread.start()
    connection.close()
    thread.join(10)
    assert [type(one) for one in failures] == [BrokerUnreachable]
    assert not isinstance(failures[0], RequestTimedOut)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_records_go_through_after_a_login(front: Front, broker: ScriptedBroker, authority: Authority, protocol: str) -> None:
    tls = authority.issue("broker", hosts=("127.0.0.1",)) if protocol == "SASL_SSL" else None
    one = front(tls=tls, users={"u": "hunter2"})
    ca = {"ssl.cafile": str(authority.file)} if tls else {}
    security = ClientSecurity({"security.protocol": protocol, **LOGIN, **ca})
    connection = Connection("127.0.0.1", one.port, timeout_ms=5_000, security=security)
    _ask(connection)
    _ask(connection)
    assert (one.logins, one.connections) == (1, 1)


def test_a_wrong_password_is_told_once_and_every_record_is_counted(front: Front) -> None:
    one = front(users={"u": "other"})
    ended: list[int] = []
    cluster = Cluster(
        f"127.0.0.1:{one.port}", request_timeout_ms=2_000, security={"security.protocol": "SASL_PLAINTEXT", **LOGIN}
    )
    producer = Producer(cluster, linger_ms=0, on_delivery=lambda delivery: ended.append(delivery.record_count))
    for number in range(200):
        producer.send(f"t{number}", b"v", timestamp_ms=number)
    with pytest.raises(ClientError, match="login to") as failed:
        producer.close(10_000)
    cluster.close()
    assert "hunter2" not in str(failed.value)
    assert sum(ended) == 200
    assert 1 <= one.logins <= 3


def test_a_session_is_renewed_before_it_ends(front: Front) -> None:
    one = front(users={"u": "hunter2"}, session_ms=400)
    connection = _connection(
        one, security_protocol="SASL_PLAINTEXT", **{name.replace(".", "_"): value for name, value in LOGIN.items()}
    )

    def has_logged_in_again() -> bool:
        _ask(connection)
        return one.logins >= 3

    eventually(has_logged_in_again, every_ms=20)
    assert one.connections == 1
    assert connection._session_ends_at > time.monotonic()
    one.users = {}

    def is_refused() -> bool:
        try:
            _ask(connection)
        except AuthenticationFailed:
            return True
        return False

    eventually(is_refused, every_ms=20)
