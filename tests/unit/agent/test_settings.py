"""The agent's settings file: every fault at once, with what to do."""

from pathlib import Path

import pytest

from headrace.agent.errors import SettingsRefused
from headrace.agent.settings import AgentSettings, from_words, load
from headrace.agent.source_kinds import check, groups_of
from headrace.runtime.clock import SystemClock
from headrace.wire.batch.compression import Codec


def test_a_file_gives_the_settings_and_everything_else_has_its_default(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(
        """
[agent]
name = "one"
state = "/var/lib/headrace/agent"
codec = "lz4"
[journals]
root = "/var/lib/headrace/journals"
topics = ["clicks"]
"""
    )
    settings = load(file, metrics_port=9099)
    assert (settings.name, settings.codec, settings.metrics_port) == ("one", Codec.LZ4, 9099)
    assert settings.brokers == "127.0.0.1:9092"
    assert settings.instance.endswith("/agent/one")
    (group,) = groups_of(settings, SystemClock())
    assert (group.name, group.topics, group.run) == ("journals", ("clicks",), None)


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(SettingsRefused) as refused:
        from_words(
            {
                "agent": {"name": "a/b", "batch_bytes": 3, "codec": "zip", "brokers": "nowhere", "speed": 1},
                "journals": {"topics": ["../x", "ok"], "folder": "/tmp"},
                "tails": [],
            }
        )
    faults = "\n".join(refused.value.faults)
    for word in ("tails", "speed", "batch_bytes", "codec", "brokers", "state is missing", "name", "folder", "root", "'../x'"):
        assert word in faults, f"{word} is not named in:\n{faults}"


def test_an_agent_with_nothing_to_ship_is_refused() -> None:
    with pytest.raises(SettingsRefused, match="nothing to ship"):
        from_words({"agent": {"name": "one", "state": "/tmp/x"}})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsRefused, match=r"none\.toml: cannot be read"):
        load(tmp_path / "none.toml")


def test_the_faults_of_sections_are_named_too() -> None:
    settings = AgentSettings(name="one", state="/tmp/x", sections=({"name": "logs"},))
    with pytest.raises(SettingsRefused, match="topic"):
        groups_of(settings, SystemClock())


def test_the_faults_of_every_kind_of_section_are_named_at_once() -> None:
    settings = from_words(
        {
            "agent": {"name": "one", "state": "/tmp/x"},
            "tail": [{"topic": "a", "parser": "none"}],
            "directory": [{"topic": "b", "path": "relative"}],
            "syslog": [{"topic": "c"}],
            "http": [{"topic": "d", "listen": "nowhere"}],
        }
    )
    with pytest.raises(SettingsRefused) as refused:
        check(settings)
    faults = "\n".join(refused.value.faults)
    for word in ("[[tail]] 1: parser", "[[directory]] 1: path", "[[syslog]] 1: udp", "[[http]] 1: listen"):
        assert word in faults, f"{word} is not named in:\n{faults}"
