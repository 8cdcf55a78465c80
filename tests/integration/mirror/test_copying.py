"""A mirror between two real brokers: bytes, offsets, topics, counts."""

from collections import Counter

import pytest

from headrace.audit.model.windows import WINDOW_MS
from headrace.client import admin
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.fetcher import Fetcher
from headrace.coordination.session import Session
from headrace.coordination.topics import TopicRegistry
from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import crc_matches, iter_batches
from headrace.wire.errors import ErrorCode
from headrace.wire.messages import produce
from tests.integration.mirror.pair import Pair
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient, batch

MAY_2015 = 1_431_857_103_000


def test_all_codecs_and_partitions_arrive_byte_for_byte_at_the_same_offsets(standing: Pair) -> None:
    admin.create_topic(standing.cluster(standing.live), "codecs", 3)
    sent: Counter[bytes] = Counter()
    windows: Counter[int] = Counter()
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = standing.producer(**{"compression.type": codec})
        for number in range(2_000):
            value = f"{codec} event {number} ".encode() * 4
            timestamp = MAY_2015 + number * 700
            producer.produce("codecs", value, partition=number % 3, timestamp=timestamp, headers=[("codec", codec.encode())])
            sent[value] += 1
            windows[timestamp - timestamp % WINDOW_MS] += 1
        assert producer.flush(20) == 0
    standing.await_level("codecs")
    standing.assert_same("codecs")
    assert standing.values(standing.offline, "codecs") == sent
    eventually(lambda: standing.counted("codecs") == windows, what="the mirror's counts on the audit topic")


def test_a_producers_crc_is_the_same_on_the_offline_cluster(standing: Pair) -> None:
    admin.create_topic(standing.cluster(standing.live), "untouched", 1)
    sent = [batch(b"%d" % number, b"again", codec=Codec(number % 5)) for number in range(10)]
    with RawClient(standing.live.port) as client:
        for data in sent:
            assert client.produce("untouched", data).error_code == 0
    standing.await_level("untouched")
    with RawClient(standing.offline.port) as client:
        copied = [bytes(one) for _, one in iter_batches(client.fetch("untouched", 0).records)]  # type: ignore[arg-type]
    # Twelve bytes belong to the broker: base offset and leader epoch. The length is between them.
    assert [one[8:12] + one[16:] for one in copied] == [one[8:12] + one[16:] for one in sent]
    assert all(crc_matches(one, 0, len(one)) for one in copied)


def test_a_live_log_that_starts_inside_of_a_batch_is_copied_from_that_batch_on(standing: Pair) -> None:
    data = batch(b"one", b"two", b"three")
    with RawClient(standing.live.port) as client:
        admin.create_topic(standing.cluster(standing.live), "shortened", 1)
        standing.freeze_mirror()
        first = [client.produce("shortened", data).base_offset for _ in range(4)]
        wanted = {"topics": [{"name": "shortened", "partitions": [{"partition_index": 0, "offset": first[2] + 1}]}]}
        assert client.ask(21, 2, {**wanted, "timeout_ms": 5_000}).topics[0].partitions[0].error_code == 0
        standing.thaw_mirror()
        standing.await_level("shortened")
        client.produce("shortened", data)
        standing.await_level("shortened")
        live = bytes(client.fetch("shortened", first[2] + 1).records or b"")
    with RawClient(standing.offline.port) as client:
        assert bytes(client.fetch("shortened", first[2]).records or b"") == live


def test_topics_of_the_platform_itself_stay_where_they_are(standing: Pair) -> None:
    producer = standing.producer()
    for topic in ("_internal", "clicks.quarantine", "clicks"):
        producer.produce(topic, b"value")
    assert producer.flush(20) == 0
    standing.await_level("clicks")
    assert {"_internal", "clicks.quarantine"} <= set(standing.cluster(standing.live).topics())
    assert not {"_internal", "clicks.quarantine"} & set(standing.cluster(standing.offline).topics())


def test_a_partition_that_is_added_while_the_mirror_runs_is_copied_too(standing: Pair) -> None:
    admin.create_topic(standing.cluster(standing.live), "growing", 1)
    producer = standing.producer()
    producer.produce("growing", b"one", partition=0)
    assert producer.flush(20) == 0
    standing.await_level("growing")
    session = Session(standing.live_zookeeper, name="test").start()
    try:
        assert TopicRegistry(session).add_partitions("growing", {1: [1], 2: [1]})
    finally:
        session.close()
    eventually(lambda: standing.partitions(standing.live, "growing") == [0, 1, 2], what="the live broker to take the partitions")
    eventually(lambda: standing.partitions(standing.offline, "growing") == [0, 1, 2], what="the mirror to add them")
    late = standing.producer()
    late.produce("growing", b"two", partition=2)
    assert late.flush(20) == 0
    standing.await_level("growing")
    standing.assert_same("growing")


def test_the_copy_refuses_ordinary_producers(standing: Pair) -> None:
    producer = standing.producer()
    producer.produce("guarded", b"value")
    assert producer.flush(20) == 0
    standing.await_level("guarded")
    errors = []
    stranger = standing.producer(**{"bootstrap.servers": standing.offline.address})
    stranger.produce("guarded", b"stranger", on_delivery=lambda error, _: errors.append(error))
    assert stranger.flush(20) == 0
    assert errors[0] is not None
    assert errors[0].code() == ErrorCode.POLICY_VIOLATION


def test_a_delayed_duplicate_of_the_mirrors_last_request_is_acknowledged_and_appends_nothing(standing: Pair) -> None:
    admin.create_topic(standing.cluster(standing.live), "repeated", 1)
    producer = standing.producer()
    for number in range(50):
        producer.produce("repeated", b"event %d" % number, partition=0)
        producer.flush(20)
    standing.await_level("repeated")
    name = TopicPartition("repeated", 0)
    fetched = Fetcher(standing.cluster(standing.live)).fetch({name: 0})[0]
    records = b"".join(batch for _, batch in fetched.batches)
    end = standing.offset(standing.offline, "repeated", 0)
    request = produce.ProduceRequest(
        -1, 5_000, None, [produce.ProduceTopic("repeated", [produce.ProducePartition(0, records, 0)])]
    )
    leader = standing.cluster(standing.offline).leader("repeated", 0)
    for _ in range(2):
        answer = produce.decode_response(9, leader.request(0, 9, produce.encode_request(9, request))).topics[0].partitions[0]
        assert (answer.error_code, answer.base_offset) == (0, fetched.batches[0][0].base_offset)
    assert standing.offset(standing.offline, "repeated", 0) == end
    standing.assert_same("repeated")
    producer.produce("repeated", b"and on it goes", partition=0)
    producer.flush(20)
    standing.await_level("repeated")
    standing.assert_same("repeated")


def test_a_destination_topic_that_is_no_copy_is_an_error_in_the_status_file_and_stays_as_it_was(standing: Pair) -> None:
    admin.create_topic(standing.cluster(standing.offline), "taken", 1)
    admin.create_topic(standing.cluster(standing.live), "taken", 1)
    producer = standing.producer()
    producer.produce("taken", b"value", partition=0)
    assert producer.flush(20) == 0

    def refused() -> bool:
        return [(one["topic"], one["state"]) for one in standing.status()["errors"]] == [("taken", "refused")]

    eventually(refused, what="the refusal in the status file")
    assert "not a mirrored topic" in standing.status()["errors"][0]["error"]
    assert standing.offset(standing.offline, "taken", 0) == 0


@pytest.mark.parametrize(
    "settings", [{"enable.idempotence": True}, {"acks": 1, "batch.num.messages": 1}], ids=["idempotent", "one a batch"]
)
def test_many_small_batches_arrive_in_order(standing: Pair, settings: dict[str, object]) -> None:
    topic = f"small-{len(settings)}"
    admin.create_topic(standing.cluster(standing.live), topic, 2)
    producer = standing.producer(**{"linger.ms": 0, **settings})
    for number in range(3_000):
        producer.produce(topic, b"%d" % number, partition=number % 2)
        producer.poll(0)
    assert producer.flush(20) == 0
    standing.await_level(topic)
    standing.assert_same(topic)
