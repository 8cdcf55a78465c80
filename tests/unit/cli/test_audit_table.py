"""Windows as lines of text: every window, its columns in line, its words whole."""

import io
from typing import Any

from rich.console import Console

from headrace.cli.audit_table import print_windows


def window(number: int, verdict: str, reason: str) -> dict[str, Any]:
    return {
        "topic": "clicks",
        "window_start_ms": number * 600_000,
        "window_end_ms": (number + 1) * 600_000,
        "tiers": {"producer": 10 ** (number % 7), "live": None},
        "quarantined": 0,
        "verdict": verdict,
        "missing": 0,
        "doubled": 0,
        "altered": 0,
        "accounted": {},
        "losses": {},
        "reason": reason,
    }


def test_every_window_is_a_line_whose_columns_stand_below_each_other() -> None:
    """Fault: the report of 7,200 windows took 8 s of processor time, nearly all of it for the layout of a table."""
    out = io.StringIO()
    long = "waits for " + "a very long reason " * 20
    windows = [window(number, "COMPLETE", "") for number in range(7_200)] + [window(7_200, "OPEN", long)]
    print_windows(Console(file=out), "clicks", windows)
    title, header, *lines = out.getvalue().splitlines()
    assert (title, len(lines)) == ("clicks", 7_201)
    assert {line.index("COMPLETE") for line in lines[:-1]} == {header.index("verdict")}
    assert lines[0].split() == ["1970-01-01", "00:00", "1", "–", "0", "COMPLETE"]
    assert lines[-1].endswith(long.rstrip())
