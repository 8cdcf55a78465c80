"""The login of a connection: what it may send before, during and after, over a real socket and the broker's loop."""

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.handlers.api_table import TABLE
from headrace.broker.logins.login import LARGEST_FRAME, NOT_TOLD
from headrace.client.security import mechanisms
from headrace.client.security.secret_value import Secret
from headrace.runtime.failed_logins import MOST_COUNTED, MOST_FAILURES, WINDOW_MS, Failures
from headrace.wire.errors import ErrorCode
from tests.support.login_broker import LoginBroker, authenticate, begin, log_in, stored
from tests.support.processes import eventually
from tests.support.raw_kafka import Closed, RawClient, batch, frame

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
API_VERSIONS = {"client_software_name": "t", "client_software_version": "1"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginBroker]:
    settings = {"connection_failed_authentication_delay_ms": 0}
    with LoginBroker(tmp_path_factory.mktemp("broker"), topics={"t": 1}, **settings) as serving:
        serving.user_registry.users["dave"] = stored("secret", *MECHANISMS[:2])
        serving.on_loop(serving.users.load)
        yield serving


def principals(broker: LoginBroker) -> set[str]:
    found: set[str] = set()
    broker.on_loop(lambda: found.update(str(one.peer.principal) for one in broker.server._connections.values()))
    return found


def is_closed(client: RawClient, api_key: int, version: int, body: bytes) -> bool:
    """Send one request and return whether it closes the connection without an answer."""
    try:
        client.request(api_key, version, body)
    except (Closed, ConnectionError):
        return True
    return False


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_logs_in_and_is_the_connections_principal(broker: LoginBroker, mechanism: str) -> None:
    with broker.client() as client:
        assert client.ask(18, 3, API_VERSIONS).error_code == 0
        assert log_in(client, mechanism=mechanism).error_code == 0
        assert "User:alice" in principals(broker)
        assert client.produce("t", batch(b"x")).error_code == 0
        # Without an end of the session no further login is taken.
        assert begin(client, mechanism).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert authenticate(client, b"x").error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert client.produce("t", batch(b"x")).error_code == 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "secret"), ("alice", "Secret")])
def test_a_wrong_login_is_refused_in_the_same_words_and_ends_the_connection(
    broker: LoginBroker, mechanism: str, user: str, password: str
) -> None:
    with broker.client() as client:
        refused = log_in(client, user, password, mechanism)
        assert (refused.error_code, refused.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, NOT_TOLD)
        assert is_closed(client, 3, 4, b"\0\0\0\0\0")


@pytest.mark.parametrize("mechanism", MECHANISMS[:2])
def test_a_user_that_does_not_exist_gets_the_same_salt_each_time_and_typical_iterations(
    broker: LoginBroker, mechanism: str
) -> None:
    def first(user: str) -> tuple[str, str]:
        with broker.client() as client:
            begin(client, mechanism)
            answer = authenticate(client, f"n,,n={user},r=abc".encode())
            assert answer.error_code == 0
            return tuple(answer.auth_bytes.decode().split(",")[1:])  # type: ignore[return-value]

    assert first("nobody") == first("nobody")
    assert first("nobody") != first("somebody")
    assert len(first("nobody")[0]) == len(first("alice")[0])
    assert first("nobody")[1] == first("alice")[1]


def test_a_mechanism_that_the_listener_does_not_have_is_refused_with_those_it_has(broker: LoginBroker) -> None:
    with broker.client() as client:
        answer = begin(client, "OAUTHBEARER")
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert tuple(answer.mechanisms) == MECHANISMS
        assert is_closed(client, 18, 0, b"")


def test_the_handshake_of_before_2017_is_refused_with_an_error_and_a_newer_one_may_follow(broker: LoginBroker) -> None:
    with broker.client() as client:
        assert client.ask(17, 0, {"mechanism": "PLAIN"}).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert log_in(client).error_code == 0


@pytest.mark.parametrize("phase", ["before", "during", "failed"])
@pytest.mark.parametrize("api_key", sorted(TABLE))
def test_every_api_is_closed_to_clients_that_have_not_logged_in(broker: LoginBroker, phase: str, api_key: int) -> None:
    """The body is not even read: it is random here."""
    body = random.Random(api_key).randbytes(40)
    with broker.client() as client:
        if phase != "before":
            assert begin(client, "PLAIN").error_code == 0
        if phase == "failed":
            assert authenticate(client, b"nonsense").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        allowed = {"before": (17, 18), "during": (36,), "failed": ()}[phase]
        if api_key not in allowed:
            assert is_closed(client, api_key, TABLE[api_key].highest, body)


def test_requests_behind_a_login_in_one_read_wait_for_it(broker: LoginBroker) -> None:
    with broker.client() as client:
        begin(client, "PLAIN")
        plain = b"\0alice\0secret"
        message = struct.pack(">i", len(plain)) + plain
        client.socket.sendall(frame(36, 1, 7, message) + frame(18, 0, 8, b""))
        assert client.receive(36, 1)[0] == 7
        assert client.receive(18, 0)[0] == 8


def test_a_large_request_of_a_client_without_login_is_refused_at_its_beginning(broker: LoginBroker) -> None:
    """Fault: 100 MB of Produce were kept in memory for a client that had not logged in."""
    for key, size in ((0, 50 << 20), (36, LARGEST_FRAME + 1)):
        with broker.client() as client:
            if key:
                begin(client, "PLAIN")
            client.socket.sendall(struct.pack(">ihhih", size, key, 1, 1, -1) + b"\0" * 20)
            assert client.socket.recv(1) == b""


@pytest.mark.parametrize("seed", range(40))
def test_hostile_messages_of_a_mechanism_end_in_a_refusal(broker: LoginBroker, seed: int) -> None:
    rng = random.Random(seed)
    mechanism = rng.choice(MECHANISMS)
    steps = (
        mechanisms.plain("dave", Secret("secret"))
        if mechanism == "PLAIN"
        else mechanisms.scram_login(mechanism, "dave", Secret("secret"))
    )
    with broker.client() as client:
        begin(client, mechanism)
        message = next(steps)
        if mechanism != "PLAIN" and rng.random() < 0.6:
            message = steps.send(authenticate(client, message).auth_bytes)
        assert authenticate(client, _altered(rng, message)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def _altered(rng: random.Random, message: bytes) -> bytes:
    at = rng.randrange(len(message))
    altered = rng.choice(
        [
            b"",
            b"\xff\xfe" + message,
            message[: at // 2],
            message.replace(b",", b"", 1).replace(b"\0", b"", 1),
            message + b"," * 5_000 + b"\0" * 3,
            b"p=tls-unique" + message,
            message.replace(b"=", b"\0"),
        ]
    )
    return altered if altered != message else message[1:]


def test_an_early_success_message_is_not_taken_for_a_login(broker: LoginBroker) -> None:
    for message in (b"", b"n,,", b"n,,n=alice,r=", b"n,a=bob,n=alice,r=x", b"n,,m=1,n=alice,r=x"):
        with broker.client() as client:
            begin(client, "SCRAM-SHA-256")
            assert authenticate(client, message).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_passwords_cannot_be_guessed_quickly_and_other_users_are_not_kept_out(broker: LoginBroker) -> None:
    broker.user_registry.users["carol"] = stored("right", "SCRAM-SHA-256")
    broker.on_loop(broker.users.load)
    for number in range(MOST_FAILURES):
        with broker.client() as client:
            assert log_in(client, "carol", f"guess {number}", "SCRAM-SHA-256").error_code
    with broker.client() as client:
        assert log_in(client, "carol", "right", "SCRAM-SHA-256").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    with broker.client() as client:
        assert log_in(client).error_code == 0


def test_failures_are_forgotten_after_their_time_and_their_number_is_bounded() -> None:
    failures = Failures()
    for _ in range(MOST_FAILURES):
        failures.add("h", "u", 0)
    assert failures.too_many("h", "u", WINDOW_MS - 1)
    assert not failures.too_many("h", "u", WINDOW_MS)
    assert not failures.too_many("h", "other", 0)
    assert not failures.too_many("other", "u", 0)
    for number in range(MOST_COUNTED + 10):
        failures.add("h", f"u{number}", 1)
    assert len(failures) == MOST_COUNTED


def test_a_failed_login_is_answered_after_a_delay_and_its_connection_closed_soon(tmp_path: Path) -> None:
    with LoginBroker(tmp_path, connection_failed_authentication_delay_ms=50) as slow, slow.client() as client:
        asked_ms = slow.loop.now_ms
        assert log_in(client, password="wrong").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert slow.loop.now_ms - asked_ms >= 50
        assert client.socket.recv(1) == b""


def test_a_client_that_does_not_log_in_is_closed(tmp_path: Path) -> None:
    with LoginBroker(tmp_path, request_read_timeout_ms=100) as strict, strict.client() as client, strict.client() as other:
        assert log_in(other).error_code == 0
        client.ask(18, 3, API_VERSIONS)
        assert client.socket.recv(1) == b""
        eventually(lambda: "login_not_done" in strict.server.rejections.counts, within_ms=5_000)
        assert other.ask(18, 3, API_VERSIONS).error_code == 0


def test_a_session_is_renewed_on_its_connection_and_ends_without_it(tmp_path: Path) -> None:
    """KIP-368."""
    with LoginBroker(tmp_path, topics={"t": 1}, connections_max_reauth_ms=60_000) as broker, broker.client() as client:
        assert _lifetime_ms(log_in(client)) == 60_000
        assert client.produce("t", batch(b"x")).error_code == 0
        assert _lifetime_ms(log_in(client)) == 60_000
        assert client.produce("t", batch(b"x")).error_code == 0
        broker.on_loop(lambda: _end_sessions(broker))
        assert client.ask(18, 3, API_VERSIONS).error_code == 0
        assert _lifetime_ms(log_in(client)) == 60_000
        assert client.produce("t", batch(b"x")).error_code == 0
        broker.on_loop(lambda: _end_sessions(broker))
        with pytest.raises((Closed, ConnectionError)):
            client.produce("t", batch(b"x"))
        eventually(lambda: broker.server.rejections.counts.get("session_ended") == 1, within_ms=5_000)


def test_a_session_is_not_renewed_as_another_user_or_with_another_mechanism(tmp_path: Path) -> None:
    with LoginBroker(tmp_path, connections_max_reauth_ms=60_000) as broker:
        broker.user_registry.users["bob"] = stored("secret", "SCRAM-SHA-512")
        broker.on_loop(broker.users.load)
        with broker.client() as client:
            assert log_in(client).error_code == 0
            assert log_in(client, "bob").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert "User:bob" not in principals(broker)
        with broker.client() as client:
            assert log_in(client).error_code == 0
            assert log_in(client, mechanism="PLAIN").error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM


def test_during_a_renewal_other_requests_end_the_connection(tmp_path: Path) -> None:
    with LoginBroker(tmp_path, topics={"t": 1}, connections_max_reauth_ms=60_000) as broker, broker.client() as client:
        log_in(client)
        begin(client, "SCRAM-SHA-512")
        with pytest.raises((Closed, ConnectionError)):
            client.produce("t", batch(b"x"))


def _lifetime_ms(answer: Any) -> int:
    assert answer.error_code == 0
    return round(answer.session_lifetime.total_seconds() * 1_000)


def _end_sessions(broker: LoginBroker) -> None:
    for connection in broker.server._connections.values():
        guard: Any = connection.peer.guard
        guard._ends_ms = broker.loop.now_ms - 1
