"""The audit topic and the reported positions, in memory. Both can be made to fail."""

from collections.abc import Callable, Mapping

from headrace.audit.model.codec import decode
from headrace.audit.model.messages import ProducerReport, RangeReport, Report
from headrace.runtime.layout import AUDIT_TOPIC


class AuditTopic:
    """Takes reports as `client.Producer` would. `refuses` makes a flush fail, its messages lost or arrived anyway."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.refuses = False
        self.loses = False
        self.at_send: Callable[[], None] = lambda: None

    def send(self, topic: str, value: bytes, *, key: bytes | None = None, timestamp_ms: int) -> None:
        assert topic == AUDIT_TOPIC
        assert len(value) < 512 << 10
        self.at_send()
        report = decode(value)
        assert key == (report.tier.encode() if isinstance(report, RangeReport) else b"producer")
        if not self.loses:
            self.reports.append(report)

    def flush(self, timeout_ms: int, /) -> None:
        if self.refuses:
            raise ConnectionError("the broker is away")

    @property
    def producers(self) -> list[ProducerReport]:
        return [report for report in self.reports if isinstance(report, ProducerReport)]

    @property
    def ranges(self) -> list[RangeReport]:
        return [report for report in self.reports if isinstance(report, RangeReport)]


class ReportedPositions:
    """Offsets by (tier, topic, partition)."""

    def __init__(self) -> None:
        self.noted: dict[tuple[str, str, int], int] = {}
        self.writes = 0
        self.refuses = False

    def read(self, tier: str, topic: str, partition: int) -> int | None:
        return self.noted.get((tier, topic, partition))

    def write_many(self, tier: str, offsets: Mapping[tuple[str, int], int]) -> None:
        self.writes += 1
        if self.refuses:
            raise ConnectionError("ZooKeeper is away")
        for (topic, partition), offset in offsets.items():
            self.noted[tier, topic, partition] = max(offset, self.noted.get((tier, topic, partition), 0))
