"""What the mirror copies, how far it is behind, what is stopped or held back."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...client.fetch.fetched import TopicPartition
from ...client.groups.group_admin import Lag
from .. import problems
from ..answers import Answers, Known, part
from ..asked import Asked
from ..rendering import render
from ..unread import NOT_COUNTED, counted

PARTITIONS = 200
COUNTED_MS = 5_000
IDENTICAL = "identical"
"""The mode in which both logs have the same offsets, so that what the copy lacks can be counted in the source."""


def page(answers: Answers, asked: Asked) -> str:
    """Return the page: partitions that need attention first, then those that are furthest behind."""
    q = asked.text("q")
    status = answers.status("mirror")
    partitions: list[dict[str, Any]] = [one for one in (status or {}).get("partitions", ()) if q in one["topic"]]
    partitions.sort(key=lambda one: (not one["trouble"], -one["lag_bytes"], one["topic"], one["partition"]))
    now_ms = answers.clock.now_ms()
    rows = partitions[:PARTITIONS]
    unread, away = part(answers.layout, lambda: _unread(answers, status, rows))
    return render(
        "mirror",
        status=status,
        file=answers.layout.run / "mirror.json",
        age_ms=None if status is None else now_ms - int(status.get("at_ms", 0)),
        problems=problems.of_mirror(status, now_ms=now_ms),
        orders=(status or {}).get("orders") or {},
        unread=unread,
        away=away,
        rows=[{**one, **((unread and unread.value) or {}).get(_name(one), NOT_COUNTED)} for one in rows],
        total=len(partitions),
        q=q,
        now_ms=now_ms,
    )


def _unread(answers: Answers, status: Mapping[str, Any] | None, rows: Sequence[Mapping[str, Any]]) -> Known[Any] | None:
    """Return what of these partitions is not copied, in records and in time; None where offsets do not say it."""
    if status is None or status.get("mode") != IDENTICAL:
        return None
    lags = [
        Lag(partition=_name(one), committed=one["destination_end"], log_start=None, log_end=one["source_end"])
        for one in rows
        if one["destination_end"] is not None and one["source_end"] is not None
    ]
    if not any(one.lag for one in lags):
        return Known({one.partition: {**NOT_COUNTED, "records": 0, "behind_ms": 0} for one in lags}, 0, is_asking=False)
    return answers.soon(f"uncopied {[one.partition for one in lags]}", COUNTED_MS, lambda: counted(answers.live, lags))


def _name(row: Mapping[str, Any]) -> TopicPartition:
    return TopicPartition(row["topic"], row["partition"])
