"""A stop finishes the requests in flight, loses nothing acknowledged, and ends within its bound. Real processes."""

import json
import os
import signal
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.broker.log.tools.check import check
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually, free_port
from tests.support.raw_kafka import RawClient, batch, fetch_body, fetched
from tests.support.scraping import health
from tests.support.zookeeper import ZooKeeperProcess

TOPIC = "clicks"


def create(broker: BrokerProcess, partitions: int = 1, **config: str) -> None:
    configs = [{"name": name.replace("_", "."), "value": value} for name, value in config.items()]
    topic = {"name": TOPIC, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": configs}
    with RawClient(broker.port) as client:
        answer = client.ask(19, 5, {"topics": [topic], "timeout_ms": 10_000, "validate_only": False})
    assert answer.topics[0].error_code == 0


def events(broker: BrokerProcess) -> list[str]:
    return [json.loads(line)["event"] for line in broker.log.splitlines() if line.startswith("{")]


def test_stops_under_load_lose_nothing_acknowledged_and_clients_go_on(zookeeper_chroot: str, tmp_path: Path) -> None:
    acknowledged: list[str] = []
    failed: list[str] = []
    settings = {"group.initial.rebalance.delay.ms": 0}
    with BrokerProcess(tmp_path, zookeeper_chroot, settings=settings) as broker:
        create(broker)
        producer = Producer(
            {"bootstrap.servers": broker.address, "enable.idempotence": True, "linger.ms": 1, "reconnect.backoff.max.ms": 200}
        )
        stop_sending = threading.Event()

        def send() -> None:
            number = 0
            while not stop_sending.is_set():
                name = f"message {number}"
                producer.produce(
                    TOPIC,
                    name.encode(),
                    callback=lambda error, _, name=name: (failed if error else acknowledged).append(name),
                )
                producer.poll(0)
                number += 1
                if number % 50 == 0:
                    time.sleep(0.001)

        found: list[str] = []
        stop_reading = threading.Event()

        def read() -> None:
            consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g", "reconnect.backoff.max.ms": 200})
            consumer.assign([TopicPartition(TOPIC, 0, 0)])
            while not stop_reading.is_set():
                found.extend(one.value().decode() for one in consumer.consume(1_000, 0.1) if one.error() is None)
            consumer.close()

        sender, reader = threading.Thread(target=send), threading.Thread(target=read)
        sender.start()
        reader.start()
        try:
            for _ in range(2):
                before = len(acknowledged)
                eventually(lambda before=before: len(acknowledged) > before + 300, what="messages acknowledged")
                assert broker.stop() == 0
                broker.restart()
        finally:
            stop_sending.set()
            sender.join()
        assert producer.flush(30) == 0
        assert failed == []
        try:
            eventually(lambda: len(found) >= len(acknowledged), what="a reader that goes on, too")
        finally:
            stop_reading.set()
            reader.join()
        assert found == acknowledged, "each once, in order"
        assert broker.stop() == 0
        assert events(broker).count("broker_stopped") == 3
        assert "log_recovered" not in events(broker)
    assert check(tmp_path / "data" / f"{TOPIC}-0") == []


def test_a_parked_fetch_is_answered_and_a_flush_under_way_is_waited_for(zookeeper_chroot: str, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, zookeeper_chroot) as broker:
        create(broker, flush_messages="1")
        with RawClient(broker.port, timeout_ms=20_000) as reader, RawClient(broker.port, timeout_ms=20_000) as writer:
            reader.send(1, 12, fetch_body([(TOPIC, 0, 0)], max_wait_ms=60_000, min_bytes=1 << 20))
            answer = writer.produce(TOPIC, batch(b"x"))
            assert answer.error_code == 0
            os.kill(broker.pid, signal.SIGTERM)
            _, body = reader.receive(1, 12)
            assert fetched(12, body)[TOPIC, 0].error_code == 0
            assert reader.is_closed_by_peer()
        assert broker.process.wait(20_000) == 0


def test_ready_says_no_from_the_first_moment_of_a_stop_and_alive_says_yes_to_its_last(
    zookeeper_chroot: str, tmp_path: Path
) -> None:
    http = free_port()
    with BrokerProcess(tmp_path, zookeeper_chroot, settings={"http.port": http, "shutdown.timeout.ms": 3_000}) as broker:
        create(broker)
        with RawClient(broker.port, timeout_ms=20_000) as slow:
            # A peer that does not read its response delays the stop, up to its bound.
            for _ in range(40):
                slow.produce(TOPIC, batch(bytes(1_000_000)))
            slow.send(1, 12, fetch_body([(TOPIC, 0, 0)], max_bytes=50_000_000, partition_max_bytes=50_000_000))
            os.kill(broker.pid, signal.SIGTERM)
            eventually(lambda: health(http, "/readyz")[0] == 503, every_ms=10, what="not ready")
            assert health(http, "/readyz")[1]["reasons"] == ["stopping"]
            assert health(http, "/healthz")[0] == 200
            assert broker.process.wait(20_000) == 0, "what it does not take within half of the bound is given up"


def test_the_second_signal_ends_it_at_once_and_the_next_start_finds_everything(zookeeper_chroot: str, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, zookeeper_chroot, settings={"shutdown.timeout.ms": 60_000}) as broker:
        create(broker)
        with RawClient(broker.port, timeout_ms=20_000) as slow:
            for _ in range(40):
                assert slow.produce(TOPIC, batch(bytes(1_000_000))).error_code == 0
            slow.send(1, 12, fetch_body([(TOPIC, 0, 0)], max_bytes=50_000_000, partition_max_bytes=50_000_000))
            os.kill(broker.pid, signal.SIGTERM)
            eventually(lambda: "broker_stopping" in events(broker), every_ms=10, what="the stop begun")
            os.kill(broker.pid, signal.SIGTERM)
            assert broker.process.wait(5_000) == -signal.SIGTERM
        broker.restart()
        with RawClient(broker.port) as client:
            end = client.ask(2, 7, list_end())
        assert end.topics[0].partitions[0].offset > 40_000_000


def list_end() -> dict[str, object]:
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    return {"replica_id": -1, "isolation_level": 0, "topics": [{"name": TOPIC, "partitions": [partition]}]}


def test_a_stop_that_runs_out_of_time_says_what_it_was_at_and_ends_with_3(
    tmp_path: Path, own_zookeeper: ZooKeeperProcess
) -> None:
    settings = {"shutdown.timeout.ms": 1_000, "zookeeper.session.timeout.ms": 20_000}
    with BrokerProcess(tmp_path / "broker", f"{own_zookeeper.address}/x", settings=settings) as broker:
        create(broker)
        with RawClient(broker.port) as client:
            assert client.produce(TOPIC, batch(b"x")).error_code == 0
        os.kill(own_zookeeper.pid, signal.SIGSTOP)  # ZooKeeper hangs, and with it every request to it
        os.kill(broker.pid, signal.SIGTERM)
        assert broker.process.wait(10_000) == 3
        (line,) = [one for one in map(json.loads, broker.log.splitlines()) if one["event"] == "stop_ran_out_of_time"]
        assert line["doing"]
        os.kill(own_zookeeper.pid, signal.SIGCONT)
        broker.restart()
        with RawClient(broker.port) as client:
            assert len(client.fetch(TOPIC, 0).records or b"") > 0
