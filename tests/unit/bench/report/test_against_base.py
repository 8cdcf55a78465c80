"""The table that sets a change beside the tree it began from."""

from bench.peers.subjects import BASE, KAFKA, OURS
from bench.report.against_base import table


def row(subject: str, shape: str, *cpu_s: float) -> dict[str, object]:
    return {"subject": subject, "shape": shape, "samples": [{"server_cpu_s_per_million": value} for value in cpu_s]}


def test_each_case_that_both_have_is_a_row_with_its_spread() -> None:
    rows = [row(OURS, "batch 50", 0.3, 0.2, 0.4), row(BASE, "batch 50", 0.6, 0.5, 0.9), row(KAFKA, "batch 50", 4.0)]
    lines = table({"produce": {"rows": [*rows, row(OURS, "alone", 1.0)]}}).splitlines()
    assert lines[2:] == ["| produce, batch 50 | CPU s/M | 0.6 (0.5-0.9) | 0.3 (0.2-0.4) | 0.50 |"]
