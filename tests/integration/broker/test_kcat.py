"""kcat, the usual debugging tool, against a real broker process: every codec, ends, seeks, its `-e` at byte offsets."""

import json
import subprocess

import pytest

from tests.support.broker import BrokerProcess


def kcat(broker: BrokerProcess, *words: str, stdin: str = "") -> str:
    """Run kcat to its end and return what it printed."""
    done = subprocess.run(
        ["kcat", "-b", broker.address, *words], input=stdin, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(broker: BrokerProcess, topic: str, offset: str = "beginning", *, what: str = "%s\n") -> list[str]:
    return kcat(broker, "-C", "-e", "-q", "-t", topic, "-p", "0", "-o", offset, "-f", what).splitlines()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kcat_writes_and_reads_to_the_end_in_each_codec(broker: BrokerProcess, topic: str, codec: str) -> None:
    lines = [f"line {number}" for number in range(1_000)]
    kcat(broker, "-P", "-t", topic, "-p", "0", "-z", codec, stdin="\n".join(lines))
    assert read(broker, topic) == lines


def test_kcat_begins_in_the_middle_of_a_batch_and_in_the_gap_in_front_of_it(broker: BrokerProcess, topic: str) -> None:
    for lines in ("a\nb\nc", "d\ne"):
        kcat(broker, "-P", "-t", topic, "-p", "0", "-X", "linger.ms=100", stdin=lines)
    offsets = [int(line) for line in read(broker, topic, what="%o\n")]
    assert offsets == [*range(offsets[0], offsets[0] + 3), offsets[3], offsets[3] + 1]
    assert read(broker, topic, "1") == ["a", "b", "c", "d", "e"]
    assert read(broker, topic, str(offsets[1])) == ["b", "c", "d", "e"]
    for offset in (offsets[2] + 1, offsets[3] - 1, offsets[3]):
        assert read(broker, topic, str(offset)) == ["d", "e"]
    assert read(broker, topic, "end") == []


def test_kcat_ends_at_the_end_of_many_partitions_with_a_tiny_fetch_size(broker: BrokerProcess, topic: str) -> None:
    settings = ["-X", "fetch.max.bytes=1000", "-X", "message.max.bytes=1000", "-X", "fetch.message.max.bytes=1000"]
    kcat(broker, "-L", "-t", topic)
    lines = [f"{number} {'x' * 200}" for number in range(300)]
    for partition in range(3):
        kcat(broker, "-P", "-t", topic, "-p", str(partition), "-X", "batch.size=500", stdin="\n".join(lines))
    got = kcat(broker, "-C", "-e", "-q", "-t", topic, "-o", "beginning", *settings).splitlines()
    assert sorted(got) == sorted(lines * 3)


def test_kcat_lists_the_broker_and_its_topics(broker: BrokerProcess, topic: str) -> None:
    kcat(broker, "-P", "-t", topic, stdin="x")
    listed = json.loads(kcat(broker, "-L", "-J"))
    assert [one["name"] for one in listed["brokers"]] == [broker.address]
    (found,) = (one for one in listed["topics"] if one["topic"] == topic)
    assert [(one["partition"], one["leader"]) for one in found["partitions"]] == [(0, 1), (1, 1), (2, 1)]


def test_kcat_asks_for_an_offset_by_time(broker: BrokerProcess, topic: str) -> None:
    kcat(broker, "-P", "-t", topic, "-p", "0", stdin="x")
    (first,) = read(broker, topic, what="%o\n")
    assert kcat(broker, "-Q", "-t", f"{topic}:0:0").strip().endswith(f"offset {first}")
    assert kcat(broker, "-Q", "-t", f"{topic}:0:-2").strip().endswith("offset 0")


@pytest.mark.parametrize("idempotent", ["true", "false"])
def test_kcat_writes_keys_headers_nulls_and_large_values_and_shows_them_again(
    broker: BrokerProcess, topic: str, idempotent: str
) -> None:
    words = ["-P", "-t", topic, "-p", "0", "-K", ":", "-X", f"enable.idempotence={idempotent}", "-X", "message.max.bytes=1500000"]
    kcat(broker, *words, "-H", "a=1", "-H", "b=2", stdin="key:value")
    kcat(broker, *words, "-Z", stdin="deleted:")
    kcat(broker, *words, stdin="large:" + "x" * 900_000)
    shown = kcat(broker, "-C", "-e", "-q", "-t", topic, "-p", "0", "-o", "beginning", "-J")
    messages = [json.loads(line) for line in shown.splitlines()]
    assert [(one["key"], one["payload"]) for one in messages] == [("key", "value"), ("deleted", None), ("large", "x" * 900_000)]
    assert messages[0]["headers"] == ["a", "1", "b", "2"]


def test_kcat_says_that_transactions_are_not_supported(broker: BrokerProcess, topic: str) -> None:
    done = subprocess.run(
        ["kcat", "-b", broker.address, "-P", "-t", topic, "-X", "transactional.id=tx"],
        input="x",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "this broker does not support transactions" in done.stderr
