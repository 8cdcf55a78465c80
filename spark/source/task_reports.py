"""The reports of the reading tasks, one small file for each split: rows, their digest, quarantined records. The driver adds
them up.

A Spark data source can return nothing besides its rows, hence the files. A repeated task writes the same file again (it is named
after the split), so retries and speculation count once. The folder is beside the Parquet files: a process that can write those
can write these.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ...audit.model.messages import Skipped, Stretch
from ...runtime.whole_file import replace_file
from .digest import MODULUS
from .offset_ranges import OffsetRange

Stretches = Mapping[int, Sequence[Stretch]]
"""Window start → records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """One split, read to its end."""

    partition: int
    from_offset: int
    to_offset: int
    row_count: int
    digests: Mapping[int, int] = field(default_factory=dict)
    """Window start → digest of its rows (`digest`), taken before Spark had them."""
    quarantined: Stretches = field(default_factory=dict)
    """The records that are no rows."""
    skipped: Sequence[Skipped] = ()
    """Offsets that could not be read."""
    quarantined_by_code: Mapping[str, int] = field(default_factory=dict)
    missing_schema_ids: tuple[int, ...] = ()
    """Schemas whose columns the table does not have: the split must be read again with a wider table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """The sum over all splits of a load. Partition → window start → …"""

    row_count: int
    digests: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    quarantined: Mapping[int, Stretches] = field(default_factory=dict)
    skipped: Mapping[int, Sequence[Skipped]] = field(default_factory=dict)
    quarantined_by_code: Mapping[str, int] = field(default_factory=dict)
    missing_schema_ids: frozenset[int] = frozenset()


def write(folder: Path, report: TaskReport) -> None:
    """Write the report into the folder, in one rename."""
    path = folder / _name(report.partition, report.from_offset, report.to_offset)
    replace_file(path, json.dumps(asdict(report)).encode())


def read_all(folder: Path, splits: Sequence[OffsetRange]) -> tuple[Total, list[OffsetRange]]:
    """Return the sum over `splits`, and the splits without a report."""
    rows, by_code, schemas = 0, dict[str, int](), set[int]()
    digests: dict[int, dict[int, int]] = {}
    quarantined: dict[int, dict[int, list[Stretch]]] = {}
    skipped: dict[int, list[Skipped]] = {}
    absent = []
    for split in splits:
        path = folder / _name(split.partition, split.from_offset, split.to_offset)
        try:
            words = json.loads(path.read_text())
        except FileNotFoundError:
            absent.append(split)
            continue
        rows += words["row_count"]
        schemas.update(words["missing_schema_ids"])
        for code, count in words["quarantined_by_code"].items():
            by_code[code] = by_code.get(code, 0) + count
        for start, digest in words["digests"].items():
            mine = digests.setdefault(split.partition, {})
            mine[int(start)] = (mine.get(int(start), 0) + digest) % MODULUS
        for start, stretches in words["quarantined"].items():
            windows = quarantined.setdefault(split.partition, {})
            windows.setdefault(int(start), []).extend(Stretch(*one) for one in stretches)
        if words["skipped"]:
            skipped.setdefault(split.partition, []).extend(Skipped(*one) for one in words["skipped"])
    total = Total(
        row_count=rows,
        digests=digests,
        quarantined=quarantined,
        skipped=skipped,
        quarantined_by_code=by_code,
        missing_schema_ids=frozenset(schemas),
    )
    return total, absent


def _name(partition: int, from_offset: int, to_offset: int) -> str:
    return f"{partition}-{from_offset}-{to_offset}.json"
