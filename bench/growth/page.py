"""docs/GROWTH.md, from a result. Pure."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .measures import ALL, Measure

PATH = Path("docs/GROWTH.md")


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
        "growth for each 1,000 topics, by least squares.",
    ]
    for measure in ALL:
        lines += ["", f"## {measure.title}", *table(measure, rows)]
    return "\n".join(lines) + "\n"


def table(measure: Measure, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of one measure's table: a line for each figure, a column for each number of topics."""
    known = [row for row in rows if row["figures"].get(measure.name)]
    head = [f"{row['topics']:,}" for row in known]
    lines = ["| | " + " | ".join([*head, "for each 1,000"]) + " |", "|---|" + "---|" * (len(head) + 1)]
    for name, unit in measure.units.items():
        points = [(row["topics"], row["figures"][measure.name][name]) for row in known if name in row["figures"][measure.name]]
        if points:
            growth = slope(points)
            values = [*(f"{value:.3g}" for _, value in points), "" if growth is None else f"{growth:.2g}"]
            lines.append(f"| {name}, {unit} | " + " | ".join(values) + " |")
    return lines
