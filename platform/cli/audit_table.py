"""Windows as a table on a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..audit.service.web import report as report_words

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_WINDOW = "window (UTC)"


def windows_table(topic: str, windows: Sequence[dict[str, Any]]) -> "Table":
    """Return the windows (JSON objects) of one topic as a table, for a screen: its layout costs a millisecond a window."""
    from rich.table import Table

    header, rows = _cells(windows)
    table = Table(title=topic, title_justify="left")
    for number, name in enumerate(header):
        is_text = number in (0, len(header) - 2, len(header) - 1)
        table.add_column(name, justify="left" if is_text else "right", no_wrap=number in (0, len(header) - 2), overflow="fold")
    for window, row in zip(windows, rows, strict=True):
        table.add_row(*row, style=report_words.STYLE.get(window["verdict"], ""))
    return table


def print_windows(console: "Console", topic: str, windows: Sequence[dict[str, Any]]) -> None:
    """Print the windows of one topic as lines in columns; however many there are."""
    header, rows = _cells(windows)
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header) - 1)]
    console.print(topic, style="italic", highlight=False, markup=False)
    for window, row in zip((None, *windows), (header, *rows), strict=True):
        numbers = [cell.rjust(width) for cell, width in zip(row[1:-2], widths[1:-1], strict=True)]
        line = "  ".join([row[0].ljust(widths[0]), *numbers, row[-2].ljust(widths[-1]), row[-1]]).rstrip()
        style = "bold" if window is None else report_words.STYLE.get(window["verdict"], "")
        if style and console.is_terminal:
            console.print(line, style=style, highlight=False, markup=False, soft_wrap=True)
        else:
            console.file.write(line + "\n")


def _cells(windows: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns, and the cells of each window."""
    tiers = report_words.tiers(windows)
    rows = [
        [
            report_words.time_words(window),
            *(report_words.count_words(window["tiers"].get(tier)) for tier in tiers),
            f"{window['quarantined']:,}",
            report_words.verdict_words(window),
            report_words.why_words(window),
        ]
        for window in windows
    ]
    return [_WINDOW, *tiers, "quarantined", "verdict", "why"], rows
