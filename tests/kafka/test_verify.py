"""`headrace mirror verify` with Apache Kafka at an end: through the ledger, by the CRC with the producer's fields neutral."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from crc32c import crc32c  # the library itself: the oracle makes a CRC right without our code

from tests.kafka.copying import Cluster, Copying, make_topic, numbered, send
from tests.support.broker import BrokerProcess
from tests.support.kafka import KafkaProcess

IN_ORDER = {"batch.num.messages": 20, "enable.idempotence": True}


def verify(source: Cluster, destination: Cluster, name: str, *words: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "headrace.cli.main", "mirror", "verify", "--json", "--settle-ms", "500", "--name", name]
    command += ["--from", source.address, "--to", destination.address, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("pair", ["ours-kafka", "kafka-kafka", "kafka-ours"])
def test_a_copy_is_the_same_and_what_was_sent_behind_a_dead_mirror_is_missing(
    ours: BrokerProcess, kafka: KafkaProcess, other_kafka: KafkaProcess, topic: str, tmp_path: Path, pair: str
) -> None:
    source: Cluster = ours if pair == "ours-kafka" else other_kafka
    destination: Cluster = ours if pair == "kafka-ours" else kafka
    make_topic(source, topic, 2)
    values = numbered("a", 2_000)
    for partition in range(2):
        send(source, topic, values, partition=partition, **IN_ORDER, **{"compression.type": "lz4"})
    with Copying(tmp_path, source, destination, name=topic, words=("--topics", topic)) as copying:
        copying.start()
        copying.await_copied({(topic, 0): values, (topic, 1): values})
    code, found = verify(source, destination, topic, "--topics", topic)
    assert (code, found["same"], found["partitions"]) == (0, True, 2), found
    assert found["batches"] >= 200

    send(source, topic, numbered("b", 50), partition=1, **{"batch.num.messages": 10})
    code, found = verify(source, destination, topic, "--topics", topic)
    assert code == 1
    (missing,) = found["differences"]
    assert (missing["kind"], missing["partition"], missing["destination"]) == ("missing", 1, None)
    assert missing["batches"] >= 5


def test_a_batch_that_was_altered_in_kafkas_own_files_with_its_crc_made_right_is_found(
    ours: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    destination = KafkaProcess(tmp_path / "altered").start()
    try:
        make_topic(ours, topic)
        values = numbered("a", 500)
        send(ours, topic, values, **{"batch.num.messages": 10})
        with Copying(tmp_path, ours, destination, name=topic, words=("--topics", topic)) as copying:
            copying.start()
            copying.await_copied({(topic, 0): values})
        destination.stop()
        segment = max((destination._node.data / f"{topic}-0").glob("*.log"), key=lambda path: path.stat().st_size)
        data, at, batches = bytearray(segment.read_bytes()), 0, []
        while at < len(data):
            size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
            if not data[at + 22] & 0x20:  # no marker
                batches.append((at, size))
            at += size
        at, size = batches[len(batches) // 2]
        data[at + size - 20] ^= 0x01
        data[at + 17 : at + 21] = crc32c(bytes(data[at + 21 : at + size])).to_bytes(4, "big")
        segment.write_bytes(data)
        destination.start()
        code, found = verify(ours, destination, topic, "--topics", topic)
        assert code == 1
        base = int.from_bytes(data[at : at + 8], "big")
        (altered,) = found["differences"]
        assert (altered["kind"], altered["destination"]["from_offset"], altered["batches"]) == ("altered", base, 1)
    finally:
        destination.kill()


def test_a_stranger_in_the_copy_is_extra_and_a_refused_batch_is_named(
    ours: BrokerProcess, kafka: KafkaProcess, topic: str, tmp_path: Path
) -> None:
    make_topic(ours, topic)
    make_topic(kafka, topic, max_message_bytes="20000")
    before, large, after = numbered("before", 10), [b"L" * 50_000], numbered("after", 10)
    for values in (before, large, after):
        send(ours, topic, values)
    with Copying(tmp_path, ours, kafka, name=topic, words=("--topics", topic)) as copying:
        copying.start()
        copying.await_copied({(topic, 0): before + after})
    send(kafka, topic, [b"stranger"])
    code, found = verify(ours, kafka, topic, "--topics", topic)
    assert code == 1
    assert [(one["kind"], one["batches"]) for one in found["differences"]] == [("refused", 1), ("extra", 1)]


def test_a_compacted_source_and_its_markers_are_no_difference(
    other_kafka: KafkaProcess, kafka: KafkaProcess, topic: str, tmp_path: Path
) -> None:
    make_topic(other_kafka, topic, message_timestamp_type="LogAppendTime")
    values = numbered("a", 300)
    send(other_kafka, topic, values, **{"batch.num.messages": 10})
    with Copying(tmp_path, other_kafka, kafka, name=topic, words=("--topics", topic)) as copying:
        copying.start()
        copying.await_copied({(topic, 0): values})
    code, found = verify(other_kafka, kafka, topic, "--topics", topic)
    assert (code, found["batches"] >= 30) == (0, True), found


def test_a_running_mirror_towards_kafka_raises_no_false_alarm(
    ours: BrokerProcess, kafka: KafkaProcess, topic: str, tmp_path: Path
) -> None:
    make_topic(ours, topic)
    send(ours, topic, numbered("a", 100))
    with Copying(tmp_path, ours, kafka, name=topic, words=("--topics", topic)) as copying:
        copying.start()
        copying.await_copied({(topic, 0): numbered("a", 100)})
        for number in range(4):
            send(ours, topic, numbered(f"b{number}", 5_000), **{"batch.num.messages": 50})
            code, found = verify(ours, kafka, topic, "--topics", topic, "--settle-ms", "30000")
            assert code == 0, found


def test_without_a_ledger_the_name_is_asked_for(ours: BrokerProcess, kafka: KafkaProcess, topic: str) -> None:
    make_topic(ours, topic)
    send(ours, topic, [b"one"])
    command = [sys.executable, "-m", "headrace.cli.main", "mirror", "verify", "--name", "nobody", "--topics", topic]
    done = subprocess.run([*command, "--from", ours.address, "--to", kafka.address], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert "_headrace.mirror.nobody" in done.stderr
    assert "--name" in done.stderr


def test_renamed_and_prefixed_copies_go_under_their_names_and_are_the_same(
    ours: BrokerProcess, kafka: KafkaProcess, topic: str, tmp_path: Path
) -> None:
    make_topic(ours, topic)
    make_topic(ours, f"{topic}_old")
    values = numbered("a", 300)
    for one in (topic, f"{topic}_old"):
        send(ours, one, values)
    words = ("--topics", f"{topic}.*", "--replication-policy", "default", "--source-alias", "live")
    words += ("--rename", r"(clicks_.*)_old=\1_new")
    with Copying(tmp_path, ours, kafka, name=topic, words=words) as copying:
        copying.start()
        copying.await_copied({(f"live.{topic}", 0): values, (f"{topic}_new", 0): values})
        there = AdminClient({"bootstrap.servers": kafka.address}).list_topics(timeout=10).topics
        assert topic not in there
        # A restart continues under the same names, and copies nothing twice.
        copying.kill()
        send(ours, topic, numbered("b", 100))
        copying.start()
        copying.await_copied({(f"live.{topic}", 0): values + numbered("b", 100), (f"{topic}_new", 0): values})
    code, found = verify(ours, kafka, topic, "--topics", f"{topic}.*")
    assert (code, found["partitions"]) == (0, 2), found
