"""Which settings of a source's topic its copy takes on. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...client.topic_admin import TopicSettingInForce
from ..engine import Engine

EXCLUDE = (
    r"follower\.replication\.throttled\.replicas,leader\.replication\.throttled\.replicas,"
    r"message\.timestamp\.difference\.max\.ms,message\.timestamp\.type,unclean\.leader\.election\.enable,min\.insync\.replicas"
)
"""MirrorMaker's own default."""
_OF_THE_COPY = frozenset({"headrace.mirror", "message.timestamp.type", "max.message.bytes"})
"""What the mirror itself sees to."""
_OF_A_COPY_IN_KAFKA = frozenset(
    {
        "cleanup.policy",
        "retention.ms",
        "compression.type",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
    }
)
"""Under other values a copy in Apache Kafka would not stay one (decision 30)."""


class Wanted(NamedTuple):
    """What to set at the destination, and what is left out there."""

    to_set: dict[str, str]
    unknown: list[str]
    """Settings that the destination does not know."""
    kept: list[str]
    """Settings that must stay as they are for the copy's sake."""


def wanted(
    source: Sequence[TopicSettingInForce],
    destination: Sequence[TopicSettingInForce],
    *,
    destination_engine: Engine,
    exclude: Sequence[re.Pattern[str]],
) -> Wanted:
    """Return what of the source's own settings is to be set at the destination. Values of the source's broker are not copied."""
    present: Mapping[str, str | None] = {one.name: one.value for one in destination}
    held = _OF_THE_COPY | (_OF_A_COPY_IN_KAFKA if destination_engine is Engine.KAFKA else frozenset())
    to_set: dict[str, str] = {}
    unknown, kept = [], []
    for one in source:
        if one.source != "topic" or one.value is None or any(pattern.fullmatch(one.name) for pattern in exclude):
            continue
        if one.name in held:
            if present.get(one.name) != one.value:
                kept.append(one.name)
        elif one.name not in present:
            unknown.append(one.name)
        elif present[one.name] != one.value:
            to_set[one.name] = one.value
    return Wanted(to_set, unknown, kept)
