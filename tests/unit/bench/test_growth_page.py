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


def test_what_was_not_measured_has_no_table_and_no_figure() -> None:
    rest = {"mirror": 1.5, "brokers": 1.0, "ZooKeepers": 0.0, "audit": 0.9, "settled after": 40.0}
    result = {"at": "2026-11-27T05:00:00Z", "has_audit": True, "rows": [{"topics": 5, "figures": {}, "load_average": 1.0}]}
    assert not any(f"## {measure.title}" in page.document(result) for measure in ALL)
    assert page.rest_picture(result["rows"]) is None
    result["rows"] = [{"topics": 5, "figures": {"rest": rest}, "load_average": 1.0}]
    assert "## At rest" in page.document(result)
    assert "figures/topics.svg" in page.document(result)
    picture = page.rest_picture(result["rows"])
    assert picture is not None
    assert [row.label for row in picture.rows] == [f"{name}, 5 topics" for name in ("mirror", "brokers", "ZooKeepers", "audit")]
