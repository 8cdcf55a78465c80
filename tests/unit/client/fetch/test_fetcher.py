import struct
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.client.connection.cluster import Cluster
from headrace.client.errors import (
    AuthenticationFailed,
    BrokerError,
    BrokerUnreachable,
    ClientError,
    CorruptRead,
    OffsetOutOfRange,
    ReadStalled,
    RetriableBrokerError,
    UnknownTopic,
)
from headrace.client.fetch import fetcher as fetcher_module
from headrace.client.fetch.fetched import CorruptRange, TopicPartition
from headrace.client.fetch.fetcher import Fetcher
from headrace.client.fetch.log_offsets import EARLIEST, LATEST, log_offsets
from headrace.client.fetch.read_range import read_range
from headrace.wire.batch.record_batch import iter_records
from headrace.wire.errors import ErrorCode
from tests.support.scripted_broker import FETCH, LIST_OFFSETS, METADATA, Fault, ScriptedBroker
from tests.unit.client.batches import batch_of

CLICKS = TopicPartition("clicks", 0)


def _values(batches) -> list[bytes | None]:  # type: ignore[no-untyped-def]
    return [record.value for _, batch in batches for record in iter_records(batch)]


def test_one_fetch_reads_many_partitions(broker: ScriptedBroker, cluster: Cluster) -> None:
    for partition in range(3):
        broker.store("views", partition, batch_of([b"%d" % partition] * (partition + 1)))
    fetched = Fetcher(cluster).fetch({TopicPartition("views", partition): 0 for partition in range(3)})
    assert {one.partition: _values(one.batches) for one in fetched} == {0: [b"0"], 1: [b"1"] * 2, 2: [b"2"] * 3}
    assert [one.next_offset for one in fetched] == [1, 2, 3] == [one.high_watermark for one in fetched]
    assert broker.count(FETCH) == 1


def test_more_partitions_than_one_request_takes_are_read_in_turns(
    broker: ScriptedBroker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: our broker refuses a fetch of more than 20,000 partitions, so mirror and audit stopped at 5,000 topics of 5."""
    monkeypatch.setattr(fetcher_module, "MOST_PARTITIONS", 2)
    for partition in range(3):
        broker.store("views", partition, batch_of([b"%d" % partition]))
    wanted = {TopicPartition("views", partition): 0 for partition in range(3)}
    fetcher = Fetcher(cluster)
    read = [sorted(one.partition for one in fetcher.fetch(wanted)) for _ in range(4)]
    assert read == [[2], [0, 1], [2], [0, 1]]


def test_nothing_wanted_asks_nobody(broker: ScriptedBroker, cluster: Cluster) -> None:
    assert Fetcher(cluster).fetch({}) == []
    assert broker.requests == []


def test_offsets_are_found_by_place_and_by_time(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.store("clicks", 0, batch_of([b"a", b"b", b"c"], timestamp_ms=100))
    assert log_offsets(cluster, {CLICKS: EARLIEST}) == {CLICKS: 0}
    assert log_offsets(cluster, {CLICKS: LATEST}) == {CLICKS: 3}
    assert log_offsets(cluster, {CLICKS: 101}) == {CLICKS: 1}
    assert log_offsets(cluster, {CLICKS: 5_000}) == {CLICKS: 3}


def test_an_offset_out_of_range_says_where_the_log_begins(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.store("clicks", 0, batch_of([b"a", b"b"]))
    broker.topics["clicks"][0].log_start_offset = 1
    with pytest.raises(OffsetOutOfRange, match="clicks-0 at offset 0: the log begins at 1") as caught:
        Fetcher(cluster).fetch({CLICKS: 0})
    assert (caught.value.topic, caught.value.partition, caught.value.offset, caught.value.log_start_offset) == ("clicks", 0, 0, 1)


def test_a_partition_whose_leader_moves_does_not_keep_the_others_waiting(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.store("clicks", 0, batch_of([b"a"]))
    fetched = {one.topic: one for one in Fetcher(cluster).fetch({CLICKS: 0, TopicPartition("gone", 0): 0})}
    assert _values(fetched["clicks"].batches) == [b"a"]
    assert isinstance(fetched["gone"].error, UnknownTopic)
    assert fetched["gone"].next_offset == 0


def test_when_every_partition_fails_the_error_is_raised_and_the_metadata_asked_anew(
    broker: ScriptedBroker, cluster: Cluster
) -> None:
    broker.fail(FETCH, Fault(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    fetcher = Fetcher(cluster)
    with pytest.raises(RetriableBrokerError, match=r"NOT_LEADER_OR_FOLLOWER \(6\)"):
        fetcher.fetch({CLICKS: 0})
    asked = broker.count(METADATA)
    fetcher.fetch({CLICKS: 0})
    assert broker.count(METADATA) == asked + 1


def test_a_refusal_for_good_is_raised_even_if_others_could_be_read(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.fail(FETCH, Fault(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED") as caught:
        Fetcher(cluster).fetch({CLICKS: 0})
    assert not caught.value.retriable


@pytest.mark.parametrize("step", ["learn", "leader", "fetch"])
def test_after_a_refusal_for_good_every_partition_is_asked_for_again(
    broker: ScriptedBroker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Fault: after a refused login, nothing was read any more, and no error was raised: the registry waited for its topic, and
    the audit took the logs for read to their ends (`tests/security/test_4_credentials.py`)."""
    wanted = {TopicPartition("views", partition): 0 for partition in range(3)}
    for name in wanted:
        broker.store(*name, batch_of([b"%d" % name.partition]))
    broker.fail(FETCH, Fault(cut_at=20))
    fetcher = Fetcher(cluster, leaves_out_idle=True)
    with pytest.raises(BrokerUnreachable):
        fetcher.fetch(wanted)

    def refused(*_: object, **__: object) -> None:
        raise AuthenticationFailed(broker.address, "PLAIN", "wrong password")

    with monkeypatch.context() as patched:
        if step == "fetch":
            broker.fail(FETCH, Fault(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        else:
            patched.setattr(cluster, step, refused)
        with pytest.raises(ClientError, match=r"wrong password|TOPIC_AUTHORIZATION_FAILED"):
            fetcher.fetch(wanted)
    fetched = fetcher.fetch(wanted)
    assert {one.partition: _values(one.batches) for one in fetched} == {0: [b"0"], 1: [b"1"], 2: [b"2"]}


def test_a_broken_connection_is_a_passing_failure(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.store("clicks", 0, batch_of([b"a"]))
    broker.fail(FETCH, Fault(cut_at=20))
    fetcher = Fetcher(cluster)
    with pytest.raises(BrokerUnreachable):
        fetcher.fetch({CLICKS: 0})
    assert _values(fetcher.fetch({CLICKS: 0})[0].batches) == [b"a"]


def test_damage_on_the_way_is_healed_by_a_second_look(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.store("clicks", 0, batch_of([b"a" * 50]))
    broker.fail(FETCH, Fault(damage_at=80))
    fetched = Fetcher(cluster).fetch({CLICKS: 0})[0]
    assert _values(fetched.batches) == [b"a" * 50]
    assert fetched.corrupt == []
    assert broker.count(FETCH) == 2


def _damage(broker: ScriptedBroker, partition: int, batch: int, at: int = 70) -> None:
    broker.topics["views"][partition].batches[batch][1][at] ^= 1


def _claim_more_bytes(broker: ScriptedBroker, partition: int, batch: int) -> None:
    struct.pack_into(">i", broker.topics["views"][partition].batches[batch][1], 8, 5_000_000)


def test_damage_in_the_log_is_a_range_and_the_rest_is_read(broker: ScriptedBroker, cluster: Cluster) -> None:
    for values in ([b"a", b"b"], [b"c"] * 3, [b"d"]):
        broker.store("views", 1, batch_of(values))
    _damage(broker, 1, 1)
    fetched = Fetcher(cluster).fetch({TopicPartition("views", 1): 0})[0]
    assert _values(fetched.batches) == [b"a", b"b", b"d"]
    assert [(bad.from_offset, bad.to_offset) for bad in fetched.corrupt] == [(2, 5)]
    assert "CRC of the batch at offset 2" in fetched.corrupt[0].reason
    assert fetched.next_offset == 6


def test_a_bad_batch_larger_than_a_fetch_is_looked_past(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.store("views", 0, batch_of([b"x" * 3_000]))
    broker.store("views", 0, batch_of([b"d"]))
    _claim_more_bytes(broker, 0, 0)
    fetched = Fetcher(cluster, partition_max_bytes=500).fetch({TopicPartition("views", 0): 0})[0]
    assert _values(fetched.batches) == [b"d"]
    assert [(bad.from_offset, bad.to_offset) for bad in fetched.corrupt] == [(0, 1)]


def test_a_batch_with_a_wrong_length_stops_one_fetch_and_is_found_out_by_the_next(
    broker: ScriptedBroker, cluster: Cluster
) -> None:
    for values in ([b"a", b"b"], [b"c"], [b"d"]):
        broker.store("views", 0, batch_of(values))
    _claim_more_bytes(broker, 0, 1)
    bad: list[CorruptRange] = []
    assert _values(read_range(cluster, "views", 0, 0, 4, on_corrupt=bad.append)) == [b"a", b"b", b"d"]
    assert [(one.from_offset, one.to_offset) for one in bad] == [(2, 3)]


def test_a_bad_batch_at_the_logs_end_ends_where_it_claims(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.store("views", 0, batch_of([b"a", b"b"]))
    _damage(broker, 0, 0)
    fetched = Fetcher(cluster).fetch({TopicPartition("views", 0): 0})[0]
    assert fetched.batches == []
    assert [(bad.from_offset, bad.to_offset) for bad in fetched.corrupt] == [(0, 2)]


def test_a_bad_batch_at_the_end_that_claims_too_much_ends_at_the_high_watermark(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.store("views", 0, batch_of([b"a", b"b"]))
    struct.pack_into(">i", broker.topics["views"][0].batches[0][1], 23, 1_000_000)
    fetched = Fetcher(cluster).fetch({TopicPartition("views", 0): 0})[0]
    assert [(bad.from_offset, bad.to_offset) for bad in fetched.corrupt] == [(0, 2)]


def test_the_end_of_a_bad_range_is_looked_for_only_so_far(
    broker: ScriptedBroker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher_module, "LARGEST_PARTITION_BYTES", 2_000)
    broker.store("views", 0, batch_of([b"x" * 30_000]))
    broker.store("views", 0, batch_of([b"d"]))
    _claim_more_bytes(broker, 0, 0)
    fetched = Fetcher(cluster, partition_max_bytes=500).fetch({TopicPartition("views", 0): 0})[0]
    assert [(bad.from_offset, bad.to_offset) for bad in fetched.corrupt] == [(0, 1)]
    assert broker.count(FETCH) == 2


def test_list_offsets_raises_what_the_broker_says(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.fail(LIST_OFFSETS, Fault(error_code=ErrorCode.LEADER_NOT_AVAILABLE))
    with pytest.raises(RetriableBrokerError, match="ListOffsets of clicks-0"):
        log_offsets(cluster, {CLICKS: LATEST})


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.lists(st.integers(0, 40), max_size=4))
def test_adjacent_ranges_hold_each_record_exactly_once(
    broker: ScriptedBroker, cluster: Cluster, sizes: list[int], cuts: list[int]
) -> None:
    held = broker.topics["clicks"][0]
    held.batches, held.next_offset = [], 0
    sent = []
    for number, size in enumerate(sizes):
        values = [b"%d.%d" % (number, at) for at in range(size)]
        sent += values
        broker.store("clicks", 0, batch_of(values))
    read = []
    for start, end in pairwise(sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})):
        for _, batch in read_range(cluster, "clicks", 0, start, end):
            read += [record.value for record in iter_records(batch) if start <= record.offset < end]
    assert read == sent


def test_a_range_beyond_the_logs_end_ends_there(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.store("clicks", 0, batch_of([b"a"]))
    assert _values(read_range(cluster, "clicks", 0, 0, 1 << 60)) == [b"a"]
    assert _values(read_range(cluster, "clicks", 0, 1, 1 << 60)) == []
    assert _values(read_range(cluster, "clicks", 0, 0, 0)) == []


def test_a_range_is_read_through_broken_connections(broker: ScriptedBroker, cluster: Cluster) -> None:
    for number in range(3):
        broker.store("clicks", 0, batch_of([b"%d" % number]))
    broker.fail(FETCH, Fault(close_before=True), Fault(cut_at=11), Fault(wrong_correlation_id=True), Fault(error_code=6))
    assert _values(read_range(cluster, "clicks", 0, 0, 3)) == [b"0", b"1", b"2"]


def test_a_range_gives_up_when_failures_last_longer_than_it_may(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.fail(FETCH, *[Fault(close_before=True)] * 50)
    with pytest.raises(BrokerUnreachable):
        list(read_range(cluster, "clicks", 0, 0, 1, timeout_ms=200))


def test_a_range_that_cannot_be_read_is_raised_or_handed_over(broker: ScriptedBroker, cluster: Cluster) -> None:
    for values in ([b"a", b"b"], [b"c"], [b"d"]):
        broker.store("views", 0, batch_of(values))
    _damage(broker, 0, 1, at=66)
    with pytest.raises(CorruptRead, match="views-0 offsets 2 to 3"):
        list(read_range(cluster, "views", 0, 0, 4))
    bad: list[CorruptRange] = []
    assert _values(read_range(cluster, "views", 0, 0, 4, on_corrupt=bad.append)) == [b"a", b"b", b"d"]
    assert [(one.from_offset, one.to_offset) for one in bad] == [(2, 3)]


def test_a_broker_that_shows_records_and_sends_none_is_reported(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.topics["clicks"][0].next_offset = 10
    with pytest.raises(ReadStalled, match="clicks-0 makes no progress at 3: the high watermark is 10"):
        list(read_range(cluster, "clicks", 0, 3, 9, timeout_ms=150))
