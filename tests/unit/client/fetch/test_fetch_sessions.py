"""The fetcher's sessions with a real broker in this process: an idle fetch sends and receives next to nothing, and whatever
happens to broker and session, the fetcher finds what a fetch of everything would.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from headrace.client.connection.cluster import Cluster
from headrace.client.connection.connection import Connection
from headrace.client.errors import OffsetOutOfRange
from headrace.client.fetch import fetch_session, fetcher
from headrace.client.fetch.fetch_session import FetchSession
from headrace.client.fetch.fetched import FetchedPartition, TopicPartition
from headrace.client.fetch.fetcher import Fetcher
from headrace.client.fetch.wanted import Wanted
from headrace.wire.messages import fetch as wire_fetch
from tests.support.raw_kafka import RawClient, batch
from tests.support.serving_broker import ServingBroker

COUNT = 60


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path, topics={"many": COUNT, "gone": 2}) as broker:
        yield broker


@pytest.fixture
def cluster(serving: ServingBroker) -> Iterator[Cluster]:
    opened = Cluster(f"127.0.0.1:{serving.port}")
    yield opened
    opened.close()


@pytest.fixture
def raw(serving: ServingBroker) -> Iterator[RawClient]:
    with serving.client() as client:
        yield client


ALL = {TopicPartition("many", index): 0 for index in range(COUNT)}


def names(fetched: list[FetchedPartition]) -> set[int]:
    return {one.partition for one in fetched}


def test_an_idle_fetch_sends_and_receives_next_to_nothing(cluster: Cluster) -> None:
    reader = Fetcher(cluster, max_wait_ms=0, leaves_out_idle=True)
    assert names(reader.fetch(ALL)) == set(range(COUNT))
    sent: list[int] = []
    begin, finish = Connection.begin, Connection.finish

    def counted_begin(self: Connection, api_key: int, version: int, body: bytes) -> None:
        sent.append(len(body))
        begin(self, api_key, version, body)

    def counted_finish(self: Connection, **how: int) -> memoryview:
        body = finish(self, **how)
        sent.append(len(body))
        return body

    with mock.patch.object(Connection, "begin", counted_begin), mock.patch.object(Connection, "finish", counted_finish):
        assert reader.fetch(ALL) == []
    assert sum(sent) < 60


def test_where_no_session_is_kept_those_that_were_served_last_are_asked_for_last() -> None:
    """Fault of the mirror: brokers serve a fetch in its order, and the order was always the same. The last partitions waited."""
    session = FetchSession()
    many = [TopicPartition("many", index) for index in range(3)]
    for name in many:
        session.put(name, 0)
    first = []
    for turn in range(6):
        (topic,) = session.ask(1).topics
        session.answered(0)
        first.append(topic.partitions[0].index)
        session.put(many[first[-1]], turn + 1)
    assert first == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("count", [COUNT // 2, COUNT])
def test_an_idle_fetch_touches_no_partition(cluster: Cluster, count: int) -> None:
    wanted = Wanted({TopicPartition("many", index): 0 for index in range(count)})
    reader = Fetcher(cluster, max_wait_ms=0, leaves_out_idle=True)
    reader.fetch(wanted)
    with (
        mock.patch.object(FetchSession, "put", side_effect=AssertionError),
        mock.patch.object(FetchSession, "unmoved", side_effect=AssertionError),
        mock.patch.object(wire_fetch, "FetchPartition", side_effect=AssertionError),
        mock.patch.object(Cluster, "leader", side_effect=AssertionError),
    ):
        assert reader.fetch(wanted) == []


def test_only_what_has_news_comes_and_what_did_not_fit_is_behind(cluster: Cluster, raw: RawClient) -> None:
    data = batch(b"x" * 100)
    reader = Fetcher(cluster, max_wait_ms=0, max_bytes=1, partition_max_bytes=1, leaves_out_idle=True)
    wanted = Wanted(ALL)
    reader.fetch(wanted)
    for index in (3, 5):
        raw.produce("many", data, partition=index)
    for present in ({3, 5}, {5}):
        fetched = reader.fetch(wanted)
        assert names(fetched) == present
        (served,) = [one for one in fetched if one.batches]
        assert sum(one.next_offset < one.high_watermark for one in fetched) == len(present) - 1
        wanted.move(TopicPartition("many", served.partition), served.next_offset)
    assert reader.fetch(wanted) == []


def test_without_leaving_out_every_partition_is_there_with_its_end(cluster: Cluster, raw: RawClient) -> None:
    data = batch(b"one")
    raw.produce("many", data, partition=4)
    reader = Fetcher(cluster, max_wait_ms=0)
    wanted = {**ALL, TopicPartition("many", 4): len(data)}
    first, second = reader.fetch(wanted), reader.fetch(wanted)
    assert names(second) == names(first) == set(range(COUNT))
    assert {one.partition: one.high_watermark for one in second}[4] == len(data)


def test_a_partition_taken_out_and_back_is_behind_still(cluster: Cluster, raw: RawClient) -> None:
    """Fault of a draft: its end was forgotten with it, the broker had no news of it, so it counted as caught up."""
    data = batch(b"x" * 100)
    for index in (3, 5):
        raw.produce("many", data, partition=index)
    reader = Fetcher(cluster, max_wait_ms=0, max_bytes=1, partition_max_bytes=1, leaves_out_idle=True)
    wanted = Wanted(ALL)
    (unserved,) = [one for one in reader.fetch(wanted) if not one.batches and one.high_watermark]
    wanted.drop(TopicPartition("many", unserved.partition))
    wanted.move(TopicPartition("many", unserved.partition), 0)
    assert unserved.partition in names(reader.fetch(wanted))


def test_a_partition_that_fails_for_now_keeps_no_other_waiting(serving: ServingBroker, cluster: Cluster, raw: RawClient) -> None:
    reader = Fetcher(cluster, max_wait_ms=0, leaves_out_idle=True)
    wanted = {**ALL, TopicPartition("gone", 1): 0}
    reader.fetch(wanted)
    serving.on_loop(lambda: serving.topics.delete("gone", lambda _: None))
    raw.produce("many", batch(b"one"), partition=2)
    for _ in range(3):
        fetched = {(one.topic, one.partition): one for one in reader.fetch(wanted)}
        assert fetched.keys() == {("many", 2), ("gone", 1)}
        assert fetched["gone", 1].error is not None
        assert fetched["many", 2].batches
    serving.on_loop(lambda: serving.topics.create("gone", 2, {}, lambda _: None))
    assert {(one.topic, one.partition) for one in reader.fetch(wanted)} == {("many", 2), ("gone", 1)}
    assert {(one.topic, one.partition) for one in reader.fetch(wanted)} == {("many", 2)}


def test_what_came_beside_an_offset_out_of_range_comes_again(cluster: Cluster, raw: RawClient) -> None:
    reader = Fetcher(cluster, max_wait_ms=0, leaves_out_idle=True)
    wanted = Wanted(ALL)
    reader.fetch(wanted)
    raw.produce("many", batch(b"one"), partition=2)
    wanted.move(TopicPartition("many", 5), 1_000)
    with pytest.raises(OffsetOutOfRange):
        reader.fetch(wanted)
    wanted.move(TopicPartition("many", 5), 0)
    assert 2 in names([one for one in reader.fetch(wanted) if one.batches])


@pytest.mark.parametrize("how", ["evicted", "dropped", "wrong epoch"])
def test_a_lost_session_is_begun_anew(serving: ServingBroker, cluster: Cluster, raw: RawClient, how: str) -> None:
    reader = Fetcher(cluster, max_wait_ms=0, leaves_out_idle=True)
    reader.fetch(ALL)
    sessions = serving.context.fetch_sessions
    (session_id,) = sessions._sessions
    raw.produce("many", batch(b"one"), partition=2)
    if how == "evicted":
        serving.on_loop(lambda: sessions.close(session_id))
    elif how == "dropped":
        reader.begin(ALL)
    else:
        sessions._sessions[session_id].epoch += 7
    fetched = reader.fetch(ALL)
    assert names(fetched) == set(range(COUNT))
    assert [one.partition for one in fetched if one.batches] == [2]
    assert len(sessions) == 1


def test_a_broker_without_sessions_is_asked_for_everything(tmp_path: Path) -> None:
    with (
        ServingBroker(tmp_path, topics={"many": COUNT}, settings={"max.incremental.fetch.session.cache.slots": 0}) as serving,
        serving.client() as raw,
    ):
        cluster = Cluster(f"127.0.0.1:{serving.port}")
        reader = Fetcher(cluster, max_wait_ms=0, leaves_out_idle=True)
        reader.fetch(ALL)
        raw.produce("many", batch(b"one"), partition=2)
        assert [one.partition for one in reader.fetch(ALL) if one.batches] == [2]
        cluster.close()


def test_more_than_one_session_holds_is_read_in_turns(cluster: Cluster, raw: RawClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher, "MOST_PARTITIONS", 25)
    reader = Fetcher(cluster, max_wait_ms=0, leaves_out_idle=True)
    assert sum(len(reader.fetch(ALL)) for _ in range(3)) == COUNT
    for index in range(COUNT):
        raw.produce("many", batch(b"one"), partition=index)
    read = [names(reader.fetch(ALL)) for _ in range(3)]
    assert set.union(*read) == set(range(COUNT))
    assert sorted(map(len, read)) == [10, 25, 25]
    few = {name: 0 for name in ALL if name.partition < 10}
    for _ in range(3):
        reader.fetch(few)
    assert len(reader._sessions) == 1
    assert sum(len(one.offsets) for sessions in reader._sessions.values() for one in sessions) == 10


def test_one_partition_needs_no_session(serving: ServingBroker, cluster: Cluster, raw: RawClient) -> None:
    reader = Fetcher(cluster, max_wait_ms=0)
    for _ in range(3):
        reader.fetch({TopicPartition("many", 0): 0})
    assert len(serving.context.fetch_sessions) == 0


def test_a_session_that_says_nothing_of_a_new_partition_fails_that_partition() -> None:
    session = FetchSession()
    session.put(TopicPartition("t", 0), 0)
    session.ask(1)
    session.answered(7)
    assert session.unmoved(TopicPartition("t", 0)) is None


def test_epochs_begin_again_at_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "LARGEST_EPOCH", 2)
    session = FetchSession()
    session.put(TopicPartition("t", 0), 0)
    session.put(TopicPartition("t", 1), 0)
    epochs = []
    for _ in range(4):
        epochs.append(session.ask(1).session_epoch)
        session.answered(7)
    assert epochs == [0, 1, 2, 1]


def test_whatever_happens_the_fetcher_reads_everything_once(serving: ServingBroker, cluster: Cluster, raw: RawClient) -> None:
    rolls = random.Random(29)
    reader = Fetcher(cluster, max_wait_ms=0, max_bytes=300, partition_max_bytes=300, leaves_out_idle=True)
    wanted, places = Wanted(ALL), dict(ALL)
    ends = dict.fromkeys(ALL, 0)
    for _ in range(400):
        name = TopicPartition("many", rolls.randrange(COUNT))
        match rolls.choice(["produce", "produce", "fetch", "fetch", "drop", "lose"]):
            case "produce":
                data = batch(b"x" * rolls.randrange(200))
                raw.produce("many", data, partition=name.partition)
                ends[name] += len(data)
            case "fetch":
                found = {TopicPartition("many", one.partition): one for one in reader.fetch(wanted)}
                for other, at in wanted.offsets.items():
                    if other in found:
                        assert found[other].high_watermark == ends[other]
                        assert all(header.base_offset >= at for header, _ in found[other].batches)
                        places[other] = found[other].next_offset
                    else:
                        assert at == ends[other], "left out, so caught up"
                for other in found:
                    wanted.move(other, places[other])
            case "drop" if name in wanted.offsets:
                wanted.drop(name)
            case "drop":
                wanted.move(name, places[name])
            case _:
                serving.on_loop(lambda: end_all(serving))


def end_all(serving: ServingBroker) -> None:
    sessions = serving.context.fetch_sessions
    for session_id in list(sessions._sessions):
        sessions.close(session_id)
