"""The topics of a cluster, and one topic's partitions, leaders and settings."""

from ...client import topic_admin
from ...client.cluster_kind import counts_records
from ...client.fetch.fetched import TopicPartition
from ...client.fetch.log_offsets import EARLIEST, LATEST, log_offsets_or_errors
from ...client.groups.topic_readers import groups_of
from ...client.topic_admin import TopicDescription
from ...runtime.layout import is_internal
from .. import rendering
from ..answers import Answers, oldest, part
from ..asked import Asked
from ..rendering import render

TOPICS = 100
REMEMBERED_MS = 2_000
NEVER = 1 << 62
"""So large a number stands for "not at all" in Kafka's settings."""


def list_page(answers: Answers, asked: Asked) -> str:
    """Return the page of all topics."""
    name, q, after = asked.text("cluster", "live"), asked.text("q"), asked.text("after")
    cluster = answers.cluster(name)
    listed = answers.remembered(f"topics {name}", REMEMBERED_MS, lambda: topic_admin.describe_topics(cluster))
    every = listed.value
    shown = [one for one in every if q in one.name and one.name > after]
    rows = shown[:TOPICS]
    sizes = answers.soon(f"sizes {name} {[one.name for one in rows]}", REMEMBERED_MS, lambda: _held(answers, name, rows))
    return render(
        "topics",
        cluster=name,
        q=q,
        total=len(every),
        known=oldest(listed, sizes),
        rows=[{"topic": one, "held": (sizes.value or {}).get(one.name), "is_internal": is_internal(one.name)} for one in rows],
        unit="records" if counts_records(cluster) else "bytes",
        after=rows[-1].name if len(shown) > TOPICS else None,
        now_ms=answers.clock.now_ms(),
    )


def settings_page(answers: Answers, asked: Asked) -> str:
    """Return the page of one topic's partitions, settings and readers."""
    topic, name = asked.needed("topic"), asked.text("cluster", "live")
    cluster = answers.cluster(name)
    (found,) = topic_admin.describe_topics(cluster, [topic])
    names = [TopicPartition(topic, one.partition) for one in found.partitions if one.leader >= 0]
    starts = log_offsets_or_errors(cluster, dict.fromkeys(names, EARLIEST))
    ends = log_offsets_or_errors(cluster, dict.fromkeys(names, LATEST))
    partitions = []
    for one in found.partitions:
        at = TopicPartition(topic, one.partition)
        start, end = starts.get(at), ends.get(at)
        partitions.append(
            {
                "place": one,
                "start": start if isinstance(start, int) else None,
                "end": end if isinstance(end, int) else None,
                "held": end - start if isinstance(start, int) and isinstance(end, int) else None,
            }
        )
    ask = f"readers {name} {topic}"
    known, away = part(answers.layout, lambda: answers.soon(ask, REMEMBERED_MS, lambda: groups_of(cluster, topic)))
    return render(
        "settings",
        topic=topic,
        cluster=name,
        partitions=partitions,
        settings=[
            {"name": one.name, "value": one.value, "source": one.source, "words": setting_words(one.name, one.value)}
            for one in sorted(topic_admin.topic_settings(cluster, topic), key=lambda one: (one.source != "topic", one.name))
        ],
        readers=known,
        readers_away=away,
        unit="records" if counts_records(cluster) else "bytes",
        now_ms=answers.clock.now_ms(),
    )


def setting_words(name: str, value: str | None) -> str:
    """Return what a duration or a size means; empty for what is clear by itself."""
    if value is None or not value.removeprefix("-").isdecimal() or not name.endswith((".ms", ".bytes", ".messages")):
        return ""
    number = int(value)
    if number == -1:
        return "no limit"
    if number >= NEVER:
        return "never"
    return rendering.span(number) if name.endswith(".ms") else rendering.size(number) if name.endswith(".bytes") else ""


def _held(answers: Answers, name: str, topics: list[TopicDescription]) -> dict[str, int]:
    """Return topic → what its logs hold, in the unit of the cluster's offsets."""
    cluster = answers.cluster(name)
    names = [TopicPartition(topic.name, one.partition) for topic in topics for one in topic.partitions if one.leader >= 0]
    starts = log_offsets_or_errors(cluster, dict.fromkeys(names, EARLIEST))
    ends = log_offsets_or_errors(cluster, dict.fromkeys(names, LATEST))
    found: dict[str, int] = {}
    for one in names:
        start, end = starts[one], ends[one]
        if isinstance(start, int) and isinstance(end, int):
            found[one.topic] = found.get(one.topic, 0) + end - start
    return found
