"""Which published hours schedulers do not have yet. What they have is stored in the table, so that a kill never leaves one out.

table property headrace.announced     {"1": ["2015-05-17T10", "2015-05-18T00/2015-05-19T23"], "2": ["2015-05-17T11"]}
                                      proof revision → hours, consecutive ones joined, both ends included
"""

import json
from collections.abc import Collection, Mapping

from ...runtime.logs import get_logger
from ..warehouse.hours import hour_name, hour_of_name
from ..warehouse.proofs import COMPACTED, DIFFERS, NOT_PUBLISHED
from ..warehouse.topic_table import TopicTable
from ..warehouse.warehouse import Warehouse

log = get_logger(__name__)

MOST_HOURS = 200
"""The most hours of one announcement: Airflow stores them all in one transaction. The next run announces the others."""

MOST_HOURS_OF_ALL = 2_000
"""The same of all topics together."""

Revisions = Mapping[int, int]
"""Hour since the epoch → revision of its proof."""


def hours_to_announce(warehouse: Warehouse, topic: str) -> dict[str, int]:
    """Return the published hours (name → revision) that `set_announced` did not store yet, oldest first, at most `MOST_HOURS`."""
    table = warehouse.table(topic)
    if table is None:
        return {}
    found = missing(_published(warehouse, table), of_text(table.announced))
    return {hour_name(hour): revision for hour, revision in found.items()}


def all_hours_to_announce(warehouse: Warehouse, *, most: int = MOST_HOURS_OF_ALL) -> dict[str, dict[str, int]]:
    """Return topic → hours as `hours_to_announce` of every table, at most `most` in all."""
    found: dict[str, dict[str, int]] = {}
    for topic in warehouse.topics():
        try:
            hours = hours_to_announce(warehouse, topic)
        except Exception as error:  # a table's metadata: the count and the publish have reported it
            log.warning("hours_not_announced", topic=topic, reason=f"{type(error).__name__}: {error}")
            continue
        some = dict(list(hours.items())[: max(0, most - sum(map(len, found.values())))])
        if some:
            found[topic] = some
    return found


def set_announced(warehouse: Warehouse, topic: str, revisions: Mapping[str, int]) -> None:
    """Store that schedulers have these revisions. Hours that were withdrawn meanwhile are forgotten."""
    table = warehouse.existing_table(topic)
    published = _published(warehouse, table)
    had = {**of_text(table.announced), **{hour_of_name(name): revision for name, revision in revisions.items()}}
    text = to_text({hour: revision for hour, revision in had.items() if hour in published})
    if text != table.announced:
        table.set_announced(text)


def announce_again(warehouse: Warehouse, topic: str, *, first: int | None = None, last: int | None = None) -> list[str]:
    """Forget that schedulers have the hours first to last, both included; return their names, oldest first.

    `hours_to_announce` returns them again. Raises WarehouseError if the topic has no table.
    """
    table = warehouse.existing_table(topic)
    had = of_text(table.announced)
    again = [hour for hour in sorted(had) if (first is None or first <= hour) and (last is None or hour <= last)]
    if forgotten := set(again):
        table.set_announced(to_text({hour: revision for hour, revision in had.items() if hour not in forgotten}))
    return [hour_name(hour) for hour in again]


def _published(warehouse: Warehouse, table: TopicTable) -> dict[int, int]:
    """Return published hour → the last revision that changed its rows."""
    history = warehouse.proofs(table.topic).marks(up_to_publish=table.last_publish)
    return {
        hour: next(one.revision for one in reversed(revisions) if one.verdict != COMPACTED)
        for hour, revisions in history.items()
        if revisions[-1].verdict not in (*NOT_PUBLISHED, DIFFERS)
    }


def missing(published: Revisions, announced: Revisions, *, most: int = MOST_HOURS) -> dict[int, int]:
    """Return the published hours of which this revision was not announced, oldest first."""
    found = {hour: revision for hour, revision in sorted(published.items()) if announced.get(hour) != revision}
    return dict(list(found.items())[:most])


def to_text(revisions: Revisions) -> str:
    """Return what `of_text` reads: years of hours stay a short text."""
    by_revision: dict[int, set[int]] = {}
    for hour, revision in revisions.items():
        by_revision.setdefault(revision, set()).add(hour)
    return json.dumps({str(revision): _joined(hours) for revision, hours in sorted(by_revision.items())})


def of_text(text: str) -> dict[int, int]:
    """Return hour → revision of a text that `to_text` wrote."""
    found: dict[int, int] = {}
    for revision, names in json.loads(text or "{}").items():
        for name in names:
            first, _, last = name.partition("/")
            found.update(dict.fromkeys(range(hour_of_name(first), hour_of_name(last or first) + 1), int(revision)))
    return found


def _joined(hours: Collection[int]) -> list[str]:
    spans: list[list[int]] = []
    for hour in sorted(hours):
        if spans and spans[-1][1] == hour - 1:
            spans[-1][1] = hour
        else:
            spans.append([hour, hour])
    return [hour_name(first) if first == last else f"{hour_name(first)}/{hour_name(last)}" for first, last in spans]
