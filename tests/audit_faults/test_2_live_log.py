"""The live log damaged. Before the mirror copied it: the fault is of the live tier, for the producer had its acknowledgement.
After: the copy is no surplus. And a batch of one topic that stands in another one.

Issue: damage after the read-back was put on the tier behind (live damage → mirror); the tail that live lost was called doubled
at the mirror; a batch of another topic (KAFKA-19012) was COMPLETE, unaudited.
"""

import pytest

from headrace.local.drills import log_surgery
from headrace.local.drills.batch_damage import damage
from tests.support.platform import Platform
from tests.support.processes import eventually

from .attacks import RUNNING, Attack, Outcome, Stopped, Story, Truth, chosen, complete, differs, play
from .conftest import SCAN_EVERY_S
from .topics import WITHIN_S, Topic, in_window, path_of

EACH = 20
LIVE, MIRROR = "broker-live", "mirror"


def lost_before_the_mirror(topic: Topic) -> Story:
    topic.make()
    yield Stopped(MIRROR)
    gone = in_window(topic.log(EACH).live(), topic.windows[1])[5]
    sequence = topic.sequences()[gone]
    yield Stopped(MIRROR, LIVE)
    log_surgery.cut_out(topic.batch(LIVE, gone))
    yield RUNNING
    assert gone not in in_window(topic.live(), topic.windows[1])
    return Truth(topic, {topic.windows[1]: differs("live", missing=[sequence])})


def altered_before_the_mirror(topic: Topic) -> Story:
    topic.make()
    yield Stopped(MIRROR)
    changed = in_window(topic.log(EACH).live(), topic.windows[1])[5]
    yield Stopped(MIRROR, LIVE)
    path = path_of(5).encode()
    log_surgery.alter(topic.batch(LIVE, changed), path, path[:-1] + b"x")
    yield RUNNING
    assert [one.offset for one in topic.live() if path[:-1] + b"x" in one.value] == [changed]
    return Truth(topic, {topic.windows[1]: differs("live", altered=[changed])})


def rotten_on_a_running_disk(topic: Topic) -> Story:
    topic.make()
    yield Stopped(MIRROR)
    offsets = in_window(topic.log(EACH, batch=4).live(), topic.windows[1])
    missing = [topic.sequences()[offset] for offset in offsets[8:12]]
    damage(topic.batch(LIVE, offsets[8]))
    yield RUNNING
    return Truth(topic, {topic.windows[1]: differs("live", missing=missing)}, within_s=WITHIN_S + SCAN_EVERY_S)


def tail_lost_after_the_mirror(topic: Topic) -> Story:
    """Live loses the last six records of its last window. The copy has them; nothing is doubled there."""
    offsets = in_window(topic.make().log(EACH).await_mirrored().live(), topic.windows[2])
    sequences = topic.sequences()
    yield Stopped(MIRROR, LIVE)
    log_surgery.cut_tail(topic.batch(LIVE, offsets[14]))
    yield RUNNING
    assert topic.copied_as() == (set(), set(offsets[14:]), set()), "the copy alone has them"
    missing = [sequences[offset] for offset in offsets[14:]]
    return Truth(topic, {topic.windows[2]: differs("live", missing=missing)})


def tail_carried_back(topic: Topic) -> Story:
    """The same. Then docs/OPERATIONS.md, "A live log that lost its tail", word for word: nothing is missing any more."""
    offsets = in_window(topic.make().log(EACH).await_mirrored().live(), topic.windows[2])
    sequences = topic.sequences()
    yield Stopped(MIRROR, LIVE)
    log_surgery.cut_tail(topic.batch(LIVE, offsets[14]))
    yield Stopped(MIRROR)
    missing = [sequences[offset] for offset in offsets[14:]]
    Truth(topic, {topic.windows[2]: differs("live", missing=missing)}).wait("a live log that lost its tail, before the way back")
    platform, layout = topic.platform, topic.platform.layout
    live, offline = layout.live_bootstrap, layout.offline_bootstrap
    between = ("--from", offline, "--to", live, "--topics", topic.name)
    platform.headrace("mirror", "verify", *between, exit_code=1)
    platform.headrace("topic", "config", topic.name, "--bootstrap", live, "--set", "headrace.mirror=true")
    words = ("--source", offline, "--destination", live, "--destination-zookeeper", layout.live_zookeeper)
    back = platform.in_background("mirror", "run", *words, "--audit-bootstrap", live, "--topics", topic.name, "--no-schemas")
    try:
        eventually(lambda: topic.live() == topic.offline(), within_ms=60_000, what="the tail carried back")
    finally:
        back.stop()
    platform.headrace("mirror", "verify", *between)
    platform.headrace("topic", "config", topic.name, "--bootstrap", live, "--set", "headrace.mirror=false")
    yield RUNNING
    topic.log(5)
    return Truth(topic, {start: complete(EACH + 5) for start in topic.windows})


def batch_of_another_topic(topic: Topic) -> Story:
    """A batch moves into another topic, valid and under its producer's id: missing in its own, doubled in the other."""
    other = Topic(topic.platform, f"{topic.name}_here")
    offsets = in_window(topic.make().log(EACH).await_mirrored().live(), topic.windows[1])
    other.make().log(EACH).await_mirrored()
    sequence, before = topic.sequences()[offsets[5]], len(other.live())
    yield Stopped(MIRROR, LIVE)
    moved = topic.batch(LIVE, offsets[5])
    twice = log_surgery.append_again(moved, other.batches(LIVE))
    log_surgery.cut_out(moved)
    yield RUNNING
    assert len(other.live()) == before + 1
    here = Truth(other, {other.windows[1]: differs("live", doubled=[twice], unaudited=0)})
    return Truth(topic, {topic.windows[1]: differs("live", missing=[sequence])}, also=here)


ATTACKS: dict[str, Attack] = {
    "lost_before_the_mirror": lost_before_the_mirror,
    "altered_before_the_mirror": altered_before_the_mirror,
    "rotten_on_a_running_disk": rotten_on_a_running_disk,
    "tail_lost_after_the_mirror": tail_lost_after_the_mirror,
    "tail_carried_back": tail_carried_back,
    "batch_of_another_topic": batch_of_another_topic,
}


@pytest.fixture(scope="module")
def played(platform: Platform, request: pytest.FixtureRequest) -> dict[str, Outcome]:
    return play(platform, chosen(request, ATTACKS))


@pytest.mark.situation(
    "live log",
    "records are damaged before the mirror copied them",
    shown="INCOMPLETE or ALTERED at live; missing ones by sequence number",
    when="after a restart of the broker, else at the next scan",
    do="send them again, or `audit known-loss`",
    case="lost_before_the_mirror",
)
@pytest.mark.situation("live log", "records are damaged before the mirror copied them", case="altered_before_the_mirror")
@pytest.mark.situation(
    "live log",
    "damage on the disk of a running broker",
    shown="INCOMPLETE at its tier",
    when="within `scan_every_ms`",
    do="restore the copy",
    case="rotten_on_a_running_disk",
)
@pytest.mark.situation(
    "live log",
    "live loses its tail after the mirror copied it",
    shown="INCOMPLETE, missing at live",
    when="when the log is read again",
    do="keep the copy: `docs/OPERATIONS.md`",
    case="tail_lost_after_the_mirror",
)
@pytest.mark.situation(
    "live log",
    "the lost tail is carried back from the copy",
    shown="INCOMPLETE, missing at live, before; then COMPLETE",
    when="once live is read again",
    do="`docs/OPERATIONS.md`, A live log that lost its tail",
    case="tail_carried_back",
)
@pytest.mark.situation(
    "producers",
    "a batch of another topic comes under a producer's id",
    shown="DOUBLED",
    when="once its run has closed, or the deadline has passed",
    do="find the client (KAFKA-19012)",
    case="batch_of_another_topic",
)
@pytest.mark.parametrize("name", ATTACKS)
def test_it_is_told_with_its_records_at_the_live_tier(played: dict[str, Outcome], name: str) -> None:
    played[name].await_told()


@pytest.mark.situation("live log", "records are damaged before the mirror copied them")
def test_what_was_damaged_before_the_mirror_is_copied_as_it_was_left(played: dict[str, Outcome]) -> None:
    for name in ("lost_before_the_mirror", "altered_before_the_mirror"):
        truth = played[name].truth
        assert truth is not None
        assert truth.topic.copied_as() == (set(), set(), set()), name
