"""`headrace schema check|diff|why` over files alone: what breaks is reported in words, and no platform runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.main import main
from tests.support.avro_schemas import field, record

OLD = record(field("page", "string"), field("took", "int"), name="Click", namespace="shop")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A baseline of two subjects, and a folder of proposed files."""
    put(tmp_path / "base/clicks-value/1.avsc", record(field("page", "string"), name="Click", namespace="shop"))
    put(tmp_path / "base/clicks-value/2.avsc", OLD)
    put(tmp_path / "base/money.avsc", record(field("amount", "long"), name="Money", namespace="shop"))
    (tmp_path / "new").mkdir()
    return tmp_path


def put(path: Path, schema: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(schema))


def check(repository: Path, *words: str) -> int:
    return main(["schema", "check", str(repository / "new"), "--baseline", str(repository / "base"), *words])


def test_a_field_without_default_breaks_readers_of_old_events(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = {**OLD, "fields": [*OLD["fields"], field("referrer", "string")]}
    put(repository / "new/clicks.avsc", new)
    assert check(repository) == 1
    told = capsys.readouterr().out
    assert "BROKEN" in told
    assert "referrer: added: string, no default" in told
    assert "a reader with the new schema breaks on events of version 2 of clicks-value that are stored already" in told
    assert "at field `referrer`" in told
    assert "give the field a default" in told


def test_a_removed_field_is_allowed_and_its_readers_and_its_column_are_named(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(repository / "new/clicks.avsc", record(field("page", "string"), name="Click", namespace="shop", doc="less"))
    assert check(repository, "--json") == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert one["changes"] == ["took: removed: int"]
    warned = "\n".join(one["warnings"])
    assert "a reader that still has version 2 of clicks-value breaks on events of the new schema, at field `took`" in warned
    assert "columns that new events leave empty: took" in warned
    assert "no cluster was asked" in warned
    assert check(repository, "--level", "FULL") == 1


def test_a_column_that_no_table_can_hold_beside_the_old_one_is_a_fault_under_any_level(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(repository / "new/clicks.avsc", {**OLD, "fields": [field("page", "string"), field("took", "string")]})
    assert check(repository, "--level", "NONE", "--json") == 1
    (one,) = json.loads(capsys.readouterr().out)
    assert any("table clicks of the warehouse" in fault and "took" in fault for fault in one["faults"])


@pytest.mark.parametrize("names", [["_offset"], ["_HOUR", "_hour"], ["user", "User"], ["_FILE"]])
def test_names_that_no_table_can_have_are_a_fault(repository: Path, names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Fault: the registry and the logger take the schema, and each load quarantines every event."""
    put(repository / "new/views.avsc", record(*(field(name, "string") for name in names), name="View", namespace="shop"))
    put(repository / "new/views-key.avsc", record(*(field(name, "string") for name in names), name="Key", namespace="shop"))
    assert check(repository, "--json") == 1
    told = {one["subject"]: one["faults"] for one in json.loads(capsys.readouterr().out)}
    assert told["views-key"] == []
    assert any("quarantines every event" in fault and repr(names[-1]) in fault for fault in told["views-value"])


def test_new_and_unchanged_files_pass_and_a_file_may_reference_another_one(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(repository / "new/clicks.avsc", OLD)
    put(
        repository / "new/money.avsc",
        record(field("amount", "long"), field("unit", "string", "EUR"), name="Money", namespace="shop"),
    )
    put(repository / "new/order.avsc", record(field("price", "shop.Money"), name="Order"))
    put(repository / "new/order.references.json", [{"name": "shop.Money", "subject": "money-value", "version": 2}])
    assert check(repository, "--json") == 0
    told = {one["subject"]: one for one in json.loads(capsys.readouterr().out)}
    assert (told["clicks-value"]["changes"], told["order-value"]["is_new"]) == ([], True)
    assert told["money-value"]["changes"] == ["unit: added: string, default 'EUR'"]


@pytest.mark.parametrize("text", ["{", '{"type": "record"}', '"nothing"'])
def test_a_file_that_is_no_schema_is_a_fault_that_names_it(
    repository: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (repository / "new/clicks.avsc").write_text(text)
    assert check(repository) == 1
    assert "clicks.avsc" in capsys.readouterr().out


def test_nothing_to_check_is_an_error_not_a_pass(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(repository) != 0
    assert "there is no .avsc file" in capsys.readouterr().err


def test_why_names_reader_field_and_remedy_in_both_directions(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(repository / "clicks.avsc", {**OLD, "fields": [field("page", "string"), field("took", "string")]})
    words = ["schema", "why", "clicks-value", str(repository / "clicks.avsc"), "--baseline", str(repository / "base")]
    assert main(words) == 1
    told = capsys.readouterr().out
    assert "! a reader with the new schema breaks on events of version 2 of clicks-value" in told
    assert "~ a reader that still has version 2 of clicks-value breaks on events of the new schema" in told
    assert "at field `took`: string cannot read int" in told
    assert main([*words, "--level", "NONE", "--json"]) == 0
    faults = json.loads(capsys.readouterr().out)
    assert {(one["reader"], one["field"], one["is_forbidden"]) for one in faults} >= {("version 2", "took", False)}


def test_diff_lists_every_change_by_field(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = ["--baseline", str(repository / "base")]
    assert main(["schema", "diff", "clicks-value", *at]) == 1
    assert capsys.readouterr().out == "took: added: int, no default\n"
    assert main(["schema", "diff", "clicks-value", "2", "2", *at]) == 0


def test_a_damaged_export_is_told_and_names_the_file(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(repository / "new/clicks.avsc", OLD)
    for text in (
        "{",
        "[]",
        '{"format": "headrace-schemas", "format_version": 9}',
        '{"format": "headrace-schemas", "format_version": 1}',
    ):
        (repository / "export.json").write_text(text)
        assert main(["schema", "check", str(repository / "new"), "--baseline", str(repository / "export.json")]) == 1
        assert "export.json" in capsys.readouterr().err
