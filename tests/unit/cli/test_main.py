"""The front door: versions, commands that do not exist, and exit codes."""

import importlib.metadata
import sys

import pytest

import headrace
from headrace.cli import main as front_door
from headrace.cli.errors import UsageError
from headrace.cli.main import COMMANDS, main
from headrace.errors import HeadraceError


def test_the_version_names_headrace_and_python(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith(f"headrace {headrace.__version__} (Python {sys.version.split()[0]})")


def test_a_package_of_another_version_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.0.7")
    assert front_door.version().endswith("; the installed package headrace is 0.0.7")


def test_a_checkout_that_is_not_installed_has_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", none)
    assert front_door.version().startswith(f"headrace {headrace.__version__} ")


def test_a_mistyped_command_is_guessed_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tpoic", "list"]) == 2
    assert "there is no command 'tpoic'. Did you mean 'topic'?" in capsys.readouterr().err


@pytest.mark.parametrize(("error", "code"), [(UsageError("so"), 2), (HeadraceError("so"), 1)])
def test_what_was_asked_wrongly_is_told_from_what_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: HeadraceError, code: int
) -> None:
    class Failing:
        HELP = "fails"

        def configure(self, parser: object) -> None:
            pass

        def run(self, arguments: object) -> int:
            raise error

    monkeypatch.setattr(front_door, "_command", lambda name: Failing())
    assert main(["status"]) == code
    assert capsys.readouterr().err == "headrace status: so\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main([name, "--help"])
    assert raised.value.code == 0
    assert f"usage: headrace {name}" in capsys.readouterr().out


@pytest.mark.parametrize("action", ["list", "create", "describe", "delete", "config"])
def test_help_on_topics_ends_with_an_example(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["topic", action, "--help"])
    assert capsys.readouterr().out.rstrip().splitlines()[-1].startswith(f"example: headrace topic {action}")
