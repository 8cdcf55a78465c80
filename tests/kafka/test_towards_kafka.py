"""Copies towards Apache Kafka, of our broker and of another Kafka: each record once, in order, with its time."""

from pathlib import Path

import pytest

from tests.kafka.copying import Copying, make_topic, numbered, send
from tests.support.broker import BrokerProcess
from tests.support.kafka import KafkaProcess
from tests.support.processes import eventually


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_arrives_from_our_broker(
    ours: BrokerProcess, kafka: KafkaProcess, topic: str, tmp_path: Path, codec: str
) -> None:
    make_topic(ours, topic, 2)
    expected = {(topic, partition): numbered(f"{codec}-{partition}", 2_000) for partition in range(2)}
    for (_, partition), values in expected.items():
        send(ours, topic, values, partition=partition, **{"compression.type": codec})
    with Copying(tmp_path, ours, kafka, name=topic, words=("--topics", topic)) as copying:
        copying.start()
        copying.await_copied(expected)
        eventually(lambda: copying.counted(topic) == 4_000, what="all reported")
        assert copying.mirror.stop() == 0
