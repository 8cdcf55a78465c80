"""Copies towards Apache Kafka, of our broker and of another Kafka: each record once, in order, with its time."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from headrace.client.connection.cluster import Cluster
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.log_offsets import log_range
from headrace.client.fetch.read_range import read_range
from headrace.client.mirror_ledger import LedgerReader, Origins
from headrace.wire.batch.record_batch import iter_records
from headrace.wire.quarantine_record import QuarantineRecord, quarantine_topic
from tests.kafka.copying import Copying, delete_topic, make_topic, numbered, read_all, send
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


def test_what_was_counted_is_the_same_after_a_restart_and_never_ahead_of_the_copy(
    ours: BrokerProcess, kafka: KafkaProcess, topic: str, tmp_path: Path
) -> None:
    make_topic(ours, topic)
    values = numbered("a", 5_000)
    send(ours, topic, values, **{"batch.num.messages": 100})
    with Copying(tmp_path, ours, kafka, name=topic, words=("--topics", topic)) as copying:
        for _ in range(3):
            copying.start()
            eventually(lambda: copying.partition(topic).get("destination_end"), what="something copied")
            copying.kill()
            reached = max((report.to_offset for report in copying.reports() if report.topic == topic), default=0)
            ledger = Cluster(kafka.address)
            committed = [entry.to_offset for entry in LedgerReader(ledger, topic).read()]
            ledger.close()
            assert reached <= max(committed, default=0)
            assert committed == sorted(committed)
        copying.start()
        copying.await_copied({(topic, 0): values})
        eventually(lambda: copying.counted(topic) == len(values), what="all reported, each once")


def test_the_ledger_leads_from_each_copied_batch_to_its_source(
    ours: BrokerProcess, kafka: KafkaProcess, topic: str, tmp_path: Path
) -> None:
    make_topic(ours, topic)
    values = numbered("a", 3_000)
    send(ours, topic, values, **{"batch.num.messages": 50})
    with Copying(tmp_path, ours, kafka, name=topic, words=("--topics", topic)) as copying:
        copying.start()
        copying.await_copied({(topic, 0): values})
    source, destination = Cluster(ours.address), Cluster(kafka.address)
    originals = {header.base_offset: header for header, _ in read_range(source, topic, 0, 0, 1 << 60)}
    origins = Origins(destination, topic)
    origins.refresh()
    end = log_range(destination, TopicPartition(topic, 0))[1]
    found = 0
    for header, batch in read_range(destination, topic, 0, 0, end):
        if header.is_control:
            continue
        one = origins.of(topic, 0).at(header.base_offset)
        assert one is not None
        original = originals[one.source_base]
        assert header.crc ^ one.crc_change == original.crc
        assert (header.is_transactional, original.is_transactional) == (True, False)
        first = next(iter(iter_records(batch)))
        assert first.value == values[found]
        found += header.record_count
    assert found == len(values)
    source.close()
    destination.close()


def test_a_second_mirror_of_the_same_name_ends_the_first_with_a_clear_word(
    ours: BrokerProcess, kafka: KafkaProcess, topic: str, tmp_path: Path
) -> None:
    make_topic(ours, topic)
    send(ours, topic, numbered("a", 100))
    words = ("--topics", topic)
    with (
        Copying(tmp_path / "1", ours, kafka, name=topic, words=words) as first,
        Copying(tmp_path / "2", ours, kafka, name=topic, words=words) as second,
    ):
        first.start()
        first.await_copied({(topic, 0): numbered("a", 100)})
        second.start()
        eventually(lambda: second.partition(topic).get("state") == "copying", what="the second has taken over")
        send(ours, topic, numbered("b", 100))
        second.await_copied({(topic, 0): numbered("a", 100) + numbered("b", 100)})
        assert first.mirror.wait(60_000) == 1
        assert "another process took over" in first.mirror.output()
        assert second.mirror.is_running()


def test_a_batch_over_the_destinations_size_goes_to_quarantine_and_nothing_else_stops(
    ours: BrokerProcess, kafka: KafkaProcess, topic: str, tmp_path: Path
) -> None:
    """Fault: what the portion held before the refused batch was left out of the books; after a restart it was reported as
    held.
    """
    other = f"{topic}_other"
    make_topic(ours, topic)
    make_topic(ours, other)
    make_topic(kafka, topic, max_message_bytes="20000")
    before, large, after = numbered("before", 10), [b"L" * 50_000], numbered("after", 10)
    for values in (before, large, after):
        send(ours, topic, values)
    send(ours, other, before)
    with Copying(tmp_path, ours, kafka, name=topic, words=("--topics", f"{topic}.*")) as copying:
        copying.start()
        copying.await_copied({(topic, 0): before + after, (other, 0): before})
        quarantine = [(quarantine_topic(topic), partition) for partition in range(8)]
        found = eventually(
            lambda: [value for values in read_all(ours.address, quarantine).values() for value in values],
            what="the quarantine record",
        )
        record = QuarantineRecord.from_json(found[0])
        assert (record.code, record.topic) == ("refused_by_destination", topic)
        assert "MESSAGE_TOO_LARGE" in record.reason

        def told() -> tuple[int, int]:
            windows = [one for report in copying.reports() if report.topic == topic for one in report.windows.values()]
            held, left = ([s.count for w in windows for s in getattr(w, kind)] for kind in ("held", "quarantined"))
            return sum(held), sum(left)

        eventually(lambda: told() == (20, 1), what=f"twenty held and one quarantined, {told()}")

    # A mirror that must count all again, because nothing says how far it has reported, says the same from the ledger.
    admin = AdminClient({"bootstrap.servers": kafka.address})
    for future in admin.delete_consumer_groups([f"headrace.{topic}.mirror"]).values():
        future.result(30)
    with Copying(tmp_path / "again", ours, kafka, name=topic, words=("--topics", f"{topic}.*")) as copying:
        before_it = len(copying.reports())
        copying.start()

        def told_anew() -> tuple[int, int]:
            reports = [report for report in copying.reports()[before_it:] if report.topic == topic]
            windows = [one for report in reports for one in report.windows.values()]
            return sum(s.count for w in windows for s in w.held), sum(s.count for w in windows for s in w.quarantined)

        eventually(lambda: told_anew() == (20, 1), what="the same, counted anew")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression_type", "gzip"),
        ("message_timestamp_type", "LogAppendTime"),
        ("cleanup_policy", "compact"),
        ("retention_ms", "1000"),
    ],
)
def test_a_topic_that_cannot_hold_a_copy_is_named_with_the_reason(
    ours: BrokerProcess, kafka: KafkaProcess, topic: str, tmp_path: Path, name: str, value: str
) -> None:
    make_topic(ours, topic)
    send(ours, topic, numbered("a", 10))
    make_topic(kafka, topic, **{name: value})
    with Copying(tmp_path, ours, kafka, name=topic, words=("--topics", topic)) as copying:
        copying.launch()
        trouble = eventually(lambda: copying.status().get("trouble"), within_ms=60_000, what="the trouble")
        assert f"{name.replace('_', '.')}={value}" in str(trouble)
        assert topic in str(trouble)


def test_producer_ids_of_two_sources_that_number_alike_do_not_meet(
    ours: BrokerProcess, other_kafka: KafkaProcess, kafka: KafkaProcess, topic: str, tmp_path: Path
) -> None:
    """Both sources give their first producers the same ids; both are copied to one cluster, to one topic each."""
    first, second = f"{topic}_a", f"{topic}_b"
    make_topic(ours, first)
    make_topic(other_kafka, second)
    expected = {(first, 0): numbered("a", 500), (second, 0): numbered("b", 500)}
    send(ours, first, expected[first, 0], **{"enable.idempotence": True})
    send(other_kafka, second, expected[second, 0], **{"enable.idempotence": True})
    with (
        Copying(tmp_path / "1", ours, kafka, name=first, words=("--topics", first)) as one,
        Copying(tmp_path / "2", other_kafka, kafka, name=second, words=("--topics", second)) as two,
    ):
        one.start()
        two.start()
        one.await_copied(expected)
        two.assert_copied(expected)


def test_years_old_and_future_events_stay_over_a_restart_of_the_destination(
    ours: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    destination = KafkaProcess(tmp_path / "kafka", {"log.retention.check.interval.ms": "1000", "log.segment.bytes": "1048576"})
    try:
        destination.start()
        make_topic(ours, topic)
        old, early = numbered("old", 500), numbered("early", 500)
        send(ours, topic, old, timestamp_ms=1_000_000)
        send(ours, topic, early, timestamp_ms=4_102_444_800_000)
        with Copying(tmp_path, ours, destination, name=topic, words=("--topics", topic)) as copying:
            copying.start()
            copying.await_copied({(topic, 0): old + early})
            destination.kill()
            destination.launch().await_ready()
            more = numbered("more", 100)
            send(ours, topic, more, timestamp_ms=1_000_000)
            copying.await_copied({(topic, 0): old + early + more})
    finally:
        destination.kill()


def test_a_destinations_topic_that_was_deleted_is_copied_anew(
    ours: BrokerProcess, kafka: KafkaProcess, topic: str, tmp_path: Path
) -> None:
    make_topic(ours, topic)
    values = numbered("a", 300)
    send(ours, topic, values)
    with Copying(tmp_path, ours, kafka, name=topic, words=("--topics", topic)) as copying:
        copying.start()
        copying.await_copied({(topic, 0): values})
        copying.kill()
        delete_topic(kafka, topic)
        copying.start()
        copying.await_copied({(topic, 0): values})


def test_a_sources_topic_that_was_made_anew_is_told_and_not_mixed_with_the_copy(
    ours: BrokerProcess, kafka: KafkaProcess, topic: str, tmp_path: Path
) -> None:
    make_topic(ours, topic)
    values = numbered("a", 300)
    send(ours, topic, values)
    with Copying(tmp_path, ours, kafka, name=topic, words=("--topics", topic)) as copying:
        copying.start()
        copying.await_copied({(topic, 0): values})
        copying.kill()
        delete_topic(ours, topic)
        make_topic(ours, topic)
        send(ours, topic, numbered("b", 600))
        copying.start()
        errors = eventually(lambda: copying.status()["errors"], within_ms=60_000, what="the error")
        assert "deleted and created again" in errors[0]["error"]
        copying.assert_copied({(topic, 0): values})
