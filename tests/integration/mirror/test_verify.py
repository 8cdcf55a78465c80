"""`headrace mirror verify` between two brokers of ours: what was done to the copy's files is found, and nothing else is."""

import json
import os
import subprocess
import sys
from typing import Any

from crc32c import crc32c  # the library itself: the oracle makes a CRC right without our code

from headrace.client import admin
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.record_deletion import delete_records
from tests.integration.mirror.pair import Pair
from tests.support.processes import eventually

TOPIC = "clicks"


def send(pair: Pair, count: int, *, topic: str = TOPIC, mark: bytes = b"event", partitions: int = 1) -> None:
    """Produce `count` batches of one record each."""
    producer = pair.producer(**{"batch.num.messages": 1, "linger.ms": 0})
    for number in range(count):
        value = mark + b" %06d " % number + bytes(300)
        producer.produce(topic, value, partition=number % partitions, timestamp=1_431_857_103_000)
        if number % 1_000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


def verify(pair: Pair, *words: str) -> tuple[int, dict[str, Any]]:
    """Run the command and return its exit code and what it printed."""
    command = [sys.executable, "-m", "headrace.cli.main", "mirror", "verify", "--json", "--settle-ms", "300"]
    command += ["--from", pair.live.address, "--to", pair.offline.address, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def ranges(found: dict[str, Any]) -> list[tuple[str, int, int, int]]:
    return [
        (one["kind"], one["partition"], one["destination"]["from_offset"], one["destination"]["to_offset"])
        for one in found["differences"]
    ]


def rewrite(pair: Pair, partition: int, position: int, data: bytes) -> None:
    """Put bytes into the offline broker's stopped log."""
    (segment,) = (pair.offline.data / f"{TOPIC}-{partition}").glob("*.log")
    with segment.open("r+b") as file:
        file.seek(position)
        file.write(data)


def test_a_copy_is_the_same_and_a_batch_that_was_altered_with_its_crc_made_right_is_found(fresh: Pair) -> None:
    admin.create_topic(fresh.cluster(fresh.live), TOPIC, 2)
    fresh.start_mirror()
    send(fresh, 400, partitions=2)
    fresh.await_level(TOPIC)
    code, found = verify(fresh)
    assert (code, found["same"], found["mode"], found["batches"]) == (0, True, "identical", 400)
    assert found["bytes"] == sum(fresh.offset(fresh.live, TOPIC, one) for one in range(2))

    fresh.kill_mirror()
    header, batch = list(fresh.batches(fresh.offline, TOPIC, 1))[70]
    fresh.offline.stop()
    altered = bytearray(batch)
    altered[-100] ^= 0x01
    altered[17:21] = crc32c(bytes(altered[21:])).to_bytes(4, "big")
    rewrite(fresh, 1, header.position, bytes(altered))
    fresh.offline.restart()
    code, found = verify(fresh)
    assert code == 1
    assert ranges(found) == [("altered", 1, header.position, header.next_offset)]


def test_a_damaged_batch_a_tail_that_lacks_and_one_that_is_too_much_are_told_apart(fresh: Pair) -> None:
    admin.create_topic(fresh.cluster(fresh.live), TOPIC, 3)
    fresh.start_mirror()
    send(fresh, 300, partitions=3)
    fresh.await_level(TOPIC)
    fresh.kill_mirror()
    bad = list(fresh.batches(fresh.offline, TOPIC, 0))[40][0]
    cut = list(fresh.batches(fresh.offline, TOPIC, 1))[90][0]
    end = fresh.offset(fresh.offline, TOPIC, 1)
    last = list(fresh.batches(fresh.live, TOPIC, 2))[80][0]
    for broker in (fresh.live, fresh.offline):
        broker.stop()
    rewrite(fresh, 0, bad.position + 100, b"\xff\xff\xff")
    (segment,) = (fresh.offline.data / f"{TOPIC}-1").glob("*.log")
    os.truncate(segment, cut.position)
    (segment,) = (fresh.live.data / f"{TOPIC}-2").glob("*.log")
    os.truncate(segment, last.position)
    for broker in (fresh.live, fresh.offline):
        broker.restart()
    code, found = verify(fresh)
    assert code == 1
    told = ranges(found)
    assert told[0][1:] == (0, bad.position, bad.next_offset)
    assert told[0][0] in ("missing", "unreadable in the destination")  # as the broker serves what is damaged
    assert told[1:] == [
        ("missing", 1, cut.position, end),
        ("extra", 2, last.position, fresh.offset(fresh.offline, TOPIC, 2)),
    ]


def test_what_one_log_has_deleted_is_named_and_no_difference(fresh: Pair) -> None:
    admin.create_topic(fresh.cluster(fresh.live), TOPIC, 1)
    fresh.start_mirror()
    send(fresh, 100)
    fresh.await_level(TOPIC)
    border = list(fresh.batches(fresh.live, TOPIC, 0))[30][0].position
    delete_records(fresh.cluster(fresh.live), {TopicPartition(TOPIC, 0): border})
    code, found = verify(fresh)
    assert code == 0
    (head,) = found["not_compared"]
    assert (head["kind"], head["source"]["to_offset"]) == ("expired in the source", border)
    assert found["batches"] == 70


def test_a_running_mirror_raises_no_false_alarm(fresh: Pair) -> None:
    admin.create_topic(fresh.cluster(fresh.live), TOPIC, 2)
    fresh.start_mirror()
    send(fresh, 200, partitions=2)
    fresh.await_level(TOPIC)
    for number in range(5):
        send(fresh, 2_000, mark=b"%d" % number, partitions=2)
        code, found = verify(fresh, "--settle-ms", "30000")
        assert code == 0, found


def test_a_topic_that_was_not_copied_is_missing_and_one_of_the_destination_alone_is_named(fresh: Pair) -> None:
    admin.create_topic(fresh.cluster(fresh.live), TOPIC, 1)
    admin.create_topic(fresh.cluster(fresh.offline), "others", 1)
    send(fresh, 10)
    code, found = verify(fresh)
    assert code == 1
    assert ranges(found) == [("missing", 0, 0, fresh.offset(fresh.live, TOPIC, 0))]
    assert found["topics_only_in_destination"] == ["others"]


def test_the_output_for_people_names_ranges_and_sums_up(fresh: Pair) -> None:
    admin.create_topic(fresh.cluster(fresh.live), TOPIC, 1)
    send(fresh, 10)
    end = fresh.offset(fresh.live, TOPIC, 0)
    command = [sys.executable, "-m", "headrace.cli.main", "mirror", "verify", "--settle-ms", "0"]
    command += ["--from", fresh.live.address, "--to", fresh.offline.address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"missing: {TOPIC}-0, offsets 0 to {end}, 10 batches" in done.stdout
    assert "1 × missing: 10 batches" in done.stdout
    nothing = subprocess.run([*command, "--topics", "nobody"], capture_output=True, text=True, timeout=60)
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "no topic of those that were named" in nothing.stderr
    wrong = subprocess.run([*command, "--topics", "(("], capture_output=True, text=True, timeout=60)
    assert wrong.returncode == 2


def test_a_broker_that_restarts_during_the_comparison_is_waited_for(fresh: Pair) -> None:
    admin.create_topic(fresh.cluster(fresh.live), TOPIC, 1)
    fresh.start_mirror()
    send(fresh, 20_000)
    fresh.await_level(TOPIC)
    fresh.kill_mirror()
    command = [sys.executable, "-m", "headrace.cli.main", "mirror", "verify", "--json"]
    command += ["--from", fresh.live.address, "--to", fresh.offline.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        eventually(lambda: fresh.offline.address and running.poll() is None, what="the comparison runs")
        fresh.offline.kill()
        fresh.offline.restart()
        output, _ = running.communicate(timeout=120)
    assert running.returncode == 0, output
