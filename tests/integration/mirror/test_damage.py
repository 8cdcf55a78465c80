"""Sources that cannot serve everything: expired heads, lost tails, rewritten ends, unreadable middles."""

from confluent_kafka.admin import AdminClient

from headrace.audit.model.messages import Skipped
from headrace.client import admin
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.log_offsets import EARLIEST
from headrace.client.record_deletion import delete_records
from headrace.mirror.control.orders import Orders, Pause
from headrace.wire.quarantine_record import LogOrigin, QuarantineRecord
from tests.integration.mirror.pair import Pair
from tests.support.processes import eventually

TOPIC = "clicks"


def send(pair: Pair, count: int, mark: bytes = b"event") -> None:
    """Produce `count` batches of one record each."""
    producer = pair.producer()
    for number in range(count):
        producer.produce(TOPIC, mark + b" %04d " % number + bytes(100), partition=0, timestamp=1_431_857_103_000)
        assert producer.flush(20) == 0


def segments(pair: Pair) -> list[str]:
    return sorted(path.name for path in (pair.live.data / f"{TOPIC}-0").glob("*.log"))


def test_what_retention_takes_before_it_is_copied_is_passed_over_and_told(fresh: Pair) -> None:
    """Names a fault: it was reported as 'mirror silent', and how many records it was could not be known."""
    fresh.live.kill()
    fresh.live = type(fresh.live)(
        fresh.live.folder, fresh.live_zookeeper, port=fresh.live.port, settings={"log.retention.check.interval.ms": 50}
    ).start()
    admin.create_topic(fresh.cluster(fresh.live), TOPIC, 1, {"segment.bytes": "2000", "retention.bytes": "6000"})
    fresh.start_mirror()
    send(fresh, 5)
    fresh.await_level(TOPIC)
    eventually(lambda: sum(fresh.counted(TOPIC).values()) == 5, what="five counted")
    held = fresh.offset(fresh.offline, TOPIC, 0)
    fresh.kill_mirror()
    send(fresh, 100)
    eventually(lambda: fresh.offset(fresh.live, TOPIC, 0, EARLIEST) > held, what="retention to overtake the mirror")
    fresh.start_mirror()
    fresh.await_level(TOPIC)
    source = fresh.content(fresh.live, TOPIC, 0)
    copied = fresh.content(fresh.offline, TOPIC, 0)
    assert copied[-len(source) :] == source
    assert len(copied) >= len(source) + 5
    eventually(lambda: any(one["passed_over"] > 0 for one in fresh.status()["partitions"]), what="the loss in the status file")
    assert '"loss": "expired"' in fresh.mirror.output()

    end = fresh.offset(fresh.offline, TOPIC, 0)
    eventually(lambda: fresh.told(TOPIC).covered == {0: [(0, end)]}, what="everything reported")
    told = fresh.told(TOPIC)
    (expired,) = told.skipped[0]
    assert (expired.from_offset, expired.reason) == (held, "expired")
    batches = [header for header, _ in fresh.batches(fresh.offline, TOPIC, 0)]
    assert min(header.position for header in batches if header.position >= held) == expired.to_offset
    assert {offset: found[0][2] for offset, found in told.records[0].items()} == {
        header.base_offset + index: header.crc for header in batches for index in range(header.record_count)
    }


def test_a_source_that_lost_its_tail_stops_the_copy_even_when_it_grows_again(fresh: Pair) -> None:
    fresh.mirror.command += ["--stall-after-ms", "1000"]
    fresh.start_mirror()
    admin.create_topic(fresh.cluster(fresh.live), TOPIC, 1)
    send(fresh, 20)
    fresh.await_level(TOPIC)
    kept = fresh.content(fresh.offline, TOPIC, 0)
    fresh.live.stop()
    segment = fresh.live.data / f"{TOPIC}-0" / segments(fresh)[-1]
    size = segment.stat().st_size
    with segment.open("r+b") as file:
        file.truncate(size - size // 4)
    fresh.live.restart()
    assert 0 < fresh.offset(fresh.live, TOPIC, 0) < fresh.offset(fresh.offline, TOPIC, 0)

    def state() -> list[str]:
        return [one["state"] for one in fresh.status().get("errors", [])]

    eventually(lambda: state() == ["source_behind"], what="the error in the status file")
    assert "lost its tail" in fresh.status()["errors"][0]["error"]
    eventually(lambda: "lost its tail" in str(fresh.status().get("reason")), what="the standstill told")
    assert fresh.status()["state"] == "stalled"
    send(fresh, 20, b"other")
    eventually(lambda: state() == ["diverged"], what="the rewritten source told from the old one")
    assert fresh.content(fresh.offline, TOPIC, 0) == kept
    fresh.kill_mirror()
    fresh.launch_mirror()
    eventually(lambda: state() == ["diverged"], what="a new mirror to tell it too")
    assert fresh.content(fresh.offline, TOPIC, 0) == kept

    # The advice of the error: delete the copy, and it is created again.
    administrator = AdminClient({"bootstrap.servers": fresh.offline.address})
    administrator.delete_topics([TOPIC])[TOPIC].result(20)
    fresh.await_level(TOPIC)
    fresh.assert_same(TOPIC)
    eventually(lambda: state() == [] and fresh.status()["state"] == "ready", what="the error to be gone")


def test_an_unreadable_batch_in_the_source_goes_to_quarantine_and_nothing_else_stops(fresh: Pair) -> None:
    """Names a fault: its offsets were reported as holding nothing."""
    admin.create_topic(fresh.cluster(fresh.live), TOPIC, 1)
    send(fresh, 20)
    batches = [header for header, _ in fresh.batches(fresh.live, TOPIC, 0)]
    bad = batches[10]
    fresh.live.stop()
    segment = fresh.live.data / f"{TOPIC}-0" / segments(fresh)[-1]
    with segment.open("r+b") as file:
        file.seek(bad.position + 80)
        file.write(b"\xff\xff\xff")
    fresh.live.restart()
    fresh.start_mirror()
    fresh.await_level(TOPIC)
    assert fresh.content(fresh.offline, TOPIC, 0) == fresh.content(fresh.live, TOPIC, 0)
    assert len(fresh.content(fresh.offline, TOPIC, 0)) == 19

    def quarantined() -> list[QuarantineRecord]:
        return [QuarantineRecord.from_json(value) for value in fresh.all_values(fresh.live, f"{TOPIC}.quarantine")]

    eventually(lambda: len(quarantined()) == 1, what="the quarantine record")
    record = quarantined()[0]
    assert (record.stage, record.code) == ("mirror", "corrupt_batch")
    assert record.origin == LogOrigin(cluster="live", topic=TOPIC, partition=0, offset=bad.position, to_offset=bad.next_offset)
    eventually(lambda: sum(fresh.counted(TOPIC).values()) == 19, what="nineteen counted")
    assert fresh.told(TOPIC).skipped == {0: [Skipped(bad.position, bad.next_offset, "corrupt")]}


def test_a_source_topic_that_was_made_anew_and_has_the_same_borders_is_told_and_its_head_is_not_skipped(fresh: Pair) -> None:
    """Fault: with batches of one size the new topic was copied on from where the old one ended, its head skipped silently."""
    admin.create_topic(fresh.cluster(fresh.live), TOPIC, 1)
    fresh.start_mirror()
    send(fresh, 20)
    fresh.await_level(TOPIC)
    kept = fresh.content(fresh.offline, TOPIC, 0)
    # Paused, so that no fetch is in flight that would be answered with the topic's end.
    orders = fresh._status.with_suffix(".orders")
    orders.write_bytes(Orders().pausing([], Pause(since_ms=0)).to_json())
    eventually(lambda: fresh.status()["orders"]["number"] == 1, what="paused")
    eventually(lambda: fresh.status()["partitions"][0]["held"], what="the pause followed")
    fresh.freeze_mirror()
    administrator = AdminClient({"bootstrap.servers": fresh.live.address})
    administrator.delete_topics([TOPIC])[TOPIC].result(20)
    eventually(lambda: TOPIC not in fresh.cluster(fresh.live).topics(), what="the topic gone")
    admin.create_topic(fresh.cluster(fresh.live), TOPIC, 1)
    send(fresh, 40, b"other")
    borders = [header.next_offset for header, _ in fresh.batches(fresh.live, TOPIC, 0)]
    assert fresh.offset(fresh.offline, TOPIC, 0) in borders, "the case that is tested: a border where the copy ends"
    orders.unlink()
    fresh.thaw_mirror()

    def state() -> list[str]:
        return [one["state"] for one in fresh.status().get("errors", [])]

    eventually(lambda: state() == ["diverged"], what="the new topic told")
    assert "deleted and created again" in fresh.status()["errors"][0]["error"]
    assert fresh.content(fresh.offline, TOPIC, 0) == kept
    # So it stays with a new mirror.
    fresh.kill_mirror()
    fresh.launch_mirror()
    eventually(lambda: state() == ["diverged"], what="a new mirror to tell it too")
    assert fresh.content(fresh.offline, TOPIC, 0) == kept
    administrator = AdminClient({"bootstrap.servers": fresh.offline.address})
    administrator.delete_topics([TOPIC])[TOPIC].result(20)
    fresh.await_level(TOPIC)
    fresh.assert_same(TOPIC)
    assert len(fresh.content(fresh.offline, TOPIC, 0)) == 40


def test_a_source_topic_that_was_made_anew_while_no_mirror_ran_and_nothing_is_left_to_compare_is_told(fresh: Pair) -> None:
    """Fault: when the old records had expired at the destination, the new topic was copied from the middle."""
    admin.create_topic(fresh.cluster(fresh.live), TOPIC, 1)
    fresh.start_mirror()
    send(fresh, 20)
    fresh.await_level(TOPIC)
    fresh.kill_mirror()
    # Nothing before the end can be compared: the source does not hold it any more.
    administrator = AdminClient({"bootstrap.servers": fresh.live.address})
    administrator.delete_topics([TOPIC])[TOPIC].result(20)
    eventually(lambda: TOPIC not in fresh.cluster(fresh.live).topics(), what="the topic gone")
    admin.create_topic(fresh.cluster(fresh.live), TOPIC, 1)
    send(fresh, 40, b"other")
    kept = fresh.content(fresh.offline, TOPIC, 0)
    end = fresh.offset(fresh.offline, TOPIC, 0)
    delete_records(fresh.cluster(fresh.live), {TopicPartition(TOPIC, 0): end})
    fresh.launch_mirror()
    eventually(lambda: [one["state"] for one in fresh.status().get("errors", [])] == ["diverged"], what="the new topic told")
    assert "deleted and created again" in fresh.status()["errors"][0]["error"]
    assert fresh.content(fresh.offline, TOPIC, 0) == kept
