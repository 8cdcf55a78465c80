"""Two brokers, each with a listener in the clear, one with mTLS for clients and one for brokers. Real processes and clients."""

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer

from headrace.client.connection.cluster import Cluster
from headrace.coordination.brokers import BrokerRegistry
from headrace.coordination.session import Session
from tests.support.broker import BrokerProcess
from tests.support.certificates import Authority
from tests.support.processes import eventually, free_port
from tests.support.raw_kafka import RawClient, batch, create_topic
from tests.support.tls_broker import keystore, trusting

NAMES = ("CLEAR", "TLS", "INNER")


class Secured(BrokerProcess):
    """A broker process with three listeners; `ports` by their names."""

    def __init__(self, folder: Path, zookeeper: str, number: int, authority: Authority, **settings: object) -> None:
        self.ports = {name: free_port() for name in NAMES}
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        words = {
            "listeners": listeners,
            "advertised.listeners": listeners.replace("127.0.0.1", "localhost"),
            "listener.security.protocol.map": "CLEAR:PLAINTEXT,TLS:SSL,INNER:SSL",
            "inter.broker.listener.name": "INNER",
            "ssl.keystore.location": keystore(authority, f"broker-{number}"),
            "ssl.truststore.location": authority.file,
            "ssl.client.auth": "required",
            **settings,
        }
        super().__init__(folder / str(number), zookeeper, broker_id=number, port=self.ports["CLEAR"], settings=words)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def brokers(zookeeper_chroot: str, tmp_path: Path, authority: Authority) -> Iterator[list[Secured]]:
    started = [Secured(tmp_path, zookeeper_chroot, number, authority) for number in (1, 2)]
    for one in started:
        one.start()
    yield started
    for one in started:
        one.stop()


def files(authority: Authority) -> dict[str, str]:
    """Return a librdkafka client's settings, with a certificate of its own."""
    certificate, key = authority.issue("client")
    return {
        "security.protocol": "ssl",
        "ssl.ca.location": str(authority.file),
        "ssl.certificate.location": str(certificate),
        "ssl.key.location": str(key),
    }


def test_each_listener_answers_with_the_brokers_addresses_on_it(
    brokers: list[Secured], authority: Authority, zookeeper_chroot: str
) -> None:
    own = trusting(authority, authority.issue("client"))
    for name in NAMES:
        with RawClient(brokers[0].ports[name], tls=None if name == "CLEAR" else own) as client:
            listed = client.ask(3, 4, {"topics": [], "allow_auto_topic_creation": False}).brokers
            described = client.ask(60, 0, {"include_cluster_authorized_operations": False}).brokers
            found = client.ask(10, 3, {"key": "some group", "key_type": 0})
        expected = {(one.broker_id, "localhost", one.ports[name]) for one in brokers}
        assert {(one.node_id, one.host, one.port) for one in listed} == expected
        assert {(one.broker_id, one.host, one.port) for one in described} == expected
        assert (found.node_id, found.host, found.port) in expected
    session = Session(zookeeper_chroot, name="test").start()
    try:
        registered = {one.broker_id: (one.port, dict(one.endpoints)) for one in BrokerRegistry(session).list()}
    finally:
        session.close()
    assert registered == {
        one.broker_id: (one.ports["INNER"], {name: ("localhost", port) for name, port in one.ports.items()}) for one in brokers
    }


def test_brokers_ask_each_other_over_mtls_so_that_a_created_topic_is_served_by_both(brokers: list[Secured]) -> None:
    missing = []
    with RawClient(brokers[1].port) as other:
        for number in range(10):
            create_topic(brokers[0].port, f"t{number}", 2, {})
            (topic,) = other.ask(3, 4, {"topics": [{"name": f"t{number}"}], "allow_auto_topic_creation": False}).topics
            if topic.error_code:
                missing.append(topic.name)
    assert missing == []
    assert "broker_not_asked_for_topics" not in brokers[0].log


def test_a_broker_whose_certificate_another_does_not_trust_is_not_waited_for_and_the_log_says_why(
    zookeeper_chroot: str, tmp_path: Path, authority: Authority
) -> None:
    stranger = Authority(tmp_path / "stranger", "stranger-ca")
    one = Secured(tmp_path, zookeeper_chroot, 1, authority)
    two = Secured(tmp_path, zookeeper_chroot, 2, authority, **{"ssl.keystore.location": keystore(stranger, "broker-2")})
    for broker in (one, two):
        broker.start()
    try:
        create_topic(one.port, "t", 2, {})
        assert "broker_not_asked_for_topics" in one.log
        assert "CERTIFICATE_VERIFY_FAILED" in one.log
    finally:
        for broker in (one, two):
            broker.stop()


def test_clients_of_every_kind_write_and_read_over_mtls(brokers: list[Secured], authority: Authority, tmp_path: Path) -> None:
    create_topic(brokers[0].port, "t", 2, {})
    bootstrap, own = f"localhost:{brokers[0].ports['TLS']}", files(authority)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **own})
    expected = {f"value {number}".encode() * 50 for number in range(2_000)}
    for number, value in enumerate(sorted(expected)):
        producer.produce("t", value, partition=number % 2)
        producer.poll(0)
    assert producer.flush(30) == 0
    # librdkafka
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest", **own})
    consumer.subscribe(["t"])
    got: set[bytes] = set()

    def all_read() -> bool:
        got.update(one.value() for one in consumer.consume(1_000, 1) if one.error() is None)
        return got == expected

    eventually(all_read, within_ms=30_000, what="all records")
    consumer.close()
    # kafka-python
    python = KafkaConsumer(
        "t",
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=10_000,
        security_protocol="SSL",
        ssl_cafile=own["ssl.ca.location"],
        ssl_certfile=own["ssl.certificate.location"],
        ssl_keyfile=own["ssl.key.location"],
    )
    read: set[bytes] = set()
    for record in python:
        read.add(record.value)
        if len(read) == len(expected):
            break
    python.close()
    assert read == expected
    # kcat
    words = [word for name, value in own.items() for word in ("-X", f"{name}={value}")]
    shown = subprocess.run(["kcat", "-b", bootstrap, *words, "-L", "-J"], capture_output=True, text=True, timeout=30, check=False)
    assert shown.returncode == 0, shown.stderr
    assert {one["name"] for one in json.loads(shown.stdout)["brokers"]} == {f"localhost:{one.ports['TLS']}" for one in brokers}
    # ours
    (tmp_path / "client.properties").write_text(
        f"security.protocol=SSL\nssl.cafile={own['ssl.ca.location']}\n"
        f"ssl.certfile={own['ssl.certificate.location']}\nssl.keyfile={own['ssl.key.location']}\n"
    )
    cluster = Cluster(bootstrap, security=tmp_path / "client.properties")
    assert cluster.partitions("t") == [0, 1]
    cluster.close()


def test_a_storm_of_reconnects_is_served_and_open_connections_go_on_meanwhile(
    brokers: list[Secured], authority: Authority
) -> None:
    create_topic(brokers[0].port, "t", 1, {})
    own = trusting(authority, authority.issue("client"))
    leader = next(one for one in brokers if _leads(one))
    refused: list[BaseException] = []

    def reconnect() -> None:
        try:
            for _ in range(25):
                with RawClient(leader.ports["TLS"], tls=own, timeout_ms=30_000) as client:
                    client.ask(18, 3, {"client_software_name": "t", "client_software_version": "1"})
        except Exception as error:
            refused.append(error)

    with RawClient(leader.ports["TLS"], tls=own, timeout_ms=30_000) as other:
        threads = [threading.Thread(target=reconnect) for _ in range(12)]
        for thread in threads:
            thread.start()
        written = 0
        while any(thread.is_alive() for thread in threads):
            assert other.produce("t", batch(b"x")).error_code == 0
            written += 1
        for thread in threads:
            thread.join()
    assert refused == []
    assert written > 20


def _leads(broker: BrokerProcess) -> bool:
    with RawClient(broker.port) as client:
        return client.produce("t", batch(b"x")).error_code == 0
