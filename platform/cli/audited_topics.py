"""Explains why the audit shows nothing of a topic: the topic is unknown, or there is nothing to audit yet."""

from ..audit import client as audit
from ..runtime.layout import is_internal
from .topic_names import topics_if_reachable, unknown_topic


def why_nothing(topic: str, *, url: str, live: str) -> str:
    """Return why the audit shows no window of a topic that it or the live cluster knows. Raises UsageError for an unknown
    topic.
    """
    heard = audit.topics(url)
    if topic in heard:
        return f"The audit knows topic {topic!r}, and no tier has counted a record of it yet."
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
        topic, f"{asked} the audit knows one", {*heard, *(there or ())}, "`headrace topic list` shows those there are."
    )
