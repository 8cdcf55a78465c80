"""Kills that provably land during the copy: the destination holds a part. Afterwards both logs are equal."""

import time
from collections import Counter

from headrace.audit.model.windows import WINDOW_MS
from headrace.client import admin
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.fetcher import Fetcher
from headrace.wire.errors import ErrorCode
from headrace.wire.messages import produce
from tests.integration.mirror.pair import Pair
from tests.support.processes import eventually

MOMENT = 1_431_857_103_000
TOPIC = "clicks"


def send(pair: Pair, count: int, size: int, first: int = 0) -> Counter[int]:
    """Produce `count` numbered records and return them by window."""
    producer = pair.producer(**{"queue.buffering.max.messages": 1_000_000, "batch.size": 900_000})
    windows: Counter[int] = Counter()
    for number in range(first, first + count):
        timestamp = MOMENT + number * 100
        producer.produce(TOPIC, b"%d " % number + bytes(size), partition=0, timestamp=timestamp)
        windows[timestamp - timestamp % WINDOW_MS] += 1
        if number % 5_000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0
    return windows


def end(pair: Pair) -> int:
    return pair.offset(pair.offline, TOPIC, 0)


def freeze_between(pair: Pair, above: int) -> None:
    """Run the mirror for a few milliseconds at a time until the destination holds more than `above`. It is then frozen and has
    not copied everything.
    """

    def a_step_later() -> bool:
        pair.thaw_mirror()
        time.sleep(0.005)
        pair.freeze_mirror()
        return pair.end_or_zero(pair.offline, TOPIC, 0) > above

    eventually(a_step_later, within_ms=60_000, every_ms=0, what="the copy under way")
    held = end(pair)
    assert above < held < pair.offset(pair.live, TOPIC, 0), f"the mirror was too quick: it held {held}"


def test_killed_mirrors_and_killed_destinations_lose_and_double_nothing(fresh: Pair) -> None:
    admin.create_topic(fresh.cluster(fresh.live), TOPIC, 1)
    windows = send(fresh, 60_000, 2_000)

    fresh.launch_mirror()
    freeze_between(fresh, 0)
    fresh.kill_mirror()
    killed_at = end(fresh)

    fresh.launch_mirror()
    freeze_between(fresh, killed_at)
    fresh.offline.kill()
    fresh.offline.restart()
    assert 0 < end(fresh) < fresh.offset(fresh.live, TOPIC, 0)
    fresh.thaw_mirror()
    fresh.await_level(TOPIC)
    fresh.assert_same(TOPIC)
    eventually(lambda: fresh.counted(TOPIC) == windows, what="the mirror's counts, each record once")

    # The last request of a mirror that died long ago arrives now, and one from the future.
    name = TopicPartition(TOPIC, 0)
    stop = end(fresh)
    batches = Fetcher(fresh.cluster(fresh.live)).fetch({name: killed_at})[0].batches
    leader = fresh.cluster(fresh.offline).leader(TOPIC, 0)
    late = produce.ProducePartition(0, b"".join(batch for _, batch in batches), 0)
    request = produce.encode_request(9, produce.ProduceRequest(-1, 5_000, None, [produce.ProduceTopic(TOPIC, [late])]))
    answer = produce.decode_response(9, leader.request(0, 9, request)).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.NONE
    assert end(fresh) == stop

    fresh.kill_mirror()
    send(fresh, 200, 100, first=60_000)
    ahead = Fetcher(fresh.cluster(fresh.live), partition_max_bytes=1).fetch({name: stop})[0].batches[0]
    behind_it = Fetcher(fresh.cluster(fresh.live), partition_max_bytes=1).fetch({name: ahead[0].next_offset})[0].batches
    if behind_it:
        early = produce.ProducePartition(0, bytes(behind_it[0][1]), 0)
        request = produce.encode_request(9, produce.ProduceRequest(-1, 5_000, None, [produce.ProduceTopic(TOPIC, [early])]))
        answer = produce.decode_response(9, leader.request(0, 9, request)).topics[0].partitions[0]
        assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert end(fresh) == stop

    fresh.start_mirror()
    fresh.await_level(TOPIC)
    fresh.assert_same(TOPIC)
    values = fresh.values(fresh.offline, TOPIC)
    assert len(values) == 60_200
    assert set(values.values()) == {1}


def test_a_killed_source_is_waited_for(fresh: Pair) -> None:
    fresh.start_mirror()
    send(fresh, 500, 100)
    fresh.await_level(TOPIC)
    fresh.live.kill()
    eventually(lambda: any(one["trouble"] for one in fresh.status()["partitions"]), what="the trouble in the status file")
    fresh.live.restart()
    windows = send(fresh, 500, 100, first=500)
    fresh.await_level(TOPIC)
    fresh.assert_same(TOPIC)
    assert windows
    eventually(lambda: sum(fresh.counted(TOPIC).values()) == 1_000, what="all counted once")
    assert fresh.mirror.stop() == 0


def test_a_stop_reports_what_is_counted(fresh: Pair) -> None:
    fresh.start_mirror()
    windows = send(fresh, 300, 100)
    fresh.await_level(TOPIC)
    assert fresh.mirror.stop() == 0
    assert fresh.counted(TOPIC) == windows
    assert fresh.status()["state"] == "stopping"
