"""The live log damaged before the mirror copied it: the fault is of the live tier, for the producer had its acknowledgement.

Issue: damage after the read-back was put on the tier behind (live damage → mirror).
"""

import time

from headrace.local import control
from headrace.local.drills import log_surgery
from headrace.local.drills.batch_damage import damage
from headrace.local.drills.expected import Expected
from tests.support.platform import Platform

from .conftest import SCAN_EVERY_S
from .topics import WITHIN_S, Topic, in_window, path_of

EACH = 20


def sequences_of(topic: Topic) -> dict[int, int]:
    """Return offset → the producer's sequence number, by the live log's files."""
    stored = topic.batches("broker-live")
    return {one.base_offset + at: one.base_sequence + at for one in stored for at in range(one.record_count)}


def test_live_damaged_while_its_broker_is_down_and_the_mirror_is_away(platform: Platform) -> None:
    lost, altered = Topic(platform, "live_lost").make(), Topic(platform, "live_altered").make()
    control.stop(platform.layout, "mirror")
    for topic in (lost, altered):
        topic.log(EACH)
    offsets = {topic.name: in_window(topic.live(), topic.windows[1]) for topic in (lost, altered)}
    sequences = {topic.name: sequences_of(topic) for topic in (lost, altered)}
    control.stop(platform.layout, "broker-live")
    try:
        gone, changed = offsets["live_lost"][5], offsets["live_altered"][5]
        log_surgery.cut_out(next(one for one in lost.batches("broker-live") if one.base_offset == gone))
        batch = next(one for one in altered.batches("broker-live") if one.base_offset == changed)
        log_surgery.alter(batch, path_of(5).encode(), path_of(5).encode()[:-1] + b"x")
    finally:
        control.start(platform.layout, "broker-live")
        control.start(platform.layout, "mirror")
    since = time.monotonic()
    start = lost.windows[1]
    missing = (sequences["live_lost"][gone],)
    told = Expected(window_start_ms=start, tier="live", missing=missing, by="sequence")
    lost.await_told("live log: lost before the mirror", told, since)
    told = Expected(window_start_ms=start, tier="live", altered=(changed,))
    altered.await_told("live log: altered before the mirror", told, since)
    assert gone not in in_window(lost.live(), start)
    assert lost.live() == lost.offline(), "the mirror copied what was left"
    assert altered.live() == altered.offline()


def test_damage_on_the_disk_of_a_running_broker_is_told_within_the_interval_of_the_scan(platform: Platform) -> None:
    topic = Topic(platform, "rotten").make()
    control.stop(platform.layout, "mirror")
    topic.log(EACH, batch=4)
    offsets = in_window(topic.live(), topic.windows[1])
    sequences = sequences_of(topic)
    try:
        damage(next(one for one in topic.batches("broker-live") if one.base_offset == offsets[8]))
    finally:
        control.start(platform.layout, "mirror")
    missing = tuple(sequences[offset] for offset in offsets[8:12])
    expected = Expected(window_start_ms=topic.windows[1], tier="live", missing=missing, by="sequence")
    within_s = WITHIN_S + SCAN_EVERY_S
    topic.await_told("live log: damaged on a running disk", expected, time.monotonic(), within_s=within_s)
