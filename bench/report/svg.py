"""Draws one kind of picture: a row for each case, a dot for its median, a line from its lowest to its highest run. Pure.

Dots, not bars: on a logarithmic axis the length of a bar means nothing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 860
_LABELS = 300
_VALUES = 110
_ROW = 24
_TOP = 78
_BOTTOM = 44
COLOURS = {"Headrace": "#0b7285", "Kafka": "#c2410c", "Kafka, tuned": "#ea8a4e"}
_OTHER = "#6b7280"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One dot. `low` and `high` are the extremes of the runs."""

    subject: str
    label: str
    value: float
    low: float
    high: float
    text: str
    """The value as printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One picture. `line` is a limit to compare with; `None`: no line."""

    title: str
    axis: str
    rows: Sequence[Row]
    line: float | None = None


def draw(picture: Picture) -> str:
    """Return the picture as one SVG document. Values must be above 0."""
    values = [value for row in picture.rows for value in (row.low, row.high, row.value)]
    values += [picture.line] if picture.line else []
    low = 10 ** math.floor(math.log10(min(values)))
    high = 10 ** math.ceil(math.log10(max(values) * 1.0001))
    decades = max(1, round(math.log10(high / low)))
    right = WIDTH - _VALUES
    height = _TOP + _ROW * len(picture.rows) + _BOTTOM

    def x(value: float) -> float:
        return _LABELS + math.log10(value / low) / decades * (right - _LABELS)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="{escape(picture.title, quote=True)}">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="20" y="30" font-size="17" font-weight="600" fill="#111827">{escape(picture.title)}</text>',
        f'<text x="20" y="52" fill="#4b5563">{escape(picture.axis)}</text>',
    ]
    bottom = _TOP + _ROW * len(picture.rows)
    for decade in range(decades + 1):
        at = x(low * 10**decade)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP - 8}" y2="{bottom}" stroke="#e5e7eb"/>')
        words = _tick(low * 10**decade)
        parts.append(f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle" fill="#6b7280" font-size="12">{words}</text>')
    if picture.line:
        at = x(picture.line)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP - 8}" y2="{bottom}" stroke="#111827" stroke-dasharray="4 3"/>')
    for number, row in enumerate(picture.rows):
        parts += _row(row, _TOP + _ROW * number + _ROW / 2, x)
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _row(row: Row, y: float, x: Callable[[float], float]) -> list[str]:
    colour = COLOURS.get(row.subject, _OTHER)
    weight = ' font-weight="600"' if row.subject == "Headrace" else ""
    return [
        f'<text x="{_LABELS - 14}" y="{y + 4:.1f}" text-anchor="end" fill="#111827"{weight}>{escape(row.label)}</text>',
        f'<line x1="{x(row.low):.1f}" x2="{x(row.high):.1f}" y1="{y:.1f}" y2="{y:.1f}" '
        f'stroke="{colour}" stroke-width="3" opacity="0.4"/>',
        f'<circle cx="{x(row.value):.1f}" cy="{y:.1f}" r="5.5" fill="{colour}"/>',
        f'<text x="{WIDTH - _VALUES + 14}" y="{y + 4:.1f}" fill="#111827"{weight}>{escape(row.text)}</text>',
    ]


def _tick(value: float) -> str:
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
