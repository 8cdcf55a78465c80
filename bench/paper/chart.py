"""Draws the paper's kind of figure: a line for each subject, messages a second over megabytes. Pure.

The paper's axes are linear. Ours are farther apart than its subjects were: a logarithmic axis keeps the slow ones legible.
"""

import math
from collections.abc import Callable, Sequence
from html import escape

from .series import Series

WIDTH, HEIGHT = 860, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 40, 74, 110
COLOURS = ("#0b7285", "#66a7b5", "#c2410c", "#ea8a4e", "#6b21a8", "#4d7c0f", "#111827", "#9d174d")
_DASHES = ("", "6 3")


def draw(title: str, series: Sequence[Series]) -> str:
    """Return the figure as one SVG document. Raises ValueError without a point."""
    points = [(mb, rate) for one in series for mb, rate in one.points if rate > 0]
    if not points:
        raise ValueError("there is nothing to draw")
    most_mb = max(mb for mb, _ in points)
    low = 10 ** math.floor(math.log10(min(rate for _, rate in points)))
    high = 10 ** math.ceil(math.log10(max(rate for _, rate in points) * 1.0001))
    decades = max(1, round(math.log10(high / low)))
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM

    def x(mb: float) -> float:
        return _LEFT + mb / most_mb * (right - _LEFT)

    def y(rate: float) -> float:
        return bottom - math.log10(rate / low) / decades * (bottom - _TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="{escape(title, quote=True)}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="20" y="30" font-size="17" font-weight="600" fill="#111827">{escape(title)}</text>',
        '<text x="20" y="52" fill="#4b5563">messages a second (logarithmic) over megabytes of messages, 200 bytes each</text>',
    ]
    for decade in range(decades + 1):
        at, words = y(low * 10**decade), _tick(low * 10**decade)
        parts.append(f'<line x1="{_LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}" stroke="#e5e7eb"/>')
        parts.append(f'<text x="{_LEFT - 10}" y="{at + 4:.1f}" text-anchor="end" fill="#6b7280" font-size="12">{words}</text>')
    for step in range(6):
        mb = most_mb * step / 5
        parts.append(
            f'<text x="{x(mb):.1f}" y="{bottom + 18}" text-anchor="middle" fill="#6b7280" font-size="12">{mb:,.0f} MB</text>'
        )
    for number, one in enumerate(series):
        parts += _line(number, one, x, y, bottom)
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _line(number: int, one: Series, x: Callable[[float], float], y: Callable[[float], float], bottom: int) -> list[str]:
    colour, dash = COLOURS[number % len(COLOURS)], _DASHES[number // len(COLOURS) % len(_DASHES)]
    words = " ".join(f"{x(mb):.1f},{y(rate):.1f}" for mb, rate in one.points if rate > 0)
    column, row = number % 3, number // 3
    at_x, at_y = _LEFT + column * 250, bottom + 46 + row * 20
    style = f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
    return [
        f'<polyline fill="none" {style} points="{words}"/>',
        f'<line x1="{at_x}" x2="{at_x + 24}" y1="{at_y - 4}" y2="{at_y - 4}" {style}/>',
        f'<text x="{at_x + 32}" y="{at_y}" fill="#111827">{escape(one.subject)}</text>',
    ]


def _tick(value: float) -> str:
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
