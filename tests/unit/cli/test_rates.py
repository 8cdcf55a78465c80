"""What `headrace rates` says when there is nothing to show: whose fault it is, and what would show something."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.apps.request_rate.state import PartitionState, StateFolder
from headrace.cli.main import main
from tests.support.processes import free_port
from tests.support.scripted_broker import ScriptedBroker

Out = pytest.CaptureFixture[str]


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    made = ScriptedBroker({"access_log": 1, "clicks": 1})
    yield made
    made.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A platform's folder whose two consumers count access_log."""
    (tmp_path / "run").mkdir()
    for name in ("consumer-1", "consumer-2"):
        (tmp_path / "run" / f"{name}.json").write_text(json.dumps({"state": "ready", "group": "rates", "topic": "access_log"}))
    (tmp_path / "run" / "broker-live.json").write_text(json.dumps({"state": "ready"}))
    (tmp_path / "run" / "half.json").write_text("{")
    return tmp_path


def rates(home: Path, bootstrap: str, *words: str) -> int:
    return main(["rates", "--home", str(home), "--bootstrap", bootstrap, *words])


def test_a_topic_that_is_counted_and_empty_says_what_would_fill_it(home: Path, broker: ScriptedBroker, capsys: Out) -> None:
    assert rates(home, broker.address, "--topic", "access_log") == 0
    told = capsys.readouterr().out
    assert told.startswith("nothing counted yet of 'access_log'")
    assert "`headrace replay LOG --topic access_log`" in told
    assert rates(home, broker.address, "--topic", "access_log", "--json") == 0
    assert capsys.readouterr().out == "[]\n"
    assert rates(home, broker.address) == 0
    assert "the consumers count access_log" in capsys.readouterr().out


def test_a_topic_that_nobody_counts_is_told_from_an_empty_one(home: Path, broker: ScriptedBroker, capsys: Out) -> None:
    assert rates(home, broker.address, "--topic", "clicks") == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "no consumer counts it: the consumers count access_log" in told.err
    assert "`headrace consumer run --topic clicks" in told.err


def test_an_unknown_topic_is_guessed_at_with_exit_code_2(home: Path, broker: ScriptedBroker, capsys: Out) -> None:
    assert rates(home, broker.address, "--topic", "acces_log") == 2
    assert "Did you mean 'access_log'?" in capsys.readouterr().err


def test_without_a_cluster_it_says_that_it_does_not_know(home: Path, capsys: Out) -> None:
    assert rates(home, f"127.0.0.1:{free_port()}", "--topic", "clicks") == 1
    assert "nor does the live cluster answer at 127.0.0.1:" in capsys.readouterr().err


def test_what_was_counted_is_shown_whoever_counts_now_and_without_a_cluster(home: Path, capsys: Out) -> None:
    StateFolder(home / "request-rate").save(PartitionState(topic="old", partition=0, offset=9, minutes={60_000: 7}))
    assert rates(home, f"127.0.0.1:{free_port()}", "--topic", "old") == 0
    assert capsys.readouterr().out.split() == ["old", "1970-01-01", "00:01Z", "7"]
