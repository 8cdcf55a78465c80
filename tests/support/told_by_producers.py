"""What the reports of one producer add up to, and deliveries to note. Knows the messages, nothing of the audit's model."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.audit.model.messages import ProducerReport
from headrace.client.errors import ProducerClosed
from headrace.client.producer.delivery import BatchNumbers, Delivery, DeliveryEnd

Record = tuple[int, int, int, int, int | None]
"""Partition, producer id, epoch, sequence, CRC of its batch."""


@dataclass
class Told:
    """What was said of one window."""

    acknowledged: set[Record] = field(default_factory=set)
    uncertain: set[Record] = field(default_factory=set)
    renumbered: dict[Record, tuple[int, int, int]] = field(default_factory=dict)
    losses: dict[str, int] = field(default_factory=dict)


def told(reports: Iterable[ProducerReport]) -> dict[tuple[str, int], Told]:
    """(Topic, window) → what all epochs of one instance say of it; losses are totals of an epoch."""
    found: dict[tuple[str, int], Told] = {}
    totals: dict[tuple[int, str, int], dict[str, int]] = {}
    for report in reports:
        for window in report.windows:
            of = found.setdefault((window.topic, window.window_start_ms), Told())
            for sent in window.sent:
                name = (sent.partition, sent.producer_id, sent.producer_epoch)
                for stretches, into in ((sent.acknowledged, of.acknowledged), (sent.uncertain, of.uncertain)):
                    into |= {(*name, at, one.crc) for one in stretches for at in range(one.first, one.end)}
                for moved in sent.renumbered:
                    for index in range(moved.sent.count):
                        after = (moved.producer_id, moved.producer_epoch, moved.first_sequence + index)
                        of.renumbered[*name, moved.sent.first + index, moved.sent.crc] = after
            if window.losses:
                totals[report.epoch, window.topic, window.window_start_ms] = dict(window.losses)
    for (_, topic, start), losses in totals.items():
        for loss, count in losses.items():
            into_losses = found[topic, start].losses
            into_losses[loss] = into_losses.get(loss, 0) + count
    return found


def delivery(
    *numbers: tuple[int, int, int],
    count: int = 1,
    end: DeliveryEnd = DeliveryEnd.ACKNOWLEDGED,
    topic: str = "clicks",
    partition: int = 0,
) -> Delivery:
    """`numbers`: producer id, first sequence, CRC."""
    return Delivery(
        end=end,
        numbers=tuple(BatchNumbers(producer_id, 0, first, crc) for producer_id, first, crc in numbers),
        topic=topic,
        partition=partition,
        base_offset=-1,
        record_count=count,
        first_timestamp_ms=0,
        max_timestamp_ms=0,
        error=None if end is DeliveryEnd.ACKNOWLEDGED else ProducerClosed("closed"),
    )
