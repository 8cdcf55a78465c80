"""What the reading tasks report, one report for each split: rows, their digest, quarantined records. The driver adds them up."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ...audit.model.messages import Skipped, Stretch
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
    """The records that cannot become rows."""
    skipped: Sequence[Skipped] = ()
    """Offsets that could not be read."""
    refused: Mapping[int, int] = field(default_factory=dict)
    """Window start → how many of the quarantined records have a schema that the table cannot hold."""
    quarantined_by_code: Mapping[str, int] = field(default_factory=dict)
    missing_schema_ids: tuple[int, ...] = ()
    """Schemas whose columns the table does not have: the split must be read again with a wider table."""

    @property
    def split(self) -> OffsetRange:
        return OffsetRange(partition=self.partition, from_offset=self.from_offset, to_offset=self.to_offset)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, words: Mapping[str, Any]) -> "TaskReport":
        return cls(
            partition=words["partition"],
            from_offset=words["from_offset"],
            to_offset=words["to_offset"],
            row_count=words["row_count"],
            digests={int(start): digest for start, digest in words["digests"].items()},
            quarantined={int(start): [Stretch(*one) for one in some] for start, some in words["quarantined"].items()},
            skipped=tuple(Skipped(*one) for one in words["skipped"]),
            refused={int(start): count for start, count in words["refused"].items()},
            quarantined_by_code=words["quarantined_by_code"],
            missing_schema_ids=tuple(words["missing_schema_ids"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """The sum over all splits of a load. Partition → window start → …"""

    row_count: int
    digests: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    quarantined: Mapping[int, Stretches] = field(default_factory=dict)
    skipped: Mapping[int, Sequence[Skipped]] = field(default_factory=dict)
    refused: Mapping[int, int] = field(default_factory=dict)
    """Window start → records, of all partitions."""
    quarantined_by_code: Mapping[str, int] = field(default_factory=dict)
    missing_schema_ids: frozenset[int] = frozenset()


def total_of(reports: Iterable[TaskReport]) -> Total:
    """Return the sum over the reports of different splits."""
    rows, by_code, refused, schemas = 0, Counter[str](), Counter[int](), set[int]()
    digests: dict[int, dict[int, int]] = {}
    quarantined: dict[int, dict[int, list[Stretch]]] = {}
    skipped: dict[int, list[Skipped]] = {}
    for report in sorted(reports, key=lambda one: one.split):
        rows += report.row_count
        schemas.update(report.missing_schema_ids)
        by_code.update(report.quarantined_by_code)
        refused.update(report.refused)
        for start, digest in report.digests.items():
            mine = digests.setdefault(report.partition, {})
            mine[start] = (mine.get(start, 0) + digest) % MODULUS
        for start, stretches in report.quarantined.items():
            quarantined.setdefault(report.partition, {}).setdefault(start, []).extend(stretches)
        if report.skipped:
            skipped.setdefault(report.partition, []).extend(report.skipped)
    return Total(
        row_count=rows,
        digests=digests,
        quarantined=quarantined,
        skipped=skipped,
        refused=dict(refused),
        quarantined_by_code=dict(by_code),
        missing_schema_ids=frozenset(schemas),
    )
