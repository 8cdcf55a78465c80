"""Our broker beside that of another checkout: what a change costs or gains, with the spread of the rounds. Pure."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from ..peers.subjects import BASE, OURS

_FIGURES = {
    "server_cpu_s_per_million": "CPU s/M",
    "messages_per_s": "messages/s",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
}


def table(measures: Mapping[str, Any]) -> str:
    """Return a row for each case and figure that both have: medians (least-most) and their ratio."""
    lines = ["| case | figure | base | ours | ours / base |", "|---|---|---|---|---|"]
    for name, found in measures.items():
        rows = {(row["subject"], row["shape"]): row["samples"] for row in found["rows"]}
        for (subject, shape), ours in rows.items():
            base = rows.get((BASE, shape))
            if subject == OURS and base:
                lines += _rows(f"{name}, {shape}", base, ours)
    return "\n".join(lines)


def _rows(case: str, base: Sequence[Mapping[str, float]], ours: Sequence[Mapping[str, float]]) -> list[str]:
    lines = []
    for figure, words in _FIGURES.items():
        before = [sample[figure] for sample in base if figure in sample]
        after = [sample[figure] for sample in ours if figure in sample]
        if before and after:
            ratio = median(after) / median(before)
            lines.append(f"| {case} | {words} | {_spread(before)} | {_spread(after)} | {ratio:.2f} |")
    return lines


def _spread(samples: Sequence[float]) -> str:
    return f"{median(samples):,.4g} ({min(samples):,.4g}-{max(samples):,.4g})"
