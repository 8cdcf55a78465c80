"""Told right means: this verdict, these numbers, these records at this tier, and no other window."""

from collections.abc import Mapping
from typing import Any

import pytest

from headrace.local.drills.expected import Expected, unlike

W = 600_000
LOST = Expected(window_start_ms=W, tier="offline", missing=(70,))
SWAPPED = Expected(window_start_ms=W, tier="warehouse", missing=(70,), doubled=(90,))


def window(verdict: str = "COMPLETE", tier: str | None = None, **records: tuple[int, int]) -> dict[str, Any]:
    """Return one window; `records` are kind → (first offset, count)."""
    numbers = {kind: records.get(kind, (0, 0))[1] for kind in ("missing", "doubled", "altered")}
    told = [{"kind": kind, "first_offset": first, "count": count} for kind, (first, count) in records.items()]
    differences = [{"tier": tier, "partition": 0, **numbers, "records": told, "more": 0}] if told else []
    return {"verdict": verdict, "reason": "why", "first_bad_tier": tier, **numbers, "differences": differences}


WHOLE = {0: window(), 2 * W: window()}


def test_the_fault_told_to_the_record_is_right() -> None:
    assert unlike(LOST, {**WHOLE, W: window("INCOMPLETE", "offline", missing=(70, 1))}) == []
    assert unlike(SWAPPED, {**WHOLE, W: window("INCOMPLETE", "warehouse", missing=(70, 1), doubled=(90, 1))}) == []


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ({}, "the audit does not know window 1970-01-01 00:10 UTC"),
        ({W: window("COMPLETE")}, "the verdict is COMPLETE (why)"),
        ({W: window("INCOMPLETE", "warehouse", missing=(70, 1))}, "the first bad tier is warehouse"),
        ({W: window("INCOMPLETE", "offline", missing=(71, 1))}, "missing at offline, partition 0: offset 71, not 70"),
        ({W: window("INCOMPLETE", "offline", missing=(70, 2))}, "missing 2 instead of 1"),
        (
            {W: window("INCOMPLETE", "offline", missing=(70, 1), doubled=(5, 1))},
            "doubled at offline, partition 0: offset 5, not none",
        ),
        (
            {W: window("INCOMPLETE", "offline", missing=(70, 1)), 0: window("UNKNOWN")},
            "window 1970-01-01 00:00 UTC is UNKNOWN (why)",
        ),
    ],
)
def test_anything_else_is_not(found: Mapping[int, Mapping[str, Any]], fault: str) -> None:
    assert fault in unlike(LOST, found)


def test_of_several_kinds_the_worst_names_the_verdict() -> None:
    assert SWAPPED.verdict == "INCOMPLETE"
    assert Expected(window_start_ms=0, tier="live", doubled=(1,)).verdict == "DOUBLED"
    assert Expected(window_start_ms=0, tier="live", doubled=(1,), altered=(2,)).verdict == "ALTERED"


def test_what_is_expected_says_how_many_records_and_that_the_number_is_an_offset() -> None:
    assert LOST.in_words() == "INCOMPLETE at offline: 1 record missing: partition 0, offset 70"
    swapped = "1 record missing: partition 0, offset 70; 1 record doubled: partition 0, offset 90"
    assert SWAPPED.in_words() == f"INCOMPLETE at warehouse: {swapped}"
    unsent = Expected(window_start_ms=0, tier="live", missing=(8, 7), by="sequence")
    assert unsent.in_words() == "INCOMPLETE at live: 2 records missing: partition 0, sequence numbers 7, 8"
