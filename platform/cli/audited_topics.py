"""Explains why the audit shows nothing of a topic: the topic is unknown, or there is nothing to audit yet."""

import time

from ..audit import client as audit
from ..errors import HeadraceError
from ..runtime.layout import is_internal
from .topic_names import topics_if_reachable, unknown_topic

HEARD_WITHIN_S = 10.0
"""How long the audit may take to read a producer's announcement."""


class NotAudited(HeadraceError):
    """The topic exists, but no tier has reported a record of it to the audit."""


def why_nothing(topic: str, *, url: str, live: str) -> str:
    """Return why the audit shows no window of a topic that it or the live cluster knows. Raises AskedWrongly for an unknown
    topic.
    """
    heard = audit.topics(url)
    if topic in heard:
        return f"The audit has heard of topic {topic!r}, and no tier has counted a record of it yet."
    there = topics_if_reachable(live)
    if there is not None and topic in there:
        if is_internal(topic):
            return f"Topic {topic!r} is the platform's own: those are not audited."
        return (
            f"Topic {topic!r} exists on the live cluster and has no audited window: nothing was logged to it through the SDK or "
            "`headrace replay` yet."
        )
    asked = (
        f"on the live cluster at {live}, nor has"
        if there is not None
        else f"here (the live cluster at {live} does not answer): nor has"
    )
    raise unknown_topic(
        topic, f"{asked} the audit heard of one", {*heard, *(there or ())}, "`headrace topic list` shows those there are."
    )


def await_heard(topic: str, *, url: str, live: str) -> None:
    """Return once the audit knows the topic. Raises AskedWrongly for an unknown topic, NotAudited if no report arrives."""
    deadline = time.monotonic() + HEARD_WITHIN_S
    while topic not in audit.topics(url):
        why = why_nothing(topic, url=url, live=live)
        if time.monotonic() >= deadline or is_internal(topic):
            raise NotAudited(why)
        time.sleep(0.2)
