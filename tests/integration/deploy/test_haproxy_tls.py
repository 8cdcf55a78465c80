"""HAProxy with `deploy/haproxy/brokers.cfg` as the only way to three secured brokers: TLS passes through, a client checks the
names in the certificates, and continues while a leader is killed.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.deploy.site import Site
from tests.support.broker import BrokerProcess
from tests.support.certificates import Authority
from tests.support.login_process import user
from tests.support.processes import Process, eventually
from tests.support.tls_broker import keystore

pytestmark = pytest.mark.needs("haproxy")

HAPROXY = ["env", f"PATH={os.environ.get('PATH', '')}:/usr/sbin", "haproxy"]
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
    file = site.install("haproxy/brokers.cfg")
    checked = subprocess.run([*HAPROXY, "-c", "-f", str(file)], capture_output=True, text=True, timeout=30, check=False)
    assert checked.returncode == 0, checked.stderr
    process = Process([*HAPROXY, "-f", str(file)], site.folder / "haproxy.log")
    process.start()
    yield process
    process.kill()


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
    admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result(30)

    def in_sync() -> int:
        return len(admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions[0].isrs)

    eventually(lambda: in_sync() == 3, within_ms=60_000, what="all replicas in sync")
    lost: list[object] = []
    producer = Producer(words | {"acks": "all", "enable.idempotence": True})

    def send(first: int) -> None:
        for number in range(first, first + 100):
            producer.produce(TOPIC, str(number), on_delivery=lambda error, _: lost.append(error) if error else None)
        assert producer.flush(60) == 0

    send(0)
    brokers[admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions[0].leader].process.kill()
    send(100)
    assert lost == []
    consumer = Consumer(words | {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    read: list[int] = []

    def all_read() -> bool:
        read.extend(int(one.value() or b"") for one in consumer.consume(500, timeout=0.5) if one.error() is None)
        return len(read) >= 200

    eventually(all_read, within_ms=60_000, what="every record")
    assert read == [*range(200)]
    consumer.close()
    by_address = AdminClient(words | {"bootstrap.servers": f"127.0.0.1:{site.port(29090)}"})
    with pytest.raises(KafkaException):
        by_address.list_topics(timeout=3)
