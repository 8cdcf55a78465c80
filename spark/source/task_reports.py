"""What each reading task says it did, in one small file a piece: rows and quarantined records per window.

The driver adds them up.

A Spark data source has no other way to say anything beside its rows. A task that is run again writes the same file again (its
name is the piece's), so retries and speculation count once. The folder is beside the Parquet files, so whoever can write those
can write these.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ...runtime.whole_file import replace_file
from .offset_ranges import OffsetRange


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """One piece, read to its end."""

    partition: int
    from_offset: int
    to_offset: int
    row_count: int
    quarantined: Mapping[int, int] = field(default_factory=dict)
    """Window start → records (as the audit counts them) that are no rows."""
    quarantined_by_code: Mapping[str, int] = field(default_factory=dict)
    missing_schema_ids: tuple[int, ...] = ()
    """Schemas met whose columns the table has not got: the piece must be read again with a wider table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """All pieces of a load together."""

    row_count: int
    quarantined: Mapping[int, Mapping[int, int]]
    """Partition → window start → records."""
    quarantined_by_code: Mapping[str, int]
    missing_schema_ids: frozenset[int]


def write(folder: Path, receipt: TaskReport) -> None:
    """Put the receipt into the folder, in one rename."""
    path = folder / _name(receipt.partition, receipt.from_offset, receipt.to_offset)
    replace_file(path, json.dumps(asdict(receipt)).encode())


def read_all(folder: Path, pieces: list[OffsetRange]) -> tuple[Total, list[OffsetRange]]:
    """Return the sum over `pieces`, and the pieces that left no receipt."""
    rows, by_code, schemas = 0, dict[str, int](), set[int]()
    quarantined: dict[int, dict[int, int]] = {}
    absent = []
    for piece in pieces:
        path = folder / _name(piece.partition, piece.from_offset, piece.to_offset)
        try:
            words = json.loads(path.read_text())
        except FileNotFoundError:
            absent.append(piece)
            continue
        rows += words["row_count"]
        schemas.update(words["missing_schema_ids"])
        for code, count in words["quarantined_by_code"].items():
            by_code[code] = by_code.get(code, 0) + count
        for start, count in words["quarantined"].items():
            windows = quarantined.setdefault(piece.partition, {})
            windows[int(start)] = windows.get(int(start), 0) + count
    return Total(
        row_count=rows, quarantined=quarantined, quarantined_by_code=by_code, missing_schema_ids=frozenset(schemas)
    ), absent


def _name(partition: int, from_offset: int, to_offset: int) -> str:
    return f"{partition}-{from_offset}-{to_offset}.json"
