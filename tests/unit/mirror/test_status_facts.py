"""What the mirror says of itself."""

import json
from dataclasses import replace
from typing import Any

import pytest

from headrace.client.fetch.fetched import TopicPartition
from headrace.mirror import partition_copy, status_facts
from headrace.mirror.partition_copy import PartitionCopy, Phase
from headrace.mirror.stall import Progress, observed
from headrace.mirror.status_facts import Rows, facts


def of(copies: dict[TopicPartition, PartitionCopy], trouble: str | None = None) -> dict[str, Any]:
    return facts(copies, observed(Progress(), copies, {}, 0), trouble=trouble)


def test_each_partition_shows_both_ends_and_its_lag() -> None:
    copies = {
        TopicPartition("clicks", 1): PartitionCopy(phase=Phase.COPYING, counted_to=50, copied_to=60, source_end=100),
        TopicPartition("clicks", 0): PartitionCopy(phase=Phase.COPYING, counted_to=9, copied_to=9, source_end=9),
    }
    said = of(copies)
    assert said["lag_bytes"] == 40
    assert said["errors"] == []
    prepared = Rows().prepared(copies, {})
    rows = json.loads(prepared.text)
    assert prepared.value() == rows
    assert [(one["partition"], one["source_end"], one["destination_end"], one["lag_bytes"]) for one in rows] == [
        (0, 9, 9, 0),
        (1, 100, 60, 40),
    ]


def test_an_error_state_stands_out() -> None:
    copy = partition_copy.in_error(replace(PartitionCopy(), copied_to=9), Phase.SOURCE_BEHIND, "the source ends before", 0)
    said = of({TopicPartition("clicks", 0): copy}, trouble="no topics")
    assert said["errors"] == [{"topic": "clicks", "partition": 0, "state": "source_behind", "error": "the source ends before"}]
    assert said["trouble"] == "no topics"


def test_rows_follow_every_change_and_only_what_changed_is_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[TopicPartition] = []
    made = status_facts._written
    monkeypatch.setattr(status_facts, "_written", lambda name, *words: (written.append(name), made(name, *words))[1])
    names = [TopicPartition("clicks", number) for number in range(100)]
    copies = {name: PartitionCopy(phase=Phase.COPYING) for name in names}
    rows = Rows()
    rows.prepared(copies, {})
    assert sorted(written) == names
    del written[:]
    copies = {**copies, names[7]: replace(copies[names[7]], copied_to=5), TopicPartition("aaa", 0): PartitionCopy()}
    del copies[names[8]]
    text = rows.prepared(copies, {names[9]: "paused"}).text
    assert sorted(written) == [TopicPartition("aaa", 0), names[7], names[9]]
    found = {TopicPartition(one["topic"], one["partition"]): one for one in json.loads(text)}
    assert list(found) == sorted(copies)
    assert (found[names[7]]["destination_end"], found[names[9]]["held"]) == (5, "paused")
    assert json.loads(rows.prepared(copies, {}).text)[names.index(names[9])]["held"] is None
