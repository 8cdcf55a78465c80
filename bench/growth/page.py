"""docs/GROWTH.md and its figure, from a result. Pure, but for `write`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..report import svg
from .measures import ALL, Measure

PATH = Path("docs/GROWTH.md")
FIGURE = Path("docs/figures/topics.svg")
LEAST = 0.01
"""The least share of a core (%) that is drawn: the axis is logarithmic."""


def write(result: Mapping[str, Any]) -> None:
    """Write the page and its figure."""
    PATH.write_text(document(result))
    if (picture := rest_picture(result["rows"])) is not None:
        FIGURE.write_text(svg.draw(picture))


def rest_picture(rows: Sequence[Mapping[str, Any]]) -> svg.Picture | None:
    """Return what each process takes at rest, by the number of topics; None where that was not measured."""
    known = [row for row in rows if row["figures"].get("rest")]
    units = next(measure.units for measure in ALL if measure.name == "rest")
    dots = []
    for name in (name for name, unit in units.items() if unit == "%"):
        for row in known:
            share = max(LEAST, row["figures"]["rest"].get(name, 0))
            label = f"{name}, {row['topics']:,} topics"
            dots.append(svg.Row(subject="Headrace", label=label, value=share, low=share, high=share, text=f"{share:.3g} %"))
    axis = "share of one core while nothing is written, in % (logarithmic)"
    return svg.Picture(title="What idle topics cost", axis=axis, rows=dots) if dots else None


def slope(points: Sequence[tuple[int, float]]) -> float | None:
    """Return the growth for each thousand topics, by least squares; None of fewer than two points."""
    if len(points) < 2:
        return None
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return 1000 * sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else None


def document(result: Mapping[str, Any]) -> str:
    """Return the page."""
    rows = result["rows"]
    loads = sorted(row["load_average"] for row in rows)
    parts = "two brokers with a ZooKeeper each, a mirror" + (", an audit" if result.get("has_audit") else "; no audit")
    lines = [
        "# What more topics cost",
        f"`python -m bench.growth` grows one platform ({parts}) and measures it at each number",
        "of topics. A topic gets 20 events and one to three partitions, and nothing after that.",
        "",
        f"Measured {result['at'][:10]} on a machine with other work (load {loads[0]} to {loads[-1]}). Shares are processor time",
        "from `/proc`, so other load changes them little; seconds of the clock it does change. The last column is the slope:",
        "growth for each 1,000 topics, by least squares. What limits the figures, and what was measured on a quiet machine:",
        "`docs/experiments/0018-what-idle-topics-and-loggers-cost.md`.",
    ]
    for measure in ALL:
        if any(row["figures"].get(measure.name) for row in rows):
            lines += ["", f"## {measure.title}", *table(measure, rows)]
        if measure.name == "rest" and rest_picture(rows) is not None:
            lines += ["", f"![What idle topics cost, by process and number of topics]({FIGURE.relative_to('docs')})"]
    return "\n".join(lines) + "\n"


def table(measure: Measure, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of one measure's table: a line for each figure, a column for each number of topics."""
    known = [row for row in rows if row["figures"].get(measure.name)]
    head = [f"{row['topics']:,}" for row in known]
    lines = ["| | " + " | ".join([*head, "for each 1,000"]) + " |", "|---|" + "---|" * (len(head) + 1)]
    for name, unit in measure.units.items():
        points = [(row["topics"], row["figures"][measure.name][name]) for row in known if name in row["figures"][measure.name]]
        if points:
            found, growth = dict(points), slope(points)
            values = [number(found[row["topics"]]) if row["topics"] in found else "" for row in known]
            title = f"{name}, {unit}" if unit else name
            lines.append(f"| {title} | " + " | ".join([*values, "" if growth is None else number(growth, digits=2)]) + " |")
    return lines


def number(value: float, *, digits: int = 3) -> str:
    """Return the number with so many digits that count; whole, and with commas, from 1,000 on."""
    if abs(value) >= 999.5:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}" if abs(value) >= 0.0005 else "0"
