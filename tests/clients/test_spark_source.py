"""Apache Spark's own Kafka source, which computes with offsets: it splits ranges of them, stops at their ends, and needs all
announced offsets. Every produced record is a row once, however the ranges are cut.
"""

import io
import json
import os
import subprocess
import uuid
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pytest

from tests.clients.answers.side import Side
from tests.clients.positions.topics import KEPT, SMALL_SEGMENTS, Topic, filled
from tests.clients.spark import pieces
from tests.support.broker import BrokerProcess

SCHEMA = {
    "type": "record",
    "name": "Reading",
    "fields": [{"name": "number", "type": "long"}, {"name": "word", "type": ["null", "string"]}],
}
READINGS = [{"number": number, "word": f"w{number}"} for number in range(40)]
KINDS = ("sizes", "segments", "dense", "codecs", "large")


class Read(NamedTuple):
    """Rows of (topic, offset, value), and the number of their partitions or micro-batches."""

    rows: list[tuple[str, int, str]]
    parts: int


class Reads(NamedTuple):
    topics: dict[str, Topic]
    found: dict[str, Any]

    def of(self, name: str) -> Read:
        found = self.found[name]
        assert "failed" not in found, found["failed"]
        return Read([(topic, offset, value) for topic, offset, value in found["rows"]], found["parts"])

    def records(self, *kinds: str, from_: int = 0, to: int = 2**62) -> Counter[tuple[str, int, str]]:
        return Counter(
            (self.topics[kind].name, offset, value.decode())
            for kind in kinds
            for offset, value in self.topics[kind].records(from_)
            if offset < to
        )


def encoded(reading: dict[str, object]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, reading)
    return out.getvalue()


@pytest.fixture(scope="module")
def reads(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Reads:
    """All of Spark's reads, in one run: its start takes most of the time."""
    python, jars = pieces.python(), pieces.jars()
    side = Side("ours", broker.port)
    topics = {
        kind: filled(side, f"spark-{kind}-{uuid.uuid4().hex[:8]}", kind, KEPT | SMALL_SEGMENTS.get(kind, {})) for kind in KINDS
    }
    avro = topics["avro"] = Topic(side.make(f"spark-avro-{uuid.uuid4().hex[:8]}"), side)
    for at in range(0, len(READINGS), 10):
        avro.append([encoded(one) for one in READINGS[at : at + 10]])
    asked = questions(topics)
    out = tmp_path_factory.mktemp("spark") / "out.json"
    words = [str(python), str(Path(pieces.__file__).with_name("job.py")), broker.address, ",".join(map(str, jars)), str(out)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and not name.startswith("SPARK")}
    done = subprocess.run(
        [*words, json.dumps(list(asked.values()))],
        env={**environment, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5_000:]
    return Reads(topics, dict(zip(asked, json.loads(out.read_text()), strict=True)))


def questions(topics: dict[str, Topic]) -> dict[str, dict[str, Any]]:
    everything = [topics[kind].name for kind in KINDS]
    asked: dict[str, dict[str, Any]] = {
        "whole": {"topics": everything},
        "again": {"topics": everything},
        "split": {"topics": everything, "options": {"minPartitions": "23"}},
        "stream": {"topics": everything, "stream": True},
        "limited": {"topics": everything, "stream": True, "options": {"maxOffsetsPerTrigger": "20000"}},
        "limited, one topic": {"topics": [topics["sizes"].name], "stream": True, "options": {"maxOffsetsPerTrigger": "150"}},
        "avro": {"topics": [topics["avro"].name], "avro": json.dumps(SCHEMA)},
    }
    for name, (from_, to) in ranges(topics["sizes"]).items():
        ends = {"startingOffsets": from_, "endingOffsets": to}
        told = {word: json.dumps({topics["sizes"].name: {"0": offset}}) for word, offset in ends.items()}
        asked[name] = {"topics": [topics["sizes"].name], "options": told}
    return asked


def ranges(topic: Topic) -> dict[str, tuple[int, int]]:
    """Return ranges that begin and end at every kind of offset."""
    middle = topic.start("the middle of a batch")
    return {
        "from a gap to the end": (topic.start("inside the last gap"), topic.end),
        "from the middle of a batch into a gap": (middle, topic.start("inside the last gap")),
        "from right behind a record to the record behind": (
            topic.start("right behind a record, where the last gap begins"),
            topic.start("the record behind the last gap") + 1,
        ),
        "within a gap": (topic.start("right behind a record, where the last gap begins"), topic.start("where the last gap ends")),
        "the last record": (topic.start("the last record"), topic.end),
    }


@pytest.mark.parametrize("name", ["whole", "again", "split", "stream", "limited"])
def test_every_record_is_a_row_once(reads: Reads, name: str) -> None:
    assert Counter(reads.of(name).rows) == reads.records(*KINDS)


def test_the_same_read_twice_gives_the_same_rows(reads: Reads) -> None:
    assert sorted(reads.of("whole").rows) == sorted(reads.of("again").rows)


def test_ranges_are_split_as_was_asked(reads: Reads) -> None:
    assert reads.of("split").parts >= 23


def test_a_stream_is_cut_at_offsets_and_misses_nothing(reads: Reads) -> None:
    found = reads.of("limited, one topic")
    assert [row[1] for row in found.rows] == [offset for offset, _ in reads.topics["sizes"].records()]
    assert found.parts > 5


@pytest.mark.parametrize(
    "name",
    [
        "from a gap to the end",
        "from the middle of a batch into a gap",
        "from right behind a record to the record behind",
        "within a gap",
        "the last record",
    ],
)
def test_a_range_gives_the_records_within_it(reads: Reads, name: str) -> None:
    from_, to = ranges(reads.topics["sizes"])[name]
    assert Counter(reads.of(name).rows) == reads.records("sizes", from_=from_, to=to)


def test_avro_values_are_decoded_in_order(reads: Reads) -> None:
    assert [json.loads(value) for _, _, value in reads.of("avro").rows] == READINGS
