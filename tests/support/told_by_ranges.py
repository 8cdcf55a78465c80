"""What the range reports of one tier about one topic add up to: a report replaces what was said before of its offsets.

Knows the messages, nothing of the audit's model.
"""

from collections import Counter
from collections.abc import Iterable

from headrace.audit.model.messages import RangeReport, Skipped


class ToldByRanges:
    """Feed it the tier's reports in order."""

    def __init__(self, reports: Iterable[RangeReport] = ()) -> None:
        self.records: dict[int, dict[int, list[tuple[int, str, int | None]]]] = {}
        """Partition → offset → (window, kind, CRC) of each record that was told there."""
        self.covered: dict[int, list[tuple[int, int]]] = {}
        """Partition → the offsets that were told of, as disjoint ranges in order."""
        self.skipped: dict[int, list[Skipped]] = {}
        self.redelivered = 0
        """Records that the tier called so, and those that were told a second time."""
        for report in reports:
            self.take(report)

    def take(self, report: RangeReport) -> None:
        records = self.records.setdefault(report.partition, {})
        again = [offset for offset in records if report.from_offset <= offset < report.to_offset]
        self.redelivered += sum(len(records.pop(offset)) for offset in again)
        for start, window in report.windows.items():
            self.redelivered += window.redelivered
            for kind, stretches in (("held", window.held), ("quarantined", window.quarantined), ("altered", window.altered)):
                for one in stretches:
                    assert report.from_offset <= one.first
                    assert one.end <= report.to_offset
                    for offset in range(one.first, one.end):
                        records.setdefault(offset, []).append((start, kind, one.crc))
        kept = [
            one for one in self.skipped.get(report.partition, []) if not report.from_offset <= one.from_offset < report.to_offset
        ]
        self.skipped[report.partition] = [*kept, *report.skipped]
        self._cover(report.partition, report.from_offset, report.to_offset)

    def _cover(self, partition: int, from_offset: int, to_offset: int) -> None:
        joined: list[tuple[int, int]] = []
        for start, end in sorted([*self.covered.get(partition, []), (from_offset, to_offset)]):
            if joined and start <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(joined[-1][1], end))
            else:
                joined.append((start, end))
        self.covered[partition] = joined

    def windows(self, kind: str = "held") -> dict[int, int]:
        """Return window start → records of that kind, over all partitions."""
        return dict(
            Counter(
                window
                for records in self.records.values()
                for found in records.values()
                for window, its_kind, _ in found
                if its_kind == kind
            )
        )
