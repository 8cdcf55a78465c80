"""A topic's messages: decoded, from a place on, filtered; and live, as server-sent events."""

import json
import time
from collections.abc import Callable
from typing import Any

from ...apps.tail import places
from ...apps.tail.expression import ExpressionRefused, compile_expression
from ...apps.tail.places import PlaceRefused
from ...apps.tail.reading import Reading, fields_of, words_of
from ...client.cluster_kind import counts_records
from ...client.connection.cluster import Cluster
from ...client.errors import UnknownTopic
from ...client.fetch.fetched import TopicPartition
from ...client.fetch.log_offsets import EARLIEST, LATEST, log_offsets
from ...client.groups.record_steps import step
from ...schema_registry.client import RegistryError
from ..answers import Answers
from ..asked import Asked
from ..errors import BadRequest
from ..rendering import render

MOST_SHOWN = 50
MOST_LOOKED_AT = 200_000
LOOK_S = 3.0
"""How long one page looks for messages that match."""
NEWEST = "newest"
MOST_CHARACTERS = 1_500
"""Of one message on the page; the command shows it whole."""
MOST_STEPPED = 16
"""Of more partitions only the last message of each is read: a page is not to read a megabyte of each of hundreds."""

Predicate = Callable[[dict[str, Any]], bool]


def page(answers: Answers, asked: Asked) -> str:
    """Return the page."""
    topic, name = asked.needed("topic"), asked.text("cluster", "live")
    word, where = asked.text("from", NEWEST), asked.text("where")
    only = asked.whole("partition", range(1 << 31))
    cluster = answers.cluster(name)
    matches = predicate(where)
    partitions = partitions_of(cluster, topic, only)
    begin = time.monotonic()
    faults: list[str] = []
    looked_at, rows = 0, []
    # Of the newest ones, each partition's are read before it is known which of them are the newest of all.
    most = MOST_SHOWN * (len(partitions) if word == NEWEST else 1)
    reading = Reading(
        cluster,
        topic,
        _starts(cluster, topic, partitions, word),
        follow=False,
        tell=faults.append,
        is_stopped=lambda: time.monotonic() - begin > LOOK_S,
    )
    for partition, record in reading.records():
        looked_at += 1
        words = words_in(answers, topic, partition, record)
        if matches is None or matches(fields_of(words)):
            rows.append(message_row(words))
        if len(rows) >= most or looked_at >= MOST_LOOKED_AT:
            break
    is_cut = len(rows) >= most or looked_at >= MOST_LOOKED_AT or time.monotonic() - begin > LOOK_S
    rows.sort(key=lambda one: (-one["timestamp_ms"], one["partition"], -one["offset"]))
    del rows[MOST_SHOWN:]
    return render(
        "messages",
        topic=topic,
        cluster=name,
        place=word,
        where=where,
        partition=only,
        rows=rows,
        looked_at=looked_at,
        is_cut=is_cut,
        faults=faults,
        now_ms=answers.clock.now_ms(),
    )


def predicate(where: str) -> Predicate | None:
    """Return what a filter lets through; None: everything. Raises BadRequest."""
    try:
        return compile_expression(where) if where else None
    except ExpressionRefused as error:
        raise BadRequest(f"the filter cannot be read: {error}") from error


def partitions_of(cluster: Cluster, topic: str, only: int | None) -> list[int]:
    """Return the topic's partitions, or the one that was asked for. Raises BadRequest."""
    try:
        found = sorted(cluster.partitions(topic))
    except UnknownTopic as error:
        raise BadRequest(str(error)) from error
    if only is not None and only not in found:
        raise BadRequest(f"{topic} has no partition {only}: it has {found[0]} to {found[-1]}")
    return found if only is None else [only]


def words_in(answers: Answers, topic: str, partition: int, record: Any) -> dict[str, Any]:
    """Return a record as JSON values. Without the registry its value is shown as text, and why."""
    try:
        return words_of(topic, partition, record, answers.decoder)
    except RegistryError as error:
        value = b"" if record.value is None else bytes(record.value)
        key = None if record.key is None else bytes(record.key).decode("utf-8", "backslashreplace")
        plain = {"topic": topic, "partition": partition, "offset": record.offset, "timestamp_ms": record.timestamp_ms, "key": key}
        return {**plain, "value": value.decode("utf-8", "backslashreplace"), "why": f"not decoded: {error}"}


def message_row(words: dict[str, Any]) -> dict[str, Any]:
    """Return a message as the page and the live stream show it."""
    whole = json.dumps(words["event"], ensure_ascii=False) if "event" in words else words["value"]
    text = "(no value)" if whole is None else whole
    is_short = len(text) <= MOST_CHARACTERS
    return {
        "partition": words["partition"],
        "offset": words["offset"],
        "timestamp_ms": words["timestamp_ms"],
        "key": words["key"],
        "text": text if is_short else f"{text[:MOST_CHARACTERS]}… ({len(text):,} characters)",
        "why": words.get("why"),
    }


def _starts(cluster: Cluster, topic: str, partitions: list[int], word: str) -> dict[int, int]:
    if word != NEWEST:
        try:
            return places.starts(cluster, topic, partitions, word)
        except PlaceRefused as error:
            raise BadRequest(f"from={error}") from error
    names = [TopicPartition(topic, one) for one in partitions]
    first, last = log_offsets(cluster, dict.fromkeys(names, EARLIEST)), log_offsets(cluster, dict.fromkeys(names, LATEST))
    each = MOST_SHOWN if len(names) <= MOST_STEPPED else 1
    if counts_records(cluster):
        return {one.partition: max(first[one], last[one] - each) for one in names}
    return {one.partition: step(cluster, one, last[one], -each, first[one], last[one]) for one in names}


def live_records(answers: Answers, asked: Asked, is_stopped: Callable[[], bool]) -> Any:
    """Yield messages that match as they come, as rows, until `is_stopped`. Raises BadRequest before the first one."""
    topic, name = asked.needed("topic"), asked.text("cluster", "live")
    cluster = answers.cluster(name)
    matches = predicate(asked.text("where"))
    partitions = partitions_of(cluster, topic, asked.whole("partition", range(1 << 31)))
    begin = places.starts(cluster, topic, partitions, "latest")

    def rows() -> Any:
        reading = Reading(cluster, topic, begin, follow=True, tell=lambda what: None, is_stopped=is_stopped)
        for partition, record in reading.records():
            words = words_in(answers, topic, partition, record)
            if matches is None or matches(fields_of(words)):
                yield message_row(words)

    return rows()
