"""Faults in the offline log's files, between a stop and a start of its broker. All words were in before: the audit reads again.

Issue: two lost and two doubled in one partition and window were COMPLETE; content changed with its CRC made right was COMPLETE;
damage after the read-back was put on the tier behind, and the restart of a broker led to no recount; an operator's word on one
record held for another one.
"""

import json
from collections.abc import Sequence

import pytest

from headrace.local.drills import log_surgery
from headrace.local.drills.batch_damage import damage
from headrace.local.drills.expected import KINDS
from tests.support.platform import Platform

from .attacks import RUNNING, Outcome, Stopped, Story, Truth, chosen, differs, play
from .topics import Topic, in_window, path_of

EACH = 20
OFFLINE = "broker-offline"


def mirrored(topic: Topic, *, batch: int = 1) -> list[int]:
    """Log into the topic; return the offsets of its middle window once both sides have them."""
    topic.make().log(EACH, batch=batch).await_mirrored()
    assert topic.live() == topic.offline(), "the same records at the same offsets"
    return in_window(topic.live(), topic.windows[1])


def told(topic: Topic, *, missing: Sequence[int] = (), doubled: Sequence[int] = (), altered: Sequence[int] = ()) -> Truth:
    """Return what the audit must say, after another client has found just these differences."""
    assert topic.copied_as() == (set(missing), set(doubled), set(altered))
    return Truth(topic, {topic.windows[1]: differs("offline", missing=missing, doubled=doubled, altered=altered)})


def lost(topic: Topic) -> Story:
    offsets = mirrored(topic)
    yield Stopped(OFFLINE)
    log_surgery.cut_out(topic.batch(OFFLINE, offsets[7]))
    yield RUNNING
    return told(topic, missing=[offsets[7]])


def lost_and_doubled(topic: Topic) -> Story:
    offsets = mirrored(topic)
    yield Stopped(OFFLINE)
    twice = log_surgery.append_again(topic.batch(OFFLINE, offsets[3]), topic.batches(OFFLINE))
    log_surgery.cut_out(topic.batch(OFFLINE, offsets[12]))
    yield RUNNING
    return told(topic, missing=[offsets[12]], doubled=[twice])


def altered(topic: Topic) -> Story:
    offsets = mirrored(topic)
    yield Stopped(OFFLINE)
    path = path_of(9).encode()
    log_surgery.alter(topic.batch(OFFLINE, offsets[9]), path, path[:-1] + b"x")
    yield RUNNING
    return told(topic, altered=[offsets[9]])


def segment_gone(topic: Topic) -> Story:
    offsets = mirrored(topic, batch=4)
    yield Stopped(OFFLINE)
    for at in (12, 4):
        log_surgery.split_before(topic.batch(OFFLINE, offsets[at]))
    log_surgery.remove_segment(topic.batch(OFFLINE, offsets[4]).path)
    yield RUNNING
    return told(topic, missing=offsets[4:12])


def unreadable(topic: Topic) -> Story:
    offsets = mirrored(topic, batch=4)
    yield Stopped(OFFLINE)
    damage(topic.batch(OFFLINE, offsets[8]))
    yield RUNNING
    return told(topic, missing=offsets[8:12])


def other_record_lost(topic: Topic) -> Story:
    """An operator accepts the loss of one record. It is restored, and another one is lost: the same numbers."""
    offsets = mirrored(topic)
    yield Stopped(OFFLINE)
    folder = topic.batch(OFFLINE, offsets[7]).path.parent
    before = {path.name: path.read_bytes() for path in folder.glob("*.log")}
    log_surgery.cut_out(topic.batch(OFFLINE, offsets[7]))
    yield RUNNING
    told(topic, missing=[offsets[7]]).wait("offline log: one lost, before it is accepted")
    start = topic.windows[1]
    word = ("--tier", "offline", "--reason", "its disk burned", "--by", "anna")
    topic.platform.headrace("audit", "known-loss", topic.name, "--window", str(start), *word)
    Truth(topic, {start: {"verdict": "ACCEPTED", "missing": 1}}).wait("offline log: one lost, accepted")
    yield Stopped(OFFLINE)
    for path in folder.glob("*.log"):
        log_surgery.remove_segment(path)
    for name, content in before.items():
        (folder / name).write_bytes(content)
    log_surgery.cut_out(topic.batch(OFFLINE, offsets[12]))
    yield RUNNING
    return told(topic, missing=[offsets[12]])


ATTACKS = {
    "lost": lost,
    "lost_and_doubled": lost_and_doubled,
    "altered": altered,
    "segment_gone": segment_gone,
    "unreadable": unreadable,
    "other_record_lost": other_record_lost,
}


@pytest.fixture(scope="module")
def played(platform: Platform, request: pytest.FixtureRequest) -> dict[str, Outcome]:
    return play(platform, chosen(request, ATTACKS))


@pytest.mark.situation(
    "offline log",
    "one record is lost",
    shown="INCOMPLETE, missing 1 at offline, its offset",
    when="after a restart of the broker, else at the next scan",
    do="`headrace audit which`; restore the copy from live",
    case="lost",
)
@pytest.mark.situation(
    "offline log",
    "one record is lost and one is doubled in one window and partition",
    shown="INCOMPLETE, missing 1, doubled 1 at offline",
    when="after a restart of the broker, else at the next scan",
    do="restore the copy; find who writes into it",
    case="lost_and_doubled",
)
@pytest.mark.situation(
    "offline log",
    "one byte is altered and the CRC made right",
    shown="ALTERED, by whole batches",
    when="after a restart of the broker, else at the next scan",
    do="restore the copy",
    case="altered",
)
@pytest.mark.situation(
    "offline log",
    "a middle segment is gone",
    shown="INCOMPLETE, every record of it",
    when="after a restart of the broker, else at the next scan",
    do="restore the copy",
    case="segment_gone",
)
@pytest.mark.situation(
    "offline log",
    "a batch is unreadable",
    shown="INCOMPLETE, its records",
    when="after a restart of the broker, else at the next scan",
    do="restore the copy",
    case="unreadable",
)
@pytest.mark.situation(
    "offline log",
    "an accepted loss is restored, and another record is lost",
    shown="INCOMPLETE again, missing 1 at offline, the other record",
    when="when the log is read again",
    do="restore the copy",
    case="other_record_lost",
)
@pytest.mark.parametrize("name", ATTACKS)
def test_it_is_told_with_its_records_at_the_offline_tier(platform: Platform, played: dict[str, Outcome], name: str) -> None:
    played[name].await_told()
    truth = played[name].truth
    assert truth is not None
    ((start, expected),) = truth.windows.items()
    named = json.loads(platform.headrace("audit", "which", name, "--window", str(start), "--json"))
    assert {one["tier"] for one in named} == {"offline"}
    for kind in KINDS:
        offsets = [one["first_offset"] + at for one in named if one["kind"] == kind for at in range(one["count"])]
        assert sorted(offsets) == expected["records"]["offline"].get(kind, []), named
