"""Reports from JSON. Every field is checked; a message that fails is refused whole, with the field's name."""

import json
import re
from typing import Any

from ..errors import MalformedReport
from ..messages import (
    MAX_HOLDS,
    MAX_STRETCHES,
    MAX_WINDOWS,
    SKIP_REASONS,
    Hold,
    KnownDifference,
    ProducerReport,
    ProducerWindow,
    PublishedHour,
    RangeReport,
    RangeWindow,
    Renumbered,
    Report,
    Retirement,
    SentRanges,
    Skipped,
    TierChange,
)
from ..tiers import AT_OFFLINE, CONSUMER, END_MS, GROUP_NAME, PRODUCER, READ_BACK, SINK
from .fields import INT64_MAX, Fields, is_integer, stretches, whole
from .writing import VERSION

_MOST_PARTITION = (1 << 31) - 1
_LONGEST_NOTE = 300
_TIER = re.compile(f"[a-z][a-z0-9_-]*(:{GROUP_NAME})?|{SINK}{GROUP_NAME}{AT_OFFLINE}")
_GROUP = re.compile(CONSUMER + GROUP_NAME)


def decode(value: bytes | memoryview | None) -> Report:
    """Return the report that `value` holds; MalformedReport names what is wrong otherwise.

    Raises nothing else, whatever the bytes.
    """
    if value is None:
        raise MalformedReport("the audit message has no value: a report is a JSON object")
    try:
        words = json.loads(bytes(value))
    except (ValueError, RecursionError) as error:
        raise MalformedReport(f"the audit message is not JSON: {error}") from None
    reader = Fields(words, "report")
    version = reader.integer("v")
    if version != VERSION:
        raise MalformedReport(
            f"the audit message has version v={version}; this audit reads v={VERSION}: give sender and service one version"
        )
    match reader.text("kind"):
        case "producer":
            return _read_producer(reader)
        case "range":
            return _read_range(reader)
        case "retirement":
            return _read_retirement(reader)
        case "known_difference":
            return _read_known_difference(reader)
        case "published":
            return _read_published(reader)
        case "tier":
            return _read_tier_change(reader)
        case other:
            raise MalformedReport(
                f"the audit message has kind={other[:40]!r}; known are 'producer', 'range', 'retirement', "
                "'known_difference', 'published' and 'tier'"
            )


def _read_producer(reader: Fields) -> ProducerReport:
    state = reader.text("state")
    if state not in ("open", "closed"):
        raise MalformedReport(f"{reader.where}: state={state[:40]!r} is neither 'open' nor 'closed'")
    windows = reader.objects("windows", most=MAX_WINDOWS)
    return ProducerReport(
        instance=reader.text("instance"),
        epoch=reader.integer("epoch", least=0),
        sequence=reader.integer("sequence", least=0),
        at_ms=reader.integer("at_ms"),
        state="closed" if state == "closed" else "open",
        producer_ids=reader.integers("producer_ids"),
        topics=reader.texts("topics"),
        moved_past_ms=reader.optional_integer("moved_past_ms"),
        only_between_ms=reader.optional_pair("only_between_ms"),
        holds=_read_holds(reader),
        windows=tuple(_read_producer_window(window) for window in windows),
    )


def _read_holds(reader: Fields) -> tuple[Hold, ...] | None:
    if "holds" not in reader:
        return None
    holds = []
    for words in reader.lists("holds", most=MAX_HOLDS):
        match words:
            case [first, end, count] if is_integer(first, -INT64_MAX) and is_integer(end, first + 1) and is_integer(count, 0):
                holds.append(Hold(first, end, count))
            case _:
                raise MalformedReport(f"{reader.where}.holds has {str(words)[:60]}; expected [from_ms, to_ms, records under way]")
    return tuple(holds)


def _read_producer_window(reader: Fields) -> ProducerWindow:
    return ProducerWindow(
        topic=reader.text("topic"),
        window_start_ms=reader.integer("window_start_ms"),
        sent=tuple(_read_sent(one) for one in reader.objects("sent", most=MAX_STRETCHES)),
        losses=reader.counts_by_name("losses"),
    )


def _read_sent(reader: Fields) -> SentRanges:
    renumbered = []
    for words in reader.lists("renumbered", most=MAX_STRETCHES):
        if len(words) != 6 or not all(is_integer(one, -1) for one in words):
            raise MalformedReport(f"{reader.where}.renumbered holds {str(words)[:60]}; expected six whole numbers")
        (sent,) = stretches(words[:3], f"{reader.where}.renumbered")
        renumbered.append(Renumbered(sent, *words[3:]))
    return SentRanges(
        partition=reader.integer("partition", least=0, most=_MOST_PARTITION),
        producer_id=reader.integer("producer_id", least=0),
        producer_epoch=reader.integer("producer_epoch", least=0, most=(1 << 15) - 1),
        acknowledged=reader.stretches("acknowledged"),
        uncertain=reader.stretches("uncertain"),
        renumbered=tuple(renumbered),
    )


def _read_range(reader: Fields) -> RangeReport:
    tier = reader.text("tier")
    if not _TIER.fullmatch(tier) or tier in (PRODUCER, *READ_BACK):
        raise MalformedReport(
            f"{reader.where}: tier={tier[:60]!r} is not the name of a tier that reports ranges; the audit reads "
            f"{' and '.join(READ_BACK)} itself"
        )
    from_offset = reader.integer("from_offset", least=0)
    to_offset = reader.integer("to_offset", least=0)
    if to_offset < from_offset:
        raise MalformedReport(f"{reader.where}: to_offset={to_offset} is before from_offset={from_offset}")
    windows = reader.mapping("windows")
    if len(windows) > MAX_WINDOWS:
        raise MalformedReport(
            f"{reader.where}: {len(windows)} windows in one message; the most is {MAX_WINDOWS}: send shorter ranges"
        )
    found = {whole(start, f"{reader.where}.windows"): _read_range_window(start, words) for start, words in windows.items()}
    for start, window in found.items():
        for one in (*window.held, *window.quarantined, *window.altered):
            if one.first < from_offset or one.end > to_offset:
                raise MalformedReport(
                    f"{reader.where}: window {start} holds offsets {one.first} to {one.end}, outside of "
                    f"[{from_offset}, {to_offset})"
                )
    skipped = tuple(_read_skipped(words, reader.where) for words in reader.lists("skipped", most=MAX_STRETCHES))
    beyond = next((one for one in skipped if one.from_offset < from_offset or one.to_offset > to_offset), None)
    if beyond is not None:
        raise MalformedReport(
            f"{reader.where}: skipped holds offsets {beyond.from_offset} to {beyond.to_offset}, outside of "
            f"[{from_offset}, {to_offset})"
        )
    return RangeReport(
        tier=tier,
        instance=reader.text("instance"),
        at_ms=reader.integer("at_ms"),
        topic=reader.text("topic"),
        partition=reader.integer("partition", least=0, most=_MOST_PARTITION),
        from_offset=from_offset,
        to_offset=to_offset,
        windows=found,
        skipped=skipped,
        note=reader.optional_text("note")[:_LONGEST_NOTE],
    )


def _read_range_window(start: str, words: Any) -> RangeWindow:
    reader = Fields(words, f"window {start[:20]}")
    return RangeWindow(
        held=reader.stretches("held"),
        quarantined=reader.stretches("quarantined"),
        altered=reader.stretches("altered"),
        redelivered=reader.count("redelivered", default=0),
    )


def _read_skipped(words: list[Any], where: str) -> Skipped:
    match words:
        case [start, end, str(reason)] if is_integer(start, 0) and is_integer(end, start) and reason in SKIP_REASONS:
            return Skipped(start, end, reason)
    raise MalformedReport(f"{where}: skipped holds {str(words)[:60]}; expected [from, to, one of {', '.join(SKIP_REASONS)}]")


def _read_retirement(reader: Fields) -> Retirement:
    return Retirement(
        instance=reader.text("instance"),
        epoch=reader.integer("epoch", least=0),
        at_ms=reader.integer("at_ms"),
        by=reader.text("by"),
        reason=reader.text("reason"),
    )


def _read_known_difference(reader: Fields) -> KnownDifference:
    kind = reader.text("difference")
    if kind not in ("lost", "erased"):
        raise MalformedReport(f"{reader.where}: difference={kind[:40]!r} is neither 'lost' nor 'erased'")
    return KnownDifference(
        topic=reader.text("topic"),
        window_start_ms=reader.integer("window_start_ms"),
        tier=reader.text("tier"),
        kind="lost" if kind == "lost" else "erased",
        missing=reader.count("missing"),
        doubled=reader.count("doubled"),
        altered=reader.count("altered"),
        at_ms=reader.integer("at_ms"),
        by=reader.text("by"),
        reason=reader.text("reason"),
        digest=reader.optional_text("digest"),
    )


def _read_published(reader: Fields) -> PublishedHour:
    windows = reader.mapping("windows")
    if not 0 < len(windows) <= MAX_WINDOWS:
        raise MalformedReport(f"{reader.where}: {len(windows)} windows in one message; it has one to {MAX_WINDOWS}")
    counts = Fields(windows, f"{reader.where}.windows")
    return PublishedHour(
        topic=reader.text("topic"),
        instance=reader.text("instance"),
        at_ms=reader.integer("at_ms"),
        revision=reader.integer("revision", least=1),
        verdict=reader.text("verdict"),
        row_count=reader.count("row_count"),
        missing=reader.count("missing"),
        doubled=reader.count("doubled"),
        reason=reader.text("reason"),
        windows={whole(start, f"{reader.where}.windows"): counts.count(start) for start in windows},
    )


def _read_tier_change(reader: Fields) -> TierChange:
    tier, change = reader.text("tier"), reader.text("change")
    if not _GROUP.fullmatch(tier):
        raise MalformedReport(f"{reader.where}: tier={tier[:60]!r} is not a group: it is consumer:<group>")
    if change not in ("add", "remove"):
        raise MalformedReport(f"{reader.where}: change={change[:40]!r} is neither 'add' nor 'remove'")
    return TierChange(
        topic=reader.text("topic"),
        tier=tier,
        change="add" if change == "add" else "remove",
        from_ms=reader.integer("from_ms", least=1 - END_MS, most=END_MS - 1),
        at_ms=reader.integer("at_ms"),
        by=reader.text("by"),
        reason=reader.text("reason"),
    )
