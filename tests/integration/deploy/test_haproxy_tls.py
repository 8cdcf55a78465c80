"""HAProxy with `deploy/haproxy/brokers.cfg` as the only way to three secured brokers: TLS passes through, a client checks the
names in the certificates, and continues while a leader is killed.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.integration.deploy.haproxy import running
from tests.integration.deploy.site import Site
from tests.support.broker import BrokerProcess
from tests.support.certificates import Authority
from tests.support.librdkafka import continues_through_a_killed_leader
from tests.support.login_process import user
from tests.support.processes import Process, eventually
from tests.support.tls_broker import keystore

pytestmark = pytest.mark.needs("haproxy")

TOPIC = "replicated"
PASSWORD = "planted-outer-8812"
PORTS = {1: (9092, 19092, 29092, 9094), 2: (9292, 19292, 29292, 9294), 3: (9392, 19392, 29392, 9394)}
"""Broker → its inner port, its outer port, HAProxy's port for it, the port of its health; as `brokers.cfg` has them."""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def brokers(site: Site, authority: Authority, zookeeper_chroot: str, tmp_path: Path) -> Iterator[dict[int, BrokerProcess]]:
    """Clients come from outside: the certificate for them names HAProxy's host, `localhost`, and not the brokers' addresses."""
    for name in ("broker", "alice"):
        assert user(tmp_path, "add", name, "--zookeeper", zookeeper_chroot, password=PASSWORD) == 0
    outer, key = authority.issue("outer", hosts=("localhost",))
    (tmp_path / "outer.pem").write_bytes(key.read_bytes() + outer.read_bytes())
    started = {}
    try:
        for number, written in PORTS.items():
            inner, outside, through, http = map(site.port, written)
            settings = {
                "listeners": f"INNER://127.0.0.1:{inner},OUTER://127.0.0.1:{outside}",
                "advertised.listeners": f"INNER://127.0.0.1:{inner},OUTER://localhost:{through}",
                "listener.security.protocol.map": "INNER:SASL_SSL,OUTER:SASL_SSL",
                "sasl.inter.broker.username": "broker",
                "ssl.keystore.location": keystore(authority, f"inner-{number}"),
                "ssl.truststore.location": authority.file,
                "listener.name.outer.ssl.keystore.location": tmp_path / "outer.pem",
                "http.port": http,
            }
            secret = {"HEADRACE_BROKER_SASL_INTER_BROKER_PASSWORD": PASSWORD}
            started[number] = BrokerProcess(
                tmp_path / f"broker-{number}",
                zookeeper_chroot,
                broker_id=number,
                port=inner,
                settings=settings,
                environment=secret,
            )
            started[number].start()
        yield started
    finally:
        for one in started.values():
            one.process.kill()


@pytest.fixture
def haproxy(site: Site, brokers: dict[int, BrokerProcess]) -> Iterator[Process]:
    yield from running(site, "haproxy/brokers.cfg")


def test_a_client_behind_it_checks_the_brokers_names_and_survives_a_killed_leader(
    site: Site, authority: Authority, brokers: dict[int, BrokerProcess], haproxy: Process
) -> None:
    words = {
        "bootstrap.servers": f"localhost:{site.port(29090)}",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.file),
        "ssl.endpoint.identification.algorithm": "https",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": PASSWORD,
        "log_level": 0,
    }
    admin = AdminClient(words)

    def addresses() -> dict[int, tuple[str, int]]:
        try:
            found = admin.list_topics(timeout=10).brokers.values()
        except KafkaException:
            return {}
        return {one.id: (one.host, one.port) for one in found}

    expected = {number: ("localhost", site.port(written[2])) for number, written in PORTS.items()}
    eventually(lambda: addresses() == expected, within_ms=60_000, what="all brokers, by their addresses at HAProxy")
    continues_through_a_killed_leader(words, TOPIC, [*PORTS], lambda leader: brokers[leader].process.kill())
    by_address = AdminClient(words | {"bootstrap.servers": f"127.0.0.1:{site.port(29090)}"})
    with pytest.raises(KafkaException):
        by_address.list_topics(timeout=3)
