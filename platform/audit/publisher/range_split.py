"""Cuts what a tier found between two offsets into ranges that fit a message each. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from ..model.messages import MAX_STRETCHES, MAX_WINDOWS, RangeReport, RangeWindow, Skipped, Stretch

MOST_REDELIVERED_WINDOWS = 100
"""Windows whose count of redelivered records is told. It is for people; no verdict needs it, and it belongs to no offset."""
_FIRST = itemgetter(0)
_KINDS = ("held", "quarantined", "altered")


@dataclass(slots=True)
class FoundWindow:
    """What was found of one window so far."""

    held: list[Stretch] = field(default_factory=list)
    quarantined: list[Stretch] = field(default_factory=list)
    altered: list[Stretch] = field(default_factory=list)
    redelivered: int = 0

    def frozen(self) -> RangeWindow:
        return RangeWindow(
            held=tuple(self.held),
            quarantined=tuple(self.quarantined),
            altered=tuple(self.altered),
            redelivered=self.redelivered,
        )


class RangePart(NamedTuple):
    """What one message says: all of [from_offset, to_offset)."""

    from_offset: int
    to_offset: int
    windows: dict[int, RangeWindow]
    skipped: tuple[Skipped, ...]


def split(
    from_offset: int, to_offset: int, windows: Mapping[int, RangeWindow | FoundWindow], skipped: Sequence[Skipped] = ()
) -> list[RangePart]:
    """Return [from_offset, to_offset) as ranges after one another, at least one, each within the bounds of a message.

    A cut lies where a stretch begins; stretches that reach over it are cut, too.
    """
    whole = _uncut(from_offset, to_offset, windows, skipped)
    return _cut_up(from_offset, to_offset, windows, skipped) if whole is None else [whole]


def _uncut(
    from_offset: int, to_offset: int, windows: Mapping[int, RangeWindow | FoundWindow], skipped: Sequence[Skipped]
) -> RangePart | None:
    """Return all as one range; None if it has to be cut. Hot: a mirror of small batches comes here with nearly every stretch."""
    sizes = (len(window.held) + len(window.quarantined) + len(window.altered) for window in windows.values())
    if len(windows) > min(MAX_WINDOWS, MOST_REDELIVERED_WINDOWS) or sum(sizes) + len(skipped) > MAX_STRETCHES:
        return None
    found: dict[int, RangeWindow] = {}
    for start, window in windows.items():
        kinds = [tuple(sorted(getattr(window, kind), key=_FIRST)) for kind in _KINDS]
        if any(first + count > to_offset for stretches in kinds for first, count, _ in stretches):
            return None
        if any(kinds) or window.redelivered:
            found[start] = RangeWindow(held=kinds[0], quarantined=kinds[1], altered=kinds[2], redelivered=window.redelivered)
    return RangePart(from_offset, to_offset, found, _clipped(skipped, from_offset, to_offset))


def _cut_up(
    from_offset: int, to_offset: int, windows: Mapping[int, RangeWindow | FoundWindow], skipped: Sequence[Skipped]
) -> list[RangePart]:
    entries = [
        (one.first, start, kind, one) for start, window in windows.items() for kind in _KINDS for one in getattr(window, kind)
    ]
    entries += [(one.from_offset, 0, "skipped", Stretch(one.from_offset, 0)) for one in skipped]  # only counted
    entries.sort(key=lambda entry: entry[0])
    redelivered = [(start, window.redelivered) for start, window in windows.items() if window.redelivered]
    found = {start: FoundWindow(redelivered=count) for start, count in redelivered[:MOST_REDELIVERED_WINDOWS]}
    parts: list[RangePart] = []
    begin, count, last_first = from_offset, 0, from_offset

    def end_part(cut: int) -> None:
        nonlocal begin, found, count
        rest: dict[int, FoundWindow] = {}
        count = sum(_cut(start, window, cut, rest) for start, window in found.items())
        told = {start: window.frozen() for start, window in found.items()}
        parts.append(RangePart(begin, cut, told, _clipped(skipped, begin, cut)))
        begin, found = cut, rest

    for first, start, kind, stretch in entries:
        is_full = count >= MAX_STRETCHES or (kind != "skipped" and start not in found and len(found) >= MAX_WINDOWS)
        if is_full and first > last_first:
            end_part(first)
        if kind != "skipped":
            getattr(found.setdefault(start, FoundWindow()), kind).append(stretch)
        count += 1
        last_first = first
    end_part(to_offset)
    return parts


def range_reports(
    *,
    tier: str,
    instance: str,
    at_ms: int,
    topic: str,
    partition: int,
    from_offset: int,
    to_offset: int,
    windows: Mapping[int, RangeWindow | FoundWindow],
    skipped: Sequence[Skipped] = (),
) -> list[RangeReport]:
    """Return the messages that together say all of [from_offset, to_offset), in order, at least one."""
    return [
        RangeReport(
            tier=tier,
            instance=instance,
            at_ms=at_ms,
            topic=topic,
            partition=partition,
            from_offset=part.from_offset,
            to_offset=part.to_offset,
            windows=part.windows,
            skipped=part.skipped,
        )
        for part in split(from_offset, to_offset, windows, skipped)
    ]


def _clipped(skipped: Sequence[Skipped], begin: int, end: int) -> tuple[Skipped, ...]:
    clipped = [Skipped(max(one.from_offset, begin), min(one.to_offset, end), one.reason) for one in skipped]
    return tuple(one for one in clipped if one.from_offset < one.to_offset)


def _cut(start: int, window: FoundWindow, at: int, rest: dict[int, FoundWindow]) -> int:
    """Move what lies behind offset `at` from the window to `rest`; return how many stretches that are."""
    count = 0
    for kind in _KINDS:
        stretches = getattr(window, kind)
        behind = [Stretch(at, one.end - at, one.crc) for one in stretches if one.end > at]
        if behind:
            setattr(window, kind, [Stretch(one.first, min(one.end, at) - one.first, one.crc) for one in stretches])
            getattr(rest.setdefault(start, FoundWindow()), kind).extend(behind)
            count += len(behind)
    return count
