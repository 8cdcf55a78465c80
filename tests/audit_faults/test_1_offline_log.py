"""Faults in the offline log's files, between a stop and a start of its broker. All words were in before: the audit reads again.

Issue: two lost and two doubled in one partition and window were COMPLETE; content changed with its CRC made right was COMPLETE;
damage after the read-back was put on the tier behind, and the restart of a broker led to no recount.
"""

import json
import time
from dataclasses import dataclass

import pytest

from headrace.local import control
from headrace.local.drills import log_surgery
from headrace.local.drills.batch_damage import damage
from headrace.local.drills.expected import KINDS, Expected
from tests.support.platform import Platform

from .topics import Topic, in_window, path_of

FAULTS = ("lost", "lost_and_doubled", "altered", "segment_gone", "unreadable")
EACH = 20
BATCH = {"segment_gone": 4, "unreadable": 4}
"""Records a batch; one where it is not said."""


@dataclass(slots=True)
class Case:
    topic: Topic
    expected: Expected
    gone: set[int]
    """Offsets that another client no longer reads on the offline side."""


@pytest.fixture(scope="module")
def planted(platform: Platform) -> tuple[dict[str, Case], float]:
    """Five topics, each with its fault; and when the broker with the damaged files was ready again."""
    topics = {name: Topic(platform, name).make().log(EACH, batch=BATCH.get(name, 1)) for name in FAULTS}
    for topic in topics.values():
        topic.await_mirrored()
        assert topic.live() == topic.offline(), "the same records at the same offsets"
    control.stop(platform.layout, "broker-offline")
    try:
        cases = {name: plant(name, topic) for name, topic in topics.items()}
    finally:
        control.start(platform.layout, "broker-offline")
    return cases, time.monotonic()


def plant(name: str, topic: Topic) -> Case:
    """Plant the fault in the topic's middle window; return what has to be told of it."""
    start = topic.windows[1]
    offsets = in_window(topic.live(), start)
    stored = topic.batches("broker-offline")
    by_first = {one.base_offset: one for one in stored}
    match name:
        case "lost":
            log_surgery.cut_out(by_first[offsets[7]])
            return Case(topic, Expected(window_start_ms=start, tier="offline", missing=(offsets[7],)), {offsets[7]})
        case "lost_and_doubled":
            twice = log_surgery.append_again(by_first[offsets[3]], stored)
            log_surgery.cut_out(by_first[offsets[12]])
            expected = Expected(window_start_ms=start, tier="offline", missing=(offsets[12],), doubled=(twice,))
            return Case(topic, expected, {offsets[12]})
        case "altered":
            log_surgery.alter(by_first[offsets[9]], path_of(9).encode(), path_of(9).encode()[:-1] + b"x")
            return Case(topic, Expected(window_start_ms=start, tier="offline", altered=(offsets[9],)), set())
        case "segment_gone":
            for at in (12, 4):
                log_surgery.split_before(next(one for one in topic.batches("broker-offline") if one.base_offset == offsets[at]))
            middle = next(one for one in topic.batches("broker-offline") if one.base_offset == offsets[4])
            log_surgery.remove_segment(middle.path)
            return Case(topic, Expected(window_start_ms=start, tier="offline", missing=tuple(offsets[4:12])), set(offsets[4:12]))
        case _:
            damage(by_first[offsets[8]])
            return Case(topic, Expected(window_start_ms=start, tier="offline", missing=tuple(offsets[8:12])), set(offsets[8:12]))


@pytest.mark.parametrize("name", FAULTS)
def test_it_is_told_with_its_records_at_the_offline_tier(
    platform: Platform, planted: tuple[dict[str, Case], float], name: str
) -> None:
    cases, ready_at = planted
    case = cases[name]
    case.topic.await_told(f"offline log: {name.replace('_', ' ')}", case.expected, ready_at)
    named = json.loads(platform.headrace("audit", "which", name, "--window", str(case.expected.window_start_ms), "--json"))
    offsets = {(one["kind"], one["first_offset"] + at) for one in named for at in range(one["count"])}
    assert offsets == {(kind, offset) for kind in KINDS for offset in getattr(case.expected, kind)}, named
    assert {one["tier"] for one in named} == {"offline"}
    live, offline = case.topic.live(), case.topic.offline()
    lost = {one.offset for one in live} - {one.offset for one in offline}
    assert lost == case.gone, "another client misses just these"
    added = {one.offset for one in offline} - {one.offset for one in live}
    assert added == set(case.expected.doubled)
    changed = {one.offset for one in set(offline) - set(live)} - added
    assert changed == set(case.expected.altered)
