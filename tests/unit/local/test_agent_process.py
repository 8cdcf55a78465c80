"""The local platform's agent: its settings for a home, from the file that users change."""

import tomllib
from pathlib import Path

import pytest

from headrace.agent.settings import from_words, load
from headrace.agent.tail.settings import sections_from
from headrace.local.agent_process import AgentHomeRefused, prepare, settings_for, settings_path
from headrace.runtime.layout import Layout


def test_the_settings_of_make_up_hold_for_every_home_and_shift(tmp_path: Path) -> None:
    layout = Layout(home=tmp_path / "a 'home' of ümläut", port_shift=1_000)
    path = prepare(layout)
    assert path == settings_path(layout)
    settings = load(path)
    faults: list[str] = []
    (section,) = sections_from(settings.sections, faults)
    assert faults == []
    assert settings.journals is not None
    assert (settings.brokers, settings.registry) == (layout.live_bootstrap, layout.registry_url)
    assert settings.metrics_port == layout.port(9097)
    for folder in (Path(settings.state), Path(settings.journals.root), Path(section.paths[0]).parent):
        assert folder.is_dir()
        assert folder.is_relative_to(layout.home)
    assert Path(settings.state).stat().st_mode & 0o777 == 0o700, "the agent's books are its user's own"


def test_only_the_two_words_are_filled_in_and_every_other_brace_stays(tmp_path: Path) -> None:
    text = """
[agent]
name = "one"
state = "{home}/state"
metrics_port = {port[9097]}
[[tail]]
paths = ["{home}/x.log"]
topic = "t"
parser = "regex"
pattern = '(?P<number>[0-9]{3}) {port} {0}'
multiline = { start = "^.{2}" }
"""
    words = tomllib.loads(settings_for(Layout(home=tmp_path, port_shift=5), text))
    assert from_words(words).metrics_port == 9102
    assert words["tail"][0]["pattern"] == "(?P<number>[0-9]{3}) {port} {0}"
    assert words["tail"][0]["multiline"] == {"start": "^.{2}"}
    assert words["tail"][0]["paths"] == [f"{tmp_path}/x.log"]


def test_a_home_that_no_settings_can_name_is_refused_with_what_to_do() -> None:
    with pytest.raises(AgentHomeRefused, match="name another folder"):
        settings_for(Layout(home=Path('/tmp/"quoted"')), "{home}")
