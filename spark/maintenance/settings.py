"""The defaults of maintenance; ages and sizes under Iceberg's names where it has them.

table property write.target-file-size-bytes            size of compacted files; default 128 MiB
table property history.expire.max-snapshot-age-ms      snapshots younger than this stay; default 5 days
table property history.expire.min-snapshots-to-keep    of each branch; default 10
<warehouse>/retention.toml                             how long hours are kept; without it no limit

    [default]
    hours = 720
    [topics.access_log]
    hours = 0                                          # 0: no limit
"""

import tomllib
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from ..errors import WarehouseError
from ..load.hour_writer import BUFFER_BYTES
from ..warehouse.store import StorePath
from ..warehouse.topic_table import TopicTable

TARGET_BYTES = 128 << 20
MAX_SNAPSHOT_AGE_MS = 5 * 24 * 3_600_000
MIN_SNAPSHOTS = 10
GRACE_MS = 3 * 24 * 3_600_000
"""How long a file stays that no snapshot names any more: for readers that had begun, and for engines that are about to commit."""
RETENTION = "retention.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactSettings:
    """One compaction."""

    target_bytes: int | None = None
    """None: what the table's property says."""
    min_files: int = 2
    """An hour with fewer small files stays as it is."""
    closed_after_ms: int = 3_600_000
    """An hour is closed so long after its end: late events of ordinary delay have come by then."""
    hours: Collection[int] = field(default=())
    """Only these, closed or not; empty: every closed one."""
    most_hours: int = 1_000
    """In one run; the next continues."""
    most_manifests: int = 100
    """A branch with so many has them merged, as with Iceberg's `commit.manifest.min-count-to-merge`."""
    buffer_bytes: int = BUFFER_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirySettings:
    """One clean-up of snapshots and files."""

    max_age_ms: int | None = None
    min_snapshots: int | None = None
    """None: what the table's properties say."""
    grace_ms: int = GRACE_MS
    most_files: int = 10_000
    """The most that one run deletes."""


def target_bytes_of(table: TopicTable) -> int:
    return _number(table, "write.target-file-size-bytes", TARGET_BYTES, least=1)


def max_snapshot_age_ms_of(table: TopicTable) -> int:
    return _number(table, "history.expire.max-snapshot-age-ms", MAX_SNAPSHOT_AGE_MS, least=0)


def min_snapshots_of(table: TopicTable) -> int:
    return _number(table, "history.expire.min-snapshots-to-keep", MIN_SNAPSHOTS, least=1)


def _number(table: TopicTable, name: str, default: int, *, least: int) -> int:
    text = table.iceberg.properties.get(name)
    if text is None:
        return default
    if not text.isdecimal() or int(text) < least:
        raise WarehouseError(f"table {table.topic!r}: property {name} is {text!r}, and a number from {least} on is wanted")
    return int(text)


def retention_hours(warehouse: StorePath, topic: str) -> int:
    """Return how many hours the topic's rows are kept; 0: no limit. Raises WarehouseError for a wrong file."""
    path = warehouse / RETENTION
    try:
        words = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return 0
    except (OSError, ValueError) as error:
        raise WarehouseError(f"{path} cannot be read: {error}") from error
    topics = words.pop("topics", {})
    if not isinstance(topics, dict):
        raise WarehouseError(f"{path}: `topics` is not a table: [topics.NAME] is wanted")
    sections: dict[str, Any] = {**{f"topics.{name}": one for name, one in topics.items()}, **words}
    faults = [fault for name, section in sections.items() if (fault := _fault(name, section))]
    if faults:
        raise WarehouseError(f"{path}: {'; '.join(faults)}")
    chosen = topics.get(topic, words.get("default", {}))
    return int(chosen.get("hours", 0))


def _fault(name: str, section: Any) -> str:
    if name != "default" and not name.startswith("topics."):
        return f"there is no section [{name}]: known are [default] and [topics.NAME]"
    if not isinstance(section, dict) or set(section) != {"hours"}:
        return f"[{name}] wants `hours` and nothing else"
    hours = section["hours"]
    if type(hours) is not int or hours < 0:
        return f"[{name}] hours: {hours!r} is not a number of hours; 0 keeps them permanently"
    return ""
