"""mTLS: a client's certificate gives its connection a principal."""

from pathlib import Path

import pytest

from tests.support.certificates import Authority
from tests.support.login_broker import log_in, stored
from tests.support.raw_kafka import Closed, RawClient
from tests.support.tls_broker import TlsBroker, trusting

API_VERSIONS = {"client_software_name": "t", "client_software_version": "1"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def principal(broker: TlsBroker, client: RawClient) -> str:
    client.ask(18, 3, API_VERSIONS)
    found: list[str] = []
    broker.on_loop(lambda: found.extend(str(one.peer.principal) for one in broker.server._connections.values()))
    (only,) = found
    return only


@pytest.mark.parametrize(("rules", "expected"), [("DEFAULT", "User:CN=mirror"), ("RULE:^CN=(.*?)$/$1/U,DEFAULT", "User:MIRROR")])
def test_the_certificates_subject_is_the_principal(tmp_path: Path, authority: Authority, rules: str, expected: str) -> None:
    settings = {"ssl.truststore.location": authority.file, "ssl.client.auth": "required", "ssl.principal.mapping.rules": rules}
    with TlsBroker(tmp_path, authority=authority, settings=settings) as broker:
        with RawClient(broker.port, tls=trusting(authority, authority.issue("mirror"))) as client:
            assert principal(broker, client) == expected


def test_a_client_that_shows_no_certificate_is_anonymous(tmp_path: Path, authority: Authority) -> None:
    settings = {"ssl.truststore.location": authority.file, "ssl.client.auth": "requested"}
    with TlsBroker(tmp_path, authority=authority, settings=settings) as broker, broker.client() as client:
        assert principal(broker, client) == "User:ANONYMOUS"


def test_a_certificate_that_no_rule_matches_is_refused(tmp_path: Path, authority: Authority) -> None:
    settings = {
        "ssl.truststore.location": authority.file,
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(app-.*)$/$1/",
    }
    with TlsBroker(tmp_path, authority=authority, settings=settings) as broker:
        with RawClient(broker.port, tls=trusting(authority, authority.issue("mirror"))) as client:
            with pytest.raises((Closed, OSError)):
                client.ask(18, 3, API_VERSIONS)
        with RawClient(broker.port, tls=trusting(authority, authority.issue("app-1"))) as client:
            assert principal(broker, client) == "User:app-1"


def test_a_client_that_logs_in_over_tls_needs_no_certificate_and_is_its_user(tmp_path: Path, authority: Authority) -> None:
    """Fault: `ssl.client.auth=required`, meant for the brokers' listener, kept out every client that logs in."""
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "ssl.truststore.location": authority.file,
        "ssl.client.auth": "required",
    }
    with TlsBroker(tmp_path, authority=authority, settings=settings) as broker:
        broker.user_registry.users["alice"] = stored("secret", "SCRAM-SHA-512")
        broker.on_loop(broker.users.load)
        with RawClient(broker.port, tls=trusting(authority)) as client:
            assert log_in(client).error_code == 0
            assert principal(broker, client) == "User:alice"
