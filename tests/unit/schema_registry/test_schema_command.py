"""`headrace schema`: results on stdout, reasons on stderr, exit codes. Asked of the double registry."""

import json
from pathlib import Path

import pytest

from headrace.cli.main import main
from tests.unit.schema_registry.registry_double import RegistryDouble

VERSION = {"subject": "a-value", "version": 2, "id": 7, "schema": '"int"'}


def test_register_prints_the_id(registry: RegistryDouble, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    registry.answers["POST /subjects/a-value/versions"] = (200, {"id": 7})
    file = tmp_path / "a.avsc"
    file.write_text('"int"')
    words = ["schema", "register", "a-value", str(file), "--registry", registry.url]
    assert main(words) == 0
    assert capsys.readouterr().out == "7\n"
    assert main([*words, "--json", "--references", "shop.Money=money-value:1"]) == 0
    assert json.loads(capsys.readouterr().out) == {"subject": "a-value", "id": 7}
    assert registry.bodies[-1]["references"] == [{"name": "shop.Money", "subject": "money-value", "version": 1}]


def test_a_refusal_is_one_line_on_stderr_and_exit_code_1(
    registry: RegistryDouble, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.answers["POST /subjects/a-value/versions"] = (409, {"error_code": 409, "message": "at /fields/b: no default"})
    file = tmp_path / "a.avsc"
    file.write_text('"int"')
    assert main(["schema", "register", "a-value", str(file), "--registry", registry.url]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "at /fields/b: no default (error 409)" in told.err


def test_what_was_asked_wrongly_is_exit_code_2(
    registry: RegistryDouble, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.avsc"
    file.write_text('"int"')
    at = ["--registry", registry.url]
    assert main(["schema", "register", "a-value", str(tmp_path / "no.avsc"), *at]) == 2
    assert main(["schema", "register", "a-value", str(file), "--references", "shop.Money", *at]) == 2
    assert main(["schema", "get", *at]) == 2
    assert main(["schema", "get", "a-value", "--id", "7", *at]) == 2
    err = capsys.readouterr().err
    assert "no.avsc cannot be read" in err
    assert "NAME=SUBJECT:VERSION" in err
    assert registry.asked == []


def test_get_prints_a_schema_by_subject_version_and_id(registry: RegistryDouble, capsys: pytest.CaptureFixture[str]) -> None:
    registry.answers["GET /subjects/a-value/versions/latest"] = (200, VERSION)
    registry.answers["GET /subjects/a-value/versions/2"] = (200, VERSION)
    registry.answers["GET /schemas/ids/7"] = (200, {"schema": '"int"'})
    at = ["--registry", registry.url]
    for words in (["a-value"], ["a-value", "2"], ["--id", "7"]):
        assert main(["schema", "get", *words, *at]) == 0
        assert json.loads(capsys.readouterr().out) == "int"
    assert main(["schema", "get", "a-value", "--json", *at]) == 0
    assert json.loads(capsys.readouterr().out) == {**VERSION, "references": []}
    assert main(["schema", "get", "--id", "8", *at]) == 1
    assert "schema id 8 is unknown" in capsys.readouterr().err


def test_list_prints_each_subject_with_its_newest_version(registry: RegistryDouble, capsys: pytest.CaptureFixture[str]) -> None:
    registry.answers["GET /subjects"] = (200, ["a-value"])
    registry.answers["GET /subjects/a-value/versions/latest"] = (200, VERSION)
    assert main(["schema", "list", "--registry", registry.url]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["a-value", "2", "7"]
    assert main(["schema", "list", "--json", "--registry", registry.url]) == 0
    assert json.loads(capsys.readouterr().out)[0]["id"] == 7


def test_a_registry_that_is_not_there_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "list", "--registry", "http://127.0.0.1:1"]) == 1
    err = capsys.readouterr().err
    assert "is the registry running there?" in err
    assert err.count("\n") == 1
