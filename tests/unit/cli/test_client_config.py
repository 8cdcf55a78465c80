"""`--client-config`, for every command: in its environment, never with a secret."""

import os
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.client.security.chosen import VARIABLE


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")  # put back after the test
    monkeypatch.delenv(VARIABLE)


def _file(folder: Path, text: str) -> Path:
    path = folder / "client.properties"
    path.write_text(text)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("form", ["two words", "one word"])
def test_the_files_path_goes_into_the_environment(tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=hunter2\n"
    path = _file(tmp_path, text)
    flag = ["--client-config", str(path)] if form == "two words" else [f"--client-config={path}"]
    assert main(["topic", "list", "--bootstrap", "127.0.0.1:1", *flag]) == 1
    assert os.environ[VARIABLE] == str(path)
    assert not [value for value in os.environ.values() if "hunter2" in value]
    shown = capsys.readouterr()
    assert "127.0.0.1:1" in shown.err
    assert "hunter2" not in shown.out + shown.err


def test_a_file_that_cannot_be_used_ends_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _file(tmp_path, "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.passwort=hunter2\n")
    assert main(["topic", "list", "--client-config", str(path)]) == 1
    said = capsys.readouterr().err
    assert str(path) in said
    assert "did you mean sasl.password" in said
    assert "hunter2" not in said
    assert main(["topic", "list", "--client-config"]) == 2
