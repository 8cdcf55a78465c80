"""SQL over what is in the warehouse, and over nothing else."""

import json
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.spark.errors import BadQuery, EmptyWarehouse
from headrace.spark.warehouse.query import query
from headrace.spark.warehouse.warehouse import Warehouse
from tests.support.stored_rows import HOUR_MS, span, store


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    found = Warehouse(tmp_path / "warehouse")
    store(found, "r1", [(0, 0, 5), (0, 1, HOUR_MS + 250)], [span(0, 0, 100)])
    store(found, "r1", [(0, 7, 5)], [span(0, 0, 100)], topic="web.clicks-1")
    return found


def test_json_rows_have_iso_instants(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "SELECT path, _timestamp, NULL AS n FROM clicks_all ORDER BY 1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"path": "/0", "_timestamp": "1970-01-01T00:00:00.005000Z", "n": None},
        {"path": "/1", "_timestamp": "1970-01-01T01:00:00.250000Z", "n": None},
    ]


def test_no_rows_are_an_empty_array(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "SELECT * FROM clicks", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_people_get_a_table_and_are_told_when_it_is_cut(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "SELECT path, _offset FROM clicks_all ORDER BY 1", "--limit", "1"]) == 0
    told = capsys.readouterr()
    assert [line.split() for line in told.out.splitlines()] == [["path", "_offset"], ["----", "-------"], ["/0", "0"]]
    assert "first 1 rows" in told.err


def test_names_may_be_quoted(warehouse: Warehouse) -> None:
    assert list(query(warehouse, 'SELECT _offset FROM "web.clicks-1_all"').rows) == [(7,)]


def test_topics_that_differ_only_in_capitals_are_never_taken_for_each_other(warehouse: Warehouse) -> None:
    """Fault: topics `Qcase` and `qcase`: a query of one answered with the rows of the other."""
    store(warehouse, "r1", [(0, 1, 5)], [span(0, 0, 100)], topic="Qcase")
    store(warehouse, "r1", [(0, 2, 5)], [span(0, 0, 100)], topic="qcase")
    assert list(query(warehouse, "SELECT _offset FROM Qcase_all").rows) == [(1,)]
    assert list(query(warehouse, 'SELECT "qcase_all"._offset FROM "qcase_all"').rows) == [(2,)]
    assert list(query(warehouse, "SELECT count(*) FROM qcase").rows) == [(0,)]
    for sql in ("SELECT * FROM QCASE_all", "SELECT * FROM qcase_all, Qcase_all", "SELECT * FROM qcase, QCASE_all"):
        with pytest.raises(BadQuery, match="Qcase and qcase differ only in capitals"):
            query(warehouse, sql)


def test_the_view_of_all_rows_hides_no_topic_whatever_its_capitals(warehouse: Warehouse) -> None:
    store(warehouse, "r1", [(0, 9, 5)], [span(0, 0, 100)], topic="Clicks_ALL")
    assert list(query(warehouse, "SELECT count(*) FROM Clicks_ALL").rows) == [(0,)]


BAD = {
    "SELEC 1": 1,
    "SELECT nope FROM clicks_all": 1,
    "INSTALL httpfs": 1,
    "SELECT * FROM '/etc/passwd'": 2,
    "SELECT 1 FROM x": 2,
}


@pytest.mark.parametrize(("sql", "exit_code"), BAD.items())
def test_bad_sql_is_one_clear_error(warehouse: Warehouse, sql: str, exit_code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", sql]) == exit_code
    told = capsys.readouterr()
    assert told.err.startswith("headrace query: ")
    assert "Traceback" not in told.err


def test_an_unknown_table_s_error_names_those_that_are_there(warehouse: Warehouse) -> None:
    with pytest.raises(BadQuery, match="clicks_all"):
        query(warehouse, "SELECT * FROM clikcs")


def test_a_mistyped_topic_is_guessed_at_with_exit_code_2(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "SELECT * FROM clikcs_all"]) == 2
    told = capsys.readouterr().err
    assert "there is no topic 'clikcs_all' in the warehouse. Did you mean 'clicks_all'" in told
    assert "The warehouse has clicks" in told


def test_sql_cannot_read_or_write_files(warehouse: Warehouse, tmp_path: Path) -> None:
    for sql in (
        "SELECT * FROM read_text('/etc/hostname')",
        f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
        "SET enable_external_access=true",
    ):
        with pytest.raises(BadQuery):
            list(query(warehouse, sql).rows)
    assert not (tmp_path / "out.csv").exists()


def test_an_empty_warehouse_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EmptyWarehouse, match="headrace load"):
        query(Warehouse(tmp_path / "none"), "SELECT 1")
