"""Replicas over TLS, with logins and rights between brokers. Real processes, ZooKeeper and certificates."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.certificates import Authority
from tests.support.librdkafka import continues_through_a_killed_leader
from tests.support.login_broker import log_in
from tests.support.login_process import CLIENT, PASSWORD, PLANTED, LoggedIn, user
from tests.support.processes import eventually
from tests.support.raw_kafka import Closed, RawClient
from tests.support.tls_broker import trusting
from tests.support.token_endpoint import TokenEndpoint

TOPIC = "replicated"
POLL = 20_002
"""The key of a follower's poll."""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    (tmp_path / "authority").mkdir()
    return Authority(tmp_path / "authority")


@pytest.fixture
def brokers(zookeeper_chroot: str, tmp_path: Path, authority: Authority) -> Iterator[list[LoggedIn]]:
    assert user(tmp_path, "add", "broker", "--zookeeper", zookeeper_chroot, password=PLANTED) == 0
    assert user(tmp_path, "add", "alice", "--zookeeper", zookeeper_chroot, password=PASSWORD) == 0
    rights = {"authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super_users": "User:broker"}
    endpoint = TokenEndpoint({CLIENT: "token-secret"})
    started = [LoggedIn(tmp_path, zookeeper_chroot, number, authority, endpoint, **rights) for number in (1, 2)]
    try:
        for one in started:
            one.start()
        yield started
    finally:
        for one in started:
            one.process.kill()
        endpoint.close()


def test_replicas_log_in_to_each_other_and_a_takeover_loses_nothing(brokers: list[LoggedIn], authority: Authority) -> None:
    words = {
        "bootstrap.servers": ",".join(f"localhost:{one.ports['TLS']}" for one in brokers),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.file),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "broker",
        "sasl.password": PLANTED,
        "log_level": 0,
    }
    admin = AdminClient(words)
    eventually(lambda: len(admin.list_topics(timeout=10).brokers) == 2, what="both brokers known")
    by_id = {one.broker_id: one for one in brokers}
    continues_through_a_killed_leader(words, TOPIC, sorted(by_id), lambda leader: by_id[leader].process.kill())


def test_a_client_that_is_no_broker_cannot_fetch_as_a_replica(brokers: list[LoggedIn], authority: Authority) -> None:
    for name, may in (("broker", True), ("alice", False)):
        with RawClient(brokers[0].ports["INNER"], tls=trusting(authority), timeout_ms=20_000) as client:
            log_in(client, name, PLANTED if name == "broker" else PASSWORD)
            client.send(POLL, 0, (9).to_bytes(4, "big") + (1).to_bytes(8, "big") + (1).to_bytes(4, "big"))
            if may:
                assert client.receive(POLL, 0)
            else:
                with pytest.raises(Closed):
                    client.receive(POLL, 0)
