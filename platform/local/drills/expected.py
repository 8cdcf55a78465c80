"""What the audit has to tell of a planted fault, and how what it tells differs. Pure. Windows are as the service gives them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ...audit.model.windows import in_words

Windows = Mapping[int, Mapping[str, Any]]
"""By `window_start_ms`."""
KINDS = ("missing", "altered", "doubled")
"""In the order in which one of several names the verdict."""
VERDICT = {"missing": "INCOMPLETE", "altered": "ALTERED", "doubled": "DOUBLED"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The records of one window that differ at one tier. Every other window is to be COMPLETE."""

    window_start_ms: int
    tier: str
    partition: int = 0
    missing: tuple[int, ...] = ()
    altered: tuple[int, ...] = ()
    doubled: tuple[int, ...] = ()
    by: Literal["offset", "sequence"] = "offset"
    """What the numbers are. What is missing in the live log has no offset, only its producer's sequence number."""

    @property
    def verdict(self) -> str:
        return next(VERDICT[kind] for kind in KINDS if getattr(self, kind))

    def in_words(self) -> str:
        parts = [self._of(kind, getattr(self, kind)) for kind in KINDS if getattr(self, kind)]
        return f"{self.verdict} at {self.tier}: {'; '.join(parts)}"

    def _of(self, kind: str, numbers: tuple[int, ...]) -> str:
        count, name = len(numbers), "offset" if self.by == "offset" else "sequence number"
        if count > 1:
            name += "s"
        return f"{count} record{'s' * (count > 1)} {kind}: partition {self.partition}, {name} {_offsets(numbers)}"


def unlike(expected: Expected, found: Windows) -> list[str]:
    """Return how what the audit tells differs from what it has to tell; empty if it is reported right."""
    window = found.get(expected.window_start_ms)
    if window is None:
        return [f"the audit does not know window {in_words(expected.window_start_ms)} UTC"]
    faults: list[str] = []
    if window["verdict"] != expected.verdict:
        faults.append(f"the verdict is {window['verdict']} ({window['reason']})")
    if window["first_bad_tier"] != expected.tier:
        faults.append(f"the first bad tier is {window['first_bad_tier']}")
    for kind in KINDS:
        if window[kind] != len(getattr(expected, kind)):
            faults.append(f"{kind} {window[kind]} instead of {len(getattr(expected, kind))}")
    reported = _records(window, f"first_{expected.by}")
    due = {
        (expected.tier, expected.partition, kind): Counter(getattr(expected, kind)) for kind in KINDS if getattr(expected, kind)
    }
    for place in sorted(reported.keys() | due.keys()):
        if reported.get(place) != due.get(place):
            tier, partition, kind = place
            seen, wanted = _offsets(reported.get(place, ())), _offsets(due.get(place, ()))
            faults.append(f"{kind} at {tier}, partition {partition}: {expected.by} {seen}, not {wanted}")
    faults += [
        f"window {in_words(start)} UTC is {other['verdict']} ({other['reason']})"
        for start, other in sorted(found.items())
        if start != expected.window_start_ms and other["verdict"] != "COMPLETE"
    ]
    return faults


def _records(window: Mapping[str, Any], first: str) -> dict[tuple[str, int, str], Counter[int]]:
    """Return (tier, partition, kind) → the numbers that the audit names; `first` is the name of a range's first one."""
    reported: dict[tuple[str, int, str], Counter[int]] = {}
    for difference in window["differences"]:
        for one in difference["records"]:
            place = (difference["tier"], difference["partition"], one["kind"])
            reported.setdefault(place, Counter()).update(range(one.get(first, -1), one.get(first, -1) + one["count"]))
    return reported


def _offsets(offsets: Mapping[int, int] | tuple[int, ...]) -> str:
    return ", ".join(str(offset) for offset in sorted(offsets)) or "none"
