"""`headrace group` on a real broker: both kinds of groups. The oracle of offsets is librdkafka."""

import json
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from headrace.cli.main import main
from headrace.client.connection.cluster import Cluster
from headrace.client.consumer.zk_consumer import ZooKeeperConsumer
from headrace.client.fetch.fetched import TopicPartition as FetchPlace
from headrace.client.groups import record_steps
from tests.support.broker import BrokerProcess
from tests.support.filled_topics import create, produce
from tests.support.group_reading import consume
from tests.support.processes import eventually

VALUES = [f"{number:04d}".encode() for number in range(60)]


@pytest.fixture(scope="module")
def topic(broker: BrokerProcess) -> str:
    """Two partitions: 30 records in each, in batches of uneven length."""
    name = f"g-{uuid.uuid4().hex[:8]}"
    create(broker.address, name, 2)
    for begin, end in ((0, 14), (14, 16), (16, 60)):
        produce(broker.address, name, VALUES[begin:end], partitions=2, batch=7)
    return name


@pytest.fixture(scope="module")
def offsets(broker: BrokerProcess, topic: str) -> dict[int, list[int]]:
    """Each partition's records' offsets, as librdkafka reads them, and the end behind them."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "none", "enable.auto.commit": False})
    found: dict[int, list[int]] = {0: [], 1: []}
    try:
        consumer.assign([Place(topic, partition, 0) for partition in found])

        def read() -> bool:
            for message in consumer.consume(60, timeout=0.3):
                assert message.error() is None
                found[message.partition()].append(message.offset())
            return sum(map(len, found.values())) == 60

        eventually(read, what="60 records")
        for partition, mine in found.items():
            mine.append(consumer.get_watermark_offsets(Place(topic, partition), timeout=10)[1])
    finally:
        consumer.close()
    return found


@pytest.fixture(params=["zookeeper", "consumer"])
def group(request: pytest.FixtureRequest, broker: BrokerProcess, zookeeper: str, topic: str) -> tuple[str, str]:
    """A group of either kind that has read everything and left, and its kind."""
    name = f"{request.param}-{uuid.uuid4().hex[:8]}"
    if request.param == "zookeeper":
        with ZooKeeperConsumer(broker.address, zookeeper, name, [topic], session_timeout_ms=2_000) as consumer:
            assert len(list(consumer.stream(idle_timeout_ms=500))) == 60
    else:
        assert len(consume(broker.address, topic, name, 60)) == 60
    return name, str(request.param)


Run = tuple[int, str, str]


def run(broker: BrokerProcess, capsys: pytest.CaptureFixture[str], *words: str) -> Run:
    code = main(["group", *words, "--bootstrap", broker.address])
    told = capsys.readouterr()
    return code, told.out, told.err


def moved(broker: BrokerProcess, capsys: pytest.CaptureFixture[str], group: str, *words: str) -> dict[int, int]:
    """Reset with --execute, and return what the cluster then has committed."""
    code, _, err = run(broker, capsys, "reset", group, *words, "--execute")
    assert (code, err) == (0, "")
    _, out, _ = run(broker, capsys, "lag", group, "--json")
    return {one["partition"]: one["committed"] for one in json.loads(out)["partitions"]}


def test_every_way_of_a_reset_goes_to_a_record_or_the_logs_end(
    broker: BrokerProcess,
    capsys: pytest.CaptureFixture[str],
    group: tuple[str, str],
    topic: str,
    offsets: dict[int, list[int]],
    tmp_path: Path,
) -> None:
    name, _ = group
    ends = {partition: mine[-1] for partition, mine in offsets.items()}
    code, out, _ = run(broker, capsys, "reset", name, "--to-earliest")
    assert (code, "nothing is moved" in out) == (0, True)
    assert moved(broker, capsys, name, "--to-latest") == ends, "and the dry run moved nothing"
    assert moved(broker, capsys, name, "--shift-by", "-5") == {partition: mine[-6] for partition, mine in offsets.items()}
    assert moved(broker, capsys, name, "--shift-by", "3") == {partition: mine[-3] for partition, mine in offsets.items()}
    assert moved(broker, capsys, name, "--shift-by", "-1000") == {partition: mine[0] for partition, mine in offsets.items()}
    assert moved(broker, capsys, name, "--shift-by", "1000") == ends
    found = moved(broker, capsys, name, "--to-datetime", "1970-01-01T00:16:40.006+00:00")
    assert all(found[partition] in mine for partition, mine in offsets.items())
    for partition, mine in offsets.items():
        for position in range(0, mine[-1] + 2, 29):
            expected = next((at for at in mine if at >= position), mine[-1])
            start = moved(broker, capsys, name, "--topic", f"{topic}:{partition}", "--to-offset", str(position))[partition]
            assert start == expected or (position == 0 and start == 0)
    code, csv, _ = run(broker, capsys, "reset", name, "--shift-by", "-2", "--export")
    file = tmp_path / "plan.csv"
    file.write_text(csv)
    assert moved(broker, capsys, name, "--from-file", str(file)) == {
        int(line.split(",")[1]): int(line.split(",")[2]) for line in csv.splitlines()
    }
    assert moved(broker, capsys, name, "--to-earliest")
    assert sorted(consume(broker.address, topic, name, 60)) == VALUES, "a reader of the group gets all of it again"


def test_lag_is_told_in_bytes_and_in_records(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str], group: tuple[str, str], offsets: dict[int, list[int]]
) -> None:
    name, _ = group
    moved(broker, capsys, name, "--shift-by", "-9")
    _, out, _ = run(broker, capsys, "lag", name, "--records", "--json")
    for row in json.loads(out)["partitions"]:
        mine = offsets[row["partition"]]
        assert (row["lag_records"], row["lag_bytes"]) == (9, mine[-1] - mine[-10])
    code, out, _ = run(broker, capsys, "lag", name)
    assert (code, out.splitlines()[0].split()[:2]) == (0, ["TOPIC", "PARTITION"])


def test_a_group_with_members_is_shown_and_keeps_its_offsets(
    broker: BrokerProcess, zookeeper: str, capsys: pytest.CaptureFixture[str], group: tuple[str, str], topic: str
) -> None:
    name, kind = group
    _, listed, _ = run(broker, capsys, "list", "--json")
    assert name in {one["group"] for one in json.loads(listed)}
    if kind == "consumer":
        return
    with ZooKeeperConsumer(broker.address, zookeeper, name, [topic], session_timeout_ms=2_000, consumer_id="me") as member:
        eventually(lambda: len(member.positions()) == 2, what="assigned")
        code, out, _ = run(broker, capsys, "describe", name, "--json")
        told = json.loads(out)
        assert (code, told["kind"], [one["member"] for one in told["members"]]) == (0, "zookeeper", ["me"])
        assert told["members"][0]["partitions"] == [[topic, 0], [topic, 1]]
        code, _, err = run(broker, capsys, "reset", name, "--to-earliest", "--execute")
        assert (code, "has 1 member and keeps its offsets" in err) == (1, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["describe", "nobody"], "there is no group 'nobody'"),
        (["reset", "nobody", "--to-offset", "-4"], "offsets count from 0"),
        (["reset", "nobody", "--to-datetime", "yesterday"], "give a time such as"),
        (["reset", "nobody", "--topic", "nothing", "--to-latest"], "there is no topic 'nothing'"),
        (["reset", "nobody", "--from-file", "/nowhere.csv"], "cannot be read"),
    ],
)
def test_what_is_asked_wrongly_is_told(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    code, _, err = run(broker, capsys, *words)
    assert (code, told in err) == (2, True), err


def test_a_bad_line_of_a_file_is_named(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str], topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "plan.csv"
    for text, told in (
        (f"{topic},0,1\n{topic},x,1\n", "line 2"),
        (f"{topic},0,1\n{topic},0,2\n", "there twice"),
        ("", "no partition"),
    ):
        file.write_text(text)
        code, _, err = run(broker, capsys, "reset", "g", "--from-file", str(file))
        assert (code, told in err) == (2, True), err


def test_what_is_unread_is_counted_to_a_bound_and_estimated_beyond_it(
    broker: BrokerProcess, topic: str, offsets: dict[int, list[int]]
) -> None:
    cluster = Cluster(broker.address)
    name, mine = FetchPlace(topic, 0), offsets[0]
    for at in (0, 7, 29):
        found = record_steps.unread(cluster, name, mine[at], mine[-1], most_bytes=1 << 30)
        assert (found.records, found.is_estimate) == (30 - at, False)
        assert found.behind_ms is not None
    about = record_steps.unread(cluster, name, mine[0], mine[-1], most_bytes=1)
    assert about.is_estimate
    assert about.read_bytes < mine[-1] - mine[0], "one batch was read"
    assert 15 <= about.records <= 60, "the batches are alike"
    none = record_steps.unread(cluster, name, mine[-1], mine[-1], most_bytes=1)
    assert (none.records, none.is_estimate, none.behind_ms) == (0, False, None)
    cluster.close()
