"""The page of the growth bench is drawn from any result, whichever measures it has."""

from bench.growth import of_loggers, page
from bench.growth.measures import ALL

LOGGERS = next(measure for measure in ALL if measure.name == "loggers")


def test_loggers_have_a_line_for_each_figure_and_a_column_for_the_topics_beside_which_they_ran() -> None:
    figures = {name: float(number) for number, name in enumerate(LOGGERS.units)}
    rows = [{"topics": 0, "figures": {"loggers": figures}}, {"topics": 100, "figures": {"loggers": {}}}]
    lines = page.table(LOGGERS, rows)
    assert lines[0] == "| | 0 | for each 1,000 |"
    assert len(lines) == 2 + len(figures) == 2 + 3 * len(of_loggers.COUNTS)
    assert lines[2] == "| audit, 100 loggers, % | 0 |  |"


def test_a_result_without_a_measure_leaves_its_table_empty() -> None:
    result = {"at": "2026-11-27T05:00:00Z", "has_audit": True, "rows": [{"topics": 5, "figures": {}, "load_average": 1.0}]}
    assert all(f"## {measure.title}" in page.document(result) for measure in ALL)
