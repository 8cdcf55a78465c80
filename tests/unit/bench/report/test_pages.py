"""Figures and page: well-formed, complete, and honest about what is missing."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from bench.report import document, figures, svg
from bench.report.svg import Picture, Row
from tests.support.bench_results import rate, result, row

_RESULT = result(
    produce=[
        row("Headrace", "batch 50, acks 1", rate(1.0e6), rate(1.3e6), rate(1.4e6)),
        row("Kafka", "batch 50, acks 1", rate(3e5), rate(4e5), rate(5e5)),
        row("ActiveMQ", "its own", rate(2e4)),
        row("NATS JetStream", "its own", failed="stalled | at\nmessage 7"),
    ],
    latency=[row("Headrace", "10,000 a second", {"p50_ms": 0.6, "p99_ms": 4.0, "p999_ms": 9.0})],
)


def test_what_was_measured_in_another_run_is_named() -> None:
    later = {**result(latency=[row("Headrace", "10,000 a second", {"p50_ms": 0.5})]), "at": "2026-11-22T10:57:07Z"}
    both = document.page(document.with_later(_RESULT, [later]), source="x", figures=[])
    assert "measured again later, whole and by themselves**: latency (2026-11-22T10:57:07Z)." in both
    assert "| 0.50 |" in both
    assert "measured again" not in document.page(_RESULT, source="x", figures=[])


def _row(value: float, label: str = "a") -> Row:
    return Row(subject="Headrace", label=label, value=value, low=value / 2, high=value * 2, text="x")


@pytest.mark.parametrize("values", [[1.0], [0.001, 1e9], [1000.0, 1000.0], [9.99, 10.01]])
def test_a_picture_is_well_formed_and_its_dots_lie_within_it(values: list[float]) -> None:
    drawn = svg.draw(Picture(title='A < B & "C"', axis="msg/s", rows=[_row(value) for value in values], line=values[0]))
    root = ElementTree.fromstring(drawn)
    dots = [element for element in root.iter() if element.tag.endswith("circle")]
    assert len(dots) == len(values)
    assert all(0 < float(dot.attrib["cx"]) < svg.WIDTH for dot in dots)
    assert root.attrib["aria-label"] == 'A < B & "C"'


def test_a_larger_value_lies_further_right() -> None:
    root = ElementTree.fromstring(svg.draw(Picture(title="t", axis="a", rows=[_row(1e3), _row(1e6)])))
    first, second = (float(one.attrib["cx"]) for one in root.iter() if one.tag.endswith("circle"))
    assert first < second


def test_labels_cannot_break_out_of_the_picture() -> None:
    drawn = svg.draw(Picture(title="t", axis="a", rows=[_row(1, label="</text><script>")]))
    assert "<script>" not in drawn
    ElementTree.fromstring(drawn)


def test_pictures_without_figures_are_not_drawn(tmp_path: Path) -> None:
    written = figures.write(_RESULT, tmp_path / "figures")
    assert sorted(path.stem for path in written) == ["latency", "producer", "producer_cpu"]
    for path in written:
        ElementTree.parse(path)


def test_the_page_has_verdicts_tables_figures_machine_and_what_was_skipped(tmp_path: Path) -> None:
    drawn = figures.write(_RESULT, tmp_path / "figures")
    document.write(_RESULT, tmp_path / "BENCHMARKS.md", source="bench/results/broker.json", figures=drawn)
    page = (tmp_path / "BENCHMARKS.md").read_text()
    assert "| produce, batch 50, acks 1 | ≥ 1.2 × Kafka (client busy: CPU ≤ 0.6 ×) | 3.25 ×" in page
    assert "![producer](figures/producer.svg)" in page
    assert "- **RabbitMQ**: RabbitMQ: there is no rabbitmq-server (Debian: rabbitmq-server)" in page
    assert "| processor | a processor |" in page
    assert "- NATS JetStream, its own: stalled / at message 7" in page
    assert "quick run" not in page
    assert str(tmp_path) not in page


def test_every_table_row_has_as_many_cells_as_its_head() -> None:
    for measure in _RESULT["measures"].values():
        lines = [line for line in document.measure_table(measure).splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) == 1


def test_a_quick_run_says_so_on_its_page() -> None:
    assert "quick run" in document.page({**_RESULT, "quick": True}, source="x", figures=[])


def test_a_measure_that_failed_says_why_in_place_of_its_table() -> None:
    assert document.measure_table({"title": "t", "failed": "no\ndisk", "rows": [], "rounds": 1}) == "Failed: no disk\n"
