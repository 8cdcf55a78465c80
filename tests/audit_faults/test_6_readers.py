"""Consumer groups that begin inside a window, lose a record behind their beginning, or stand ahead of a log that lost its tail.

Issue: a group that began inside a window and lost a record behind its beginning was COMPLETE.
"""

import pytest

from headrace.local.drills import log_surgery
from tests.support.platform import Platform

from .attacks import RUNNING, Attack, Facts, Outcome, Stopped, Story, Truth, chosen, complete, differs, play, unknown
from .readers import begin_at, group_of, read, read_and_lose, tier_of
from .topics import Topic, in_window

EACH = 20
LIVE, MIRROR = "broker-live", "mirror"


def row(topic: Topic, verdict: str | None, **more: object) -> Facts:
    """What the audit says of the topic's group beside the verdict of a window; None: nothing."""
    return {"sinks": {tier_of(topic): None if verdict is None else {"verdict": verdict, **more}}}


def middle(topic: Topic) -> list[int]:
    """Log into the topic; return the offsets of its middle window once both sides have them."""
    return in_window(topic.make().log(EACH).await_mirrored().live(), topic.windows[1])


def begins_inside(topic: Topic) -> Truth:
    """The group is compared from where it began: it has a row in that window, and none in the one before."""
    first, second, third = topic.windows
    begins = middle(topic)[8]
    begin_at(topic, group_of(topic), begins)
    read(topic, [one.offset for one in topic.live() if one.offset >= begins])
    told = {first: row(topic, None), second: row(topic, "COMPLETE", count=EACH - 8), third: row(topic, "COMPLETE", count=EACH)}
    return Truth(topic, {start: {**complete(EACH), **one} for start, one in told.items()})


def loses_behind(topic: Topic) -> Truth:
    """It loses a record behind its beginning: its row names it, and the window's verdict stays."""
    first, second, third = topic.windows
    offsets = middle(topic)
    read_and_lose(topic, begins_at=offsets[8], lost=offsets[12])
    bad = row(topic, "INCOMPLETE", missing=1, count=EACH - 9)
    told = {first: row(topic, None), second: bad, third: row(topic, "COMPLETE", count=EACH)}
    return Truth(topic, {start: {**complete(EACH), **one} for start, one in told.items()})


def named_and_begins_inside(topic: Topic) -> Truth:
    """An operator names it from that window on: then it answers for all records there, also those before its beginning."""
    begins = middle(topic)[8]
    begin_at(topic, group_of(topic), begins)
    read(topic, [one.offset for one in topic.live() if one.offset >= begins])
    words = ("--reason", "billing depends on it", "--from", str(topic.windows[1]))
    topic.platform.headrace("audit", "tier", "add", topic.name, tier_of(topic), *words)
    third = {"verdict": "COMPLETE", "tiers": {"offline": EACH, tier_of(topic): EACH}}
    return Truth(topic, {topic.windows[1]: unknown(tier_of(topic)), topic.windows[2]: third})


def ahead_of_live(topic: Topic) -> Story:
    """Live loses its tail, which the group had handled and committed, and nobody had copied. Once the log has grown beyond the
    commit, the group passes over the new records before it: they are missing at the group, in their window.
    """
    first, _, third = topic.windows
    topic.make()
    yield Stopped(MIRROR)
    before = topic.log(EACH).live()
    read(topic, [one.offset for one in before])
    commit = before[-1].offset + 1
    lost = in_window(before, third)[14:]
    missing = [topic.sequences()[offset] for offset in lost]
    yield Stopped(MIRROR, LIVE)
    log_surgery.cut_tail(topic.batch(LIVE, lost[0]))
    yield RUNNING
    with topic.logger() as logger:
        topic.log_window(logger, first, 2 * len(lost))
    there = [one.offset for one in topic.live()]
    passed_over = [offset for offset in there if lost[0] <= offset < commit]
    behind = [offset for offset in there if offset >= commit]
    assert passed_over
    assert behind
    read(topic, behind)
    of_first = row(topic, "INCOMPLETE", missing=len(passed_over), count=EACH + len(behind))
    of_third = row(topic, "COMPLETE", count=EACH)
    told = {
        first: {**complete(EACH + 2 * len(lost)), **of_first},
        third: {**differs("live", missing=missing), **of_third},
    }
    return Truth(topic, told)


ATTACKS: dict[str, Attack] = {
    "begins_inside": begins_inside,
    "loses_behind": loses_behind,
    "named_and_begins_inside": named_and_begins_inside,
    "ahead_of_live": ahead_of_live,
}


@pytest.fixture(scope="module")
def played(platform: Platform, request: pytest.FixtureRequest) -> dict[str, Outcome]:
    return play(platform, chosen(request, ATTACKS))


@pytest.mark.situation(
    "groups and sinks",
    "a consumer group begins inside a window",
    shown="its row COMPLETE with what it took; a record lost behind its beginning is missing there",
    when="with its report",
    do="what its row says",
    case="begins_inside",
)
@pytest.mark.situation("groups and sinks", "a consumer group begins inside a window", case="loses_behind")
@pytest.mark.situation(
    "groups and sinks",
    "the same, of a group that an operator named from that window on",
    shown="UNKNOWN, `silent` names it",
    when="its deadline",
    do="`headrace audit tier remove`",
    case="named_and_begins_inside",
)
@pytest.mark.situation(
    "groups and sinks",
    "live loses a tail that a group had committed, and grows beyond the commit",
    shown="INCOMPLETE, missing at live; the group's row INCOMPLETE",
    when="with its report",
    do="reset the group to where the tail was lost",
    case="ahead_of_live",
)
@pytest.mark.parametrize("name", ATTACKS)
def test_what_a_group_took_is_compared_from_where_it_began(played: dict[str, Outcome], name: str) -> None:
    played[name].await_told()
