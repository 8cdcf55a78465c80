"""DescribeUserScramCredentials and AlterUserScramCredentials as Kafka's tools call them."""

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.wire.errors import ErrorCode
from tests.support.login_broker import LoginBroker, log_in
from tests.support.raw_kafka import RawClient

SALT = b"0123456789abcdef"


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginBroker]:
    with LoginBroker(tmp_path_factory.mktemp("broker"), connection_failed_authentication_delay_ms=0) as serving:
        yield serving


@pytest.fixture
def client(broker: LoginBroker) -> Iterator[RawClient]:
    with broker.client() as connected:
        log_in(connected)
        yield connected


def upsertion(
    name: str, password: str = "new", mechanism: int = 1, iterations: int = 4_096, salt: bytes = SALT
) -> dict[str, Any]:
    salted = hashlib.pbkdf2_hmac("sha256" if mechanism == 1 else "sha512", password.encode(), salt, iterations)
    return {"name": name, "mechanism": mechanism, "iterations": iterations, "salt": salt, "salted_password": salted}


def alter(client: RawClient, *upsertions: dict[str, Any], deletions: list[tuple[str, int]] | None = None) -> dict[str, int]:
    gone = [{"name": name, "mechanism": mechanism} for name, mechanism in deletions or []]
    results = client.ask(51, 0, {"deletions": gone, "upsertions": list(upsertions)}).results
    return {one.user: int(one.error_code) for one in results}


def described(client: RawClient, *names: str) -> dict[str, Any]:
    results = client.ask(50, 0, {"users": [{"name": name} for name in names] or None}).results
    return {
        one.user: int(one.error_code) or {int(info.mechanism): info.iterations for info in one.credential_infos}
        for one in results
    }


def test_a_user_is_made_logs_in_gets_another_password_and_is_removed(broker: LoginBroker, client: RawClient) -> None:
    def outcome(password: str, mechanism: str = "SCRAM-SHA-256") -> int:
        with broker.client() as other:
            return int(log_in(other, "bob", password, mechanism).error_code)

    assert alter(client, upsertion("bob", "first"), upsertion("bob", "first", 2, 8_192)) == {"bob": 0}
    assert described(client, "bob") == {"bob": {1: 4_096, 2: 8_192}}
    assert [outcome("first"), outcome("first", "SCRAM-SHA-512"), outcome("first", "PLAIN")] == [0, 0, 0]
    assert alter(client, upsertion("bob", "second"), deletions=[("bob", 2)]) == {"bob": 0}
    assert [outcome("first"), outcome("second"), outcome("first", "SCRAM-SHA-512")] == [58, 0, 58]
    assert alter(client, deletions=[("bob", 1)]) == {"bob": 0}
    assert outcome("second") == 58
    assert described(client) == {"alice": {1: 4_096, 2: 4_096}}


def test_users_that_are_not_there_or_named_twice_have_an_error(client: RawClient) -> None:
    assert described(client, "nobody", "alice") == {"nobody": ErrorCode.RESOURCE_NOT_FOUND, "alice": {1: 4_096, 2: 4_096}}
    assert described(client, "alice", "alice") == {"alice": ErrorCode.DUPLICATE_RESOURCE}
    assert alter(client, deletions=[("nobody", 1)]) == {"nobody": ErrorCode.RESOURCE_NOT_FOUND}


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (upsertion("", "p"), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("bob", iterations=4_095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("bob", iterations=16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("bob", salt=b"short"), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({**upsertion("bob"), "salted_password": b""}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({**upsertion("bob"), "mechanism": 0}, ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ({**upsertion("bob"), "mechanism": 9}, ErrorCode.UNSUPPORTED_SASL_MECHANISM),
    ],
)
def test_what_kafka_refuses_is_refused(client: RawClient, wanted: dict[str, Any], error: ErrorCode) -> None:
    assert alter(client, wanted, upsertion("carol")) == {wanted["name"]: error, "carol": 0}


def test_a_user_with_one_wrong_change_is_not_changed_at_all(client: RawClient) -> None:
    assert alter(client, upsertion("bob"), upsertion("bob"), upsertion("bob", mechanism=2)) == {
        "bob": ErrorCode.DUPLICATE_RESOURCE
    }
    assert described(client, "bob") == {"bob": ErrorCode.RESOURCE_NOT_FOUND}


def test_a_change_that_zookeeper_does_not_take_is_reported(broker: LoginBroker, client: RawClient) -> None:
    broker.user_registry.is_away = True
    assert alter(client, upsertion("bob")) == {"bob": ErrorCode.REQUEST_TIMED_OUT}
    broker.user_registry.is_away = False
    assert alter(client, upsertion("bob")) == {"bob": 0}


def test_settings_of_a_user_that_are_no_credentials_stay(broker: LoginBroker, client: RawClient) -> None:
    broker.user_registry.users["bob"] = {"producer_byte_rate": "1000"}
    assert alter(client, upsertion("bob")) == {"bob": 0}
    assert alter(client, deletions=[("bob", 1)]) == {"bob": 0}
    assert broker.user_registry.users["bob"] == {"producer_byte_rate": "1000"}
