"""Two brokers whose listeners all want a login, and clients of every kind. Real processes, ZooKeeper and certificates."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer
from kafka import KafkaProducer as PythonProducer

from headrace.cli.main import main
from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.fetch.read_range import read_range
from headrace.client.producer.producer import Producer as OurProducer
from headrace.coordination.session import Session
from headrace.wire.batch.record_batch import iter_records
from headrace.wire.errors import ErrorCode
from tests.support.certificates import Authority
from tests.support.login_broker import log_in
from tests.support.login_process import CLIENT, MECHANISMS, PASSWORD, PLANTED, LoggedIn, user
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient
from tests.support.tls_broker import trusting
from tests.support.token_endpoint import TokenEndpoint


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def endpoint() -> Iterator[TokenEndpoint]:
    made = TokenEndpoint({CLIENT: "token-secret"})
    yield made
    made.close()


@pytest.fixture(scope="module")
def brokers(
    zookeeper: str, tmp_path_factory: pytest.TempPathFactory, authority: Authority, endpoint: TokenEndpoint
) -> Iterator[list[LoggedIn]]:
    folder = tmp_path_factory.mktemp("brokers")
    assert user(folder, "add", "broker", "--zookeeper", zookeeper, password=PLANTED) == 0
    assert user(folder, "add", "alice", "--zookeeper", zookeeper, password=PASSWORD) == 0
    started = [LoggedIn(folder, zookeeper, number, authority, endpoint) for number in (1, 2)]
    for one in started:
        one.start()
    yield started
    for one in started:
        one.stop()


@pytest.fixture
def words(authority: Authority, endpoint: TokenEndpoint) -> Callable[[str], dict[str, str]]:
    """Returns a client's settings by librdkafka's names, which are ours, too."""

    def settings(mechanism: str) -> dict[str, str]:
        common = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(authority.file),
            "sasl.mechanism": mechanism,
        }
        if mechanism == "OAUTHBEARER":
            return common | {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": endpoint.url,
                "sasl.oauthbearer.client.id": CLIENT,
                "sasl.oauthbearer.client.secret": "token-secret",
            }
        return common | {"sasl.username": "alice", "sasl.password": PASSWORD}

    return settings


def properties(folder: Path, settings: dict[str, str]) -> Path:
    path = folder / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()).replace("\\", "\\\\"))
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_client_and_librdkafka_write_and_read_with_each_mechanism(
    brokers: list[LoggedIn], words: Callable[[str], dict[str, str]], tmp_path: Path, mechanism: str
) -> None:
    settings, topic = words(mechanism), f"t-{mechanism}"
    bootstrap = f"localhost:{brokers[0].ports['TLS']}"
    cluster = Cluster(bootstrap, request_timeout_ms=15_000, security=properties(tmp_path, settings))
    try:
        create_topic(cluster, topic, partitions=1)
        producer = OurProducer(cluster, linger_ms=5)
        ours = [b"ours-%d" % number for number in range(200)] + [b"x" * 300_000]
        for value in ours:
            producer.send(topic, value, partition=0, timestamp_ms=1)
        producer.flush(30_000)
        producer.close(5_000)
        librdkafka = Producer({"bootstrap.servers": bootstrap, **settings})
        theirs = [b"theirs-%d" % number for number in range(200)] + [b"x" * 300_000]
        for value in theirs:
            librdkafka.produce(topic, value, partition=0)
        assert librdkafka.flush(30) == 0
        batches = read_range(cluster, topic, 0, 0, 1_000_000)
        assert [record.value for _, batch in batches for record in iter_records(batch)] == ours + theirs
    finally:
        cluster.close()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest", **settings})
    consumer.subscribe([topic])
    got: list[bytes] = []

    def all_read() -> bool:
        got.extend(one.value() for one in consumer.consume(1_000, 1) if one.error() is None)
        return got == ours + theirs

    eventually(all_read, within_ms=30_000, what="all records")
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
def test_kafka_python_and_kcat_write_and_read(
    brokers: list[LoggedIn], authority: Authority, words: Callable[[str], dict[str, str]], tmp_path: Path, mechanism: str
) -> None:
    bootstrap, topic = f"localhost:{brokers[0].ports['TLS']}", f"p-{mechanism}"
    own = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(authority.file),
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": PASSWORD,
    }
    producer = PythonProducer(**own)
    producer.send(topic, b"from python").get(20)
    producer.close()
    file = tmp_path / "kcat.conf"  # -X takes a comma for the end of a value
    file.write_text("".join(f"{name}={value}\n" for name, value in words(mechanism).items()))
    command = ["kcat", "-F", str(file), "-b", bootstrap, "-P", "-t", topic]
    sent = subprocess.run(command, input=b"from kcat\n", capture_output=True, timeout=30, check=False)
    assert sent.returncode == 0, sent.stderr
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=10_000, **own)
    read = [record.value for record, _ in zip(consumer, range(2), strict=False)]
    consumer.close()
    assert sorted(read) == [b"from kcat", b"from python"]


def test_brokers_log_in_to_each_other_so_that_a_created_topic_is_served_by_both(
    brokers: list[LoggedIn], words: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    own = properties(tmp_path, words("SCRAM-SHA-512"))
    clusters = [Cluster(f"localhost:{one.ports['TLS']}", security=own) for one in brokers]
    for number in range(5):
        create_topic(clusters[0], f"both-{number}", partitions=2)
        assert clusters[1].partitions(f"both-{number}") == [0, 1]
    for cluster in clusters:
        cluster.close()
    assert "broker_not_asked_for_topics" not in brokers[0].log


def test_users_are_listed_changed_and_removed_over_the_wire_and_every_broker_knows_it(
    brokers: list[LoggedIn],
    authority: Authority,
    words: Callable[[str], dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HEADRACE_CLIENT_CONFIG", str(properties(tmp_path, words("SCRAM-SHA-512"))))
    at = ("--bootstrap", f"localhost:{brokers[0].ports['TLS']}")
    trust = trusting(authority)

    def outcome(broker: LoggedIn, password: str) -> int:
        with RawClient(broker.ports["TLS"], tls=trust) as client:
            return int(log_in(client, "carol/ünï", password).error_code)

    refused = int(ErrorCode.SASL_AUTHENTICATION_FAILED)
    assert user(tmp_path, "add", "carol/ünï", *at, password="first") == 0
    assert outcome(brokers[0], "first") == 0  # the broker that was asked knows it at once
    eventually(lambda: outcome(brokers[1], "first") == 0, within_ms=10_000, what="carol on the other broker")
    assert user(tmp_path, "add", "carol/ünï", *at, password="second") == 0
    eventually(
        lambda: [outcome(one, "first") for one in brokers] == [refused] * 2, within_ms=10_000, what="the old password is out"
    )
    assert [outcome(one, "second") for one in brokers] == [0, 0]
    capsys.readouterr()
    assert user(tmp_path, "list", "--json", *at) == 0
    listed = {one["name"]: one["mechanisms"] for one in json.loads(capsys.readouterr().out)}
    assert listed["carol/ünï"] == {"SCRAM-SHA-256": 4_096, "SCRAM-SHA-512": 4_096}
    assert user(tmp_path, "remove", "carol/ünï", *at) == 0
    eventually(lambda: [outcome(one, "second") for one in brokers] == [refused] * 2, within_ms=10_000, what="carol is gone")
    assert user(tmp_path, "remove", "carol/ünï", *at) == 2


def test_a_user_in_kafkas_own_node_logs_in(brokers: list[LoggedIn], authority: Authority, zookeeper: str) -> None:
    """The node has the form that Kafka documents, with the example of RFC 7677 in it."""
    text = (
        "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
        "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096"
    )
    session = Session(zookeeper, name="test").start()
    try:
        session.tree.create("/config/users/d%20e%2Av", json.dumps({"version": 1, "config": {"SCRAM-SHA-256": text}}).encode())
    finally:
        session.close()

    def is_in() -> bool:
        with RawClient(brokers[1].ports["TLS"], tls=trusting(authority)) as client:
            return not log_in(client, "d e*v", "pencil", "SCRAM-SHA-256").error_code

    eventually(is_in, within_ms=10_000, what="the user of Kafka's tool")


def test_a_copy_of_the_tree_has_the_users_and_is_for_its_owner_only(
    brokers: list[LoggedIn], zookeeper: str, tmp_path: Path
) -> None:
    copy = tmp_path / "tree.json"
    assert main(["zookeeper", "export", "--zookeeper", zookeeper, str(copy)]) == 0
    nodes = json.loads(copy.read_text())["nodes"]
    assert {"/config/users/alice", "/config/login_secret"} <= set(nodes)
    assert copy.stat().st_mode & 0o077 == 0


def test_no_password_is_in_a_log_or_a_title(brokers: list[LoggedIn]) -> None:
    for one in brokers:
        for secret in (PLANTED, PASSWORD, "token-secret", "eyJ"):
            assert secret not in one.log
            assert secret not in Path(f"/proc/{one.pid}/cmdline").read_text()
