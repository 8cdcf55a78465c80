"""Reports as compact JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..messages import (
    KnownDifference,
    ProducerReport,
    PublishedHour,
    RangeReport,
    RangeWindow,
    Report,
    Retirement,
    SentRanges,
    Stretch,
    TierChange,
)
from ..tiers import PRODUCER

VERSION = 2


def encode(report: Report) -> bytes:
    """Return the report as compact UTF-8 JSON."""
    match report:
        case ProducerReport():
            words = _producer_words(report)
        case RangeReport():
            words = _range_words(report)
        case Retirement():
            words = {"v": VERSION, "kind": "retirement", **asdict(report)}
        case KnownDifference():
            words = {"v": VERSION, **asdict(report), "kind": "known_difference", "difference": report.kind}
            if not report.digest:
                del words["digest"]
        case PublishedHour():
            words = {"v": VERSION, "kind": "published", **asdict(report)}
        case TierChange():
            words = {"v": VERSION, "kind": "tier", **asdict(report)}
    return json.dumps(words, separators=(",", ":")).encode()


def _flat(stretches: Sequence[Stretch]) -> list[int]:
    """Return [gap, count, crc, gap, count, crc, …]; a gap is counted from the end of the stretch before, -1 means no CRC."""
    words: list[int] = []
    end = 0
    for first, count, crc in stretches:
        words += (first - end, count, -1 if crc is None else crc)
        end = first + count
    return words


def _lists(**stretches: Sequence[Stretch]) -> dict[str, Any]:
    return {name: _flat(found) for name, found in stretches.items() if found}


def _producer_words(report: ProducerReport) -> dict[str, Any]:
    words: dict[str, Any] = {
        "v": VERSION,
        "kind": "producer",
        "tier": PRODUCER,
        "instance": report.instance,
        "epoch": report.epoch,
        "sequence": report.sequence,
        "at_ms": report.at_ms,
        "state": report.state,
        "producer_ids": list(report.producer_ids),
        "topics": list(report.topics),
        "moved_past_ms": report.moved_past_ms,
        "windows": [
            {
                "topic": window.topic,
                "window_start_ms": window.window_start_ms,
                "sent": [_sent_words(one) for one in window.sent],
                "losses": dict(window.losses),
            }
            for window in report.windows
        ],
    }
    if report.holds is not None:
        words["holds"] = [list(one) for one in report.holds]
    if report.only_between_ms is not None:
        words["only_between_ms"] = list(report.only_between_ms)
    return words


def _sent_words(sent: SentRanges) -> dict[str, Any]:
    words: dict[str, Any] = {"partition": sent.partition, "producer_id": sent.producer_id, "producer_epoch": sent.producer_epoch}
    words |= _lists(acknowledged=sent.acknowledged, uncertain=sent.uncertain)
    if sent.renumbered:
        words["renumbered"] = [
            [*_flat([one.sent]), one.producer_id, one.producer_epoch, one.first_sequence] for one in sent.renumbered
        ]
    return words


def _range_words(report: RangeReport) -> dict[str, Any]:
    words: dict[str, Any] = {
        "v": VERSION,
        "kind": "range",
        "tier": report.tier,
        "instance": report.instance,
        "at_ms": report.at_ms,
        "topic": report.topic,
        "partition": report.partition,
        "from_offset": report.from_offset,
        "to_offset": report.to_offset,
        "windows": {str(start): _range_window_words(window) for start, window in report.windows.items()},
    }
    if report.skipped:
        words["skipped"] = [list(one) for one in report.skipped]
    if report.note:
        words["note"] = report.note
    return words


def _range_window_words(window: RangeWindow) -> dict[str, Any]:
    words = _lists(held=window.held, quarantined=window.quarantined, altered=window.altered)
    if window.redelivered:
        words["redelivered"] = window.redelivered
    return words
