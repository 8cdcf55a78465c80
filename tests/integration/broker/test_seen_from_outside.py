"""Metrics, health and settings of a real broker, compared with an independent client's counts and with the files on disk."""

import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.broker.monitoring.metrics_page import PREFIX, TABLE
from headrace.coordination.consumers import OffsetRegistry
from headrace.coordination.session import Session
from headrace.runtime.status import read_status
from tests.support.broker import BrokerProcess
from tests.support.processes import Process, accepts, eventually, free_port
from tests.support.raw_kafka import Closed, RawClient, batch, fetch_body, frame
from tests.support.scraping import Scrape, health
from tests.support.zookeeper import ZooKeeperProcess


@pytest.fixture(scope="module")
def http_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def broker_settings(http_port: int) -> dict[str, object]:
    return {"http.port": http_port, "max.connections": 40, "logging.level": "INFO"}


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(20)
    return name


def produced(broker: BrokerProcess, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 5})
    for number in range(count):
        producer.produce(topic, f"message {number}".encode())
    assert producer.flush(20) == 0


def consumed(broker: BrokerProcess, topic: str, count: int) -> None:
    consumer = Consumer(
        {"bootstrap.servers": broker.address, "group.id": f"group-{topic}", "auto.offset.reset": "earliest"},
    )
    consumer.subscribe([topic])
    try:
        left = count
        while left > 0:
            messages = consumer.consume(left, 20)
            assert messages, f"{left} messages missing"
            left -= len(messages)
    finally:
        consumer.close()


def bytes_on_disk(broker: BrokerProcess, topic: str, partition: str = "*") -> int:
    return sum(file.stat().st_size for file in broker.data.glob(f"{topic}-{partition}/*.log"))


def test_messages_and_bytes_are_those_that_a_client_sent_and_the_disk_holds(
    broker: BrokerProcess, http_port: int, topic: str
) -> None:
    produced(broker, topic, 1_234)
    seen = Scrape(http_port)
    assert seen.sum("messages_in_total", topic=topic) == 1_234
    size = bytes_on_disk(broker, topic)
    assert seen.sum("bytes_in_total", topic=topic) == size
    assert seen.sum("log_size_bytes", topic=topic) == size
    assert seen.sum("log_end_offset", topic=topic) == seen.sum("high_watermark", topic=topic) == size
    assert seen.sum("log_start_offset", topic=topic) == 0
    assert len(seen.all("log_end_offset", topic=topic)) == seen.sum("partitions", topic=topic) == 2
    assert seen.sum("bytes_out_total", topic=topic) == 0
    consumed(broker, topic, 1_234)
    assert Scrape(http_port).sum("bytes_out_total", topic=topic) >= size


def test_groups_of_both_kinds_are_behind_by_what_the_disk_holds_behind_their_offsets(
    broker: BrokerProcess, http_port: int, topic: str, zookeeper: str
) -> None:
    produced(broker, topic, 500)
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": f"kafka-{topic}"})
    places = [TopicPartition(topic, partition, 100) for partition in range(2)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()
    session = Session(zookeeper, name="reader").start()
    try:
        OffsetRegistry(session).put_many(f"paper-{topic}", {(topic, 0): 0, ("gone", 0): 5})
    finally:
        session.close()
    size, first = bytes_on_disk(broker, topic), bytes_on_disk(broker, topic, partition="0")

    def seen(group: str) -> float:
        return sum(Scrape(http_port).all("group_lag_bytes", group=group))

    eventually(lambda: seen(f"kafka-{topic}") == size - 200, what="read anew, after the last reading is not fresh any more")
    assert seen(f"paper-{topic}") == first
    assert Scrape(http_port).sum("group_lag_left_out") == 0
    produced(broker, topic, 100)
    eventually(lambda: seen(f"kafka-{topic}") == bytes_on_disk(broker, topic) - 200, what="more is written")


def test_requests_are_counted_once_with_their_time_and_their_errors(broker: BrokerProcess, http_port: int, topic: str) -> None:
    before = Scrape(http_port)
    with RawClient(broker.port) as client:
        for _ in range(7):
            assert client.produce(topic, batch(b"x")).error_code == 0
        assert client.produce(topic, batch(b"x")[:-1]).error_code != 0
        assert client.produce("nowhere", batch(b"x")).error_code == 3
        assert client.fetch(topic, 1 << 40).error_code == 1
    after = Scrape(http_port)

    def more(name: str, **labels: str) -> float:
        return after.sum(name, **labels) - sum(before.all(name, **labels))

    assert more("requests_total", api="Produce") == 9
    assert more("request_duration_seconds_count", api="Produce") == 9
    assert 0 < more("request_duration_seconds_sum", api="Produce") < 5
    assert more("request_duration_seconds_bucket", api="Produce", le="+Inf") == 9
    assert more("request_errors_total", api="Produce", error="CORRUPT_MESSAGE") == 1
    assert more("request_errors_total", api="Produce", error="UNKNOWN_TOPIC_OR_PARTITION") == 1
    assert more("request_errors_total", api="Fetch", error="OFFSET_OUT_OF_RANGE") == 1
    assert more("messages_in_total", topic=topic) == 7


def test_requests_that_were_answered_in_one_run_are_all_counted(broker: BrokerProcess, http_port: int, topic: str) -> None:
    before = Scrape(http_port)
    producer = Producer({"bootstrap.servers": broker.address, "batch.num.messages": 1, "linger.ms": 0})
    for _ in range(500):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(20) == 0
    after = Scrape(http_port)
    assert after.sum("requests_total", api="Produce") - sum(before.all("requests_total", api="Produce")) == 500
    assert after.sum("messages_in_total", topic=topic) == 500
    assert after.sum("bytes_in_total", topic=topic) == bytes_on_disk(broker, topic)


def test_errors_of_the_control_apis_are_counted_too(broker: BrokerProcess, http_port: int, topic: str) -> None:
    before = sum(Scrape(http_port).all("request_errors_total", api="CreateTopics", error="TOPIC_ALREADY_EXISTS"))
    admin = AdminClient({"bootstrap.servers": broker.address})
    assert "TOPIC_ALREADY_EXISTS" in str(admin.create_topics([NewTopic(topic, 1, 1)])[topic].exception(20))
    assert Scrape(http_port).sum("request_errors_total", api="CreateTopics", error="TOPIC_ALREADY_EXISTS") == before + 1


def test_connections_refusals_and_parked_fetches_are_seen(broker: BrokerProcess, http_port: int, topic: str) -> None:
    before = Scrape(http_port)
    clients = [RawClient(broker.port) for _ in range(5)]
    for client in clients:
        client.send(1, 12, fetch_body([(topic, 0, 0)], max_wait_ms=60_000))
    eventually(lambda: Scrape(http_port).sum("fetches_parked") == 5, what="five parked fetches")
    seen = Scrape(http_port)
    assert seen.sum("connections") >= 5
    assert seen.sum("connections_accepted_total") - before.sum("connections_accepted_total") == 5
    for client in clients:
        client.close()
    eventually(lambda: Scrape(http_port).sum("fetches_parked") == 0, what="no parked fetch left")

    for hostile, reason in (
        (b"\x00\x00\x00\x01garbage that is not a frame", "size"),
        (frame(3, 9, 1, b"\xff\xff\xff\xff\x0f"), "malformed"),
        (frame(300, 0, 1, b""), "not_served"),
    ):
        with RawClient(broker.port) as stranger:
            stranger.socket.sendall(hostile)
            assert stranger.is_closed_by_peer()
        assert (
            Scrape(http_port).sum("frames_rejected_total", reason=reason)
            == before.sum("frames_rejected_total", reason=reason) + 1
        )

    crowd = [RawClient(broker.port) for _ in range(45)]
    eventually(lambda: Scrape(http_port).sum("connections_refused_total", reason="too_many_connections") > 0, what="refusals")
    for client in crowd:
        client.close()
    assert "too_many_connections" in broker.log


def test_a_half_sent_request_is_memory_in_flight(broker: BrokerProcess, http_port: int) -> None:
    eventually(lambda: Scrape(http_port).sum("request_bytes_in_flight") == 0, what="nothing in flight")
    with RawClient(broker.port) as client:
        client.socket.sendall((1_000_000).to_bytes(4, "big") + b"\0\0\0\x09" + bytes(300_000))
        eventually(lambda: Scrape(http_port).sum("request_bytes_in_flight") > 200_000, what="bytes in flight")
    eventually(lambda: Scrape(http_port).sum("request_bytes_in_flight") == 0, what="memory given back")


def test_flushes_are_timed_and_what_is_not_on_disk_is_told(broker: BrokerProcess, http_port: int, topic: str) -> None:
    durable = f"durable-{topic}"
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(durable, 1, 1, config={"flush.messages": "1"})])[durable].result(20)
    before = Scrape(http_port).sum("log_flush_duration_seconds_count")
    produced(broker, durable, 3)
    produced(broker, topic, 3)
    eventually(lambda: Scrape(http_port).sum("log_flush_duration_seconds_count") > before, what="a flush")
    eventually(lambda: Scrape(http_port).sum("log_unflushed_bytes", topic=durable) == 0, what="all on disk")
    assert Scrape(http_port).sum("log_unflushed_bytes", topic=topic) == bytes_on_disk(broker, topic)


def test_consumer_groups_and_their_members_are_counted(broker: BrokerProcess, http_port: int, topic: str) -> None:
    produced(broker, topic, 10)
    before = Scrape(http_port).sum("group_members")
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        assert consumer.poll(20) is not None
        assert Scrape(http_port).sum("group_members") == before + 1
        assert Scrape(http_port).sum("groups", state="Stable") >= 1
    finally:
        consumer.close()


def test_every_metric_of_the_table_is_on_the_page_and_nothing_else(broker: BrokerProcess, http_port: int, topic: str) -> None:
    with RawClient(broker.port) as client:
        client.produce(topic, None)
    shown = {family.name: family.type for family in Scrape(http_port).families if family.name.startswith(PREFIX)}
    of_authorizer = {"access_rules"}
    assert shown == {
        PREFIX + name.removesuffix("_total"): kind for name, (kind, _, _) in TABLE.items() if name not in of_authorizer
    }


def test_alive_and_ready(broker: BrokerProcess, http_port: int) -> None:
    status = read_status(broker.folder / "status.json")
    assert status is not None
    assert status["http_port"] == http_port
    assert health(http_port, "/healthz") == (200, {"alive": True, "reasons": [], "phase": "ready", "zookeeper": "sure"})
    code, words = health(http_port, "/readyz")
    data = words.pop("data")
    assert (code, words) == (200, {"ready": True, "reasons": [], "phase": "ready", "zookeeper": "sure"})
    assert data["path"] == str(broker.data)
    assert data["free_bytes"] > 0
    assert Scrape(http_port).sum("ready") == 1


def test_ready_follows_zookeeper_away_and_back_while_the_broker_lives(tmp_path: Path, own_zookeeper: ZooKeeperProcess) -> None:
    http = free_port()
    settings = {"http.port": http, "zookeeper.session.timeout.ms": 1_500}
    with BrokerProcess(tmp_path / "broker", f"{own_zookeeper.address}/own", settings=settings):
        assert health(http, "/readyz")[0] == 200
        own_zookeeper.kill()
        eventually(lambda: health(http, "/readyz")[0] == 503, what="not ready without ZooKeeper")
        assert "ZooKeeper session" in health(http, "/readyz")[1]["reasons"][0]
        assert health(http, "/healthz")[0] == 200, "it lives and serves on"
        assert Scrape(http).sum("zookeeper_session", state="sure") == 0
        own_zookeeper.start()
        eventually(lambda: health(http, "/readyz")[0] == 200, within_ms=40_000, what="ready again")


def test_a_start_without_zookeeper_is_alive_says_what_it_waits_for_and_ends_with_1(tmp_path: Path) -> None:
    http = free_port()
    settings = {"http.port": http, "zookeeper.connection.timeout.ms": 6_000}
    broker = BrokerProcess(tmp_path, f"127.0.0.1:{free_port()}/x", settings=settings).launch()
    try:
        eventually(lambda: accepts(http), what="the HTTP port open", every_ms=10)
        assert health(http, "/healthz")[0] == 200

        def asks() -> bool:
            status, words = health(http, "/readyz")
            return status == 503 and str(words["reasons"][0]).startswith("starting: asking ZooKeeper at 127.0.0.1:")

        eventually(asks, what="the broker asks ZooKeeper", every_ms=10)
        assert broker.process.wait(20_000) == 1
    finally:
        broker.kill()


def test_a_configuration_file_runs_a_broker_and_its_faults_are_named_with_their_lines(
    tmp_path: Path, zookeeper_chroot: str
) -> None:
    port, http = free_port(), free_port()
    file = tmp_path / "broker.properties"
    good = (
        f"log.dirs={tmp_path / 'data'}\nzookeeper.connect={zookeeper_chroot}\nlisteners=PLAINTEXT://127.0.0.1:{port}\n"
        f"http.port={http}\nnum.partitions=4\nlogging.format=text\n"
    )
    file.write_text(good + "num.partitons=5\nmax.connections=none\n")
    command = [sys.executable, "-m", "headrace.cli.main", "broker"]
    wrong = subprocess.run([*command, "run", "--config", str(file)], capture_output=True, text=True, timeout=60, check=False)
    assert wrong.returncode == 2
    assert f"num.partitons: there is no such setting ({file}:7): did you mean num.partitions?" in wrong.stderr
    assert f"max.connections: 'none' is not a whole number ({file}:8)" in wrong.stderr
    missing = subprocess.run(
        [*command, "run", "--config", str(tmp_path / "no")], capture_output=True, text=True, timeout=60, check=False
    )
    assert missing.returncode == 2
    assert "cannot be read" in missing.stderr

    file.write_text(good)
    shown = subprocess.run(
        [*command, "config", "--config", str(file), "--set", "num.partitions=6", "--changed"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert f"# from: {file}:4\nhttp.port={http}\n" in shown
    assert "# from: --set\nnum.partitions=6\n" in shown

    running = Process([*command, "run", "--config", str(file)], tmp_path / "log").start()
    try:
        eventually(lambda: accepts(http) and health(http, "/readyz")[0] == 200, what="ready")
        with RawClient(port) as client:
            fields = {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": False}
            client.ask(3, 9, {"topics": [{"name": "clicks"}], "allow_auto_topic_creation": True, **fields})
        eventually(lambda: Scrape(http).sum("partitions", topic="clicks") == 4, what="the topic's partitions")
        assert running.stop() == 0
        assert " INFO    broker-1 broker_ready " in running.output()
        assert "broker_stopped" in running.output()
    finally:
        running.kill()


def test_unknown_requests_are_counted_under_one_name(broker: BrokerProcess, http_port: int) -> None:
    before = Scrape(http_port)
    for key in (300, 301):
        with RawClient(broker.port) as client:
            try:
                client.request(key, 0, b"")
            except (Closed, KeyError):
                pass
    after = Scrape(http_port)
    assert after.sum("frames_rejected_total") == sum(before.all("frames_rejected_total")) + 2
    assert after.label_values("requests_total", "api") <= {*before.label_values("requests_total", "api"), "unknown"}


def test_what_recovery_found_is_told_in_log_and_metrics(zookeeper_chroot: str, tmp_path: Path) -> None:
    http = free_port()
    with BrokerProcess(tmp_path, zookeeper_chroot, settings={"http.port": http, "num.partitions": 1}) as broker:
        produced(broker, "clicks", 10)
        assert Scrape(http).sum("recovery_cut_bytes") == 0
        broker.kill()
        (segment,) = broker.data.glob("clicks-0/*.log")
        with segment.open("ab") as file:
            file.write(b"half a batch")
        broker.restart()
        seen = Scrape(http)
        assert seen.sum("recovery_cut_bytes") == 12
        assert seen.sum("log_bad_ranges") == 0
        assert seen.sum("log_end_offset", topic="clicks") == bytes_on_disk(broker, "clicks")
        assert "log_recovered" in broker.log
