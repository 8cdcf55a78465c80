"""Topics that are deleted: made anew under their name with another log, or the quarantine topic beside one.

Issue: two logs were mixed (live 90, really 60); a window was COMPLETE, quarantined 3, when nobody could read those 3 any more.
"""

import pytest

from tests.support.platform import Platform

from .attacks import RUNNING, Outcome, Story, Truth, chosen, complete, play, unknown
from .topics import Topic, in_window


def made_anew(topic: Topic) -> Story:
    """The mirror leaves the copy of the old log as it is, and never mixes two. What the reason says to do is enough."""
    topic.make().log(10, batch=2).await_mirrored()
    topic.delete()
    topic.make().log(20, batch=2)
    new = topic.live()
    assert {len(in_window(new, start)) for start in topic.windows} == {20}
    to_do = f"headrace topic delete {topic.name} --cluster offline"
    named = unknown("mirror", tiers={"producer": 20, "live": 20}, reason=to_do)
    Truth(topic, dict.fromkeys(topic.windows, named)).wait("live topic: made anew under its name")
    topic.delete_copy()
    yield RUNNING
    return Truth(topic, dict.fromkeys(topic.windows, complete(20)))


def quarantine_deleted(topic: Topic) -> Story:
    """Three events went aside. Their topic is deleted: nobody can read them any more."""
    topic.make()
    with topic.logger() as logger:
        for start in topic.windows:
            topic.log_window(logger, start, 5)
        for _ in range(3):
            assert not logger.log({"client_ip": 7}, event_time_ms=topic.windows[1]), "no event of the schema"
    aside = Topic(topic.platform, f"{topic.name}.quarantine")
    assert len(aside.live()) == 3
    Truth(topic, {topic.windows[1]: {**complete(5), "quarantined": 3}}).wait("three events put aside")
    yield RUNNING
    aside.delete()
    return Truth(topic, {topic.windows[1]: unknown("quarantine", quarantined=3, reason="3 quarantined records cannot be read")})


ATTACKS = {"made_anew": made_anew, "quarantine_deleted": quarantine_deleted}


@pytest.fixture(scope="module")
def played(platform: Platform, request: pytest.FixtureRequest) -> dict[str, Outcome]:
    return play(platform, chosen(request, ATTACKS))


@pytest.mark.situation(
    "topics",
    "a topic is deleted and made again under its name",
    shown="the new log alone is counted; UNKNOWN, `silent: mirror`",
    when="within `discover_ms` and the mirror's deadline",
    do="`headrace topic delete TOPIC --cluster offline`",
    case="made_anew",
)
@pytest.mark.situation(
    "schemas and quarantine",
    "a quarantine topic is deleted",
    shown="UNKNOWN, `silent: quarantine`; `quarantined` n stays",
    when="within `discover_ms`",
    do="`audit known-loss --tier quarantine`",
    case="quarantine_deleted",
)
@pytest.mark.parametrize("name", ATTACKS)
def test_a_topic_that_was_deleted_is_named_with_what_to_do(played: dict[str, Outcome], name: str) -> None:
    played[name].await_told()
