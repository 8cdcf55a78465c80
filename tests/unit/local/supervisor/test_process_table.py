"""The process table: filled in with this layout, in an order in which each comes after what it needs, faults named."""

from pathlib import Path

import pytest

from headrace.local.supervisor import process_table
from headrace.local.supervisor.process_table import Probe, ProcessSpec, ProcessTableError, in_start_order
from headrace.runtime.layout import Layout, LayoutError


def spec(name: str, *after: str) -> ProcessSpec:
    return ProcessSpec(name=name, command=["true"], after=after, probe=Probe(tcp_port=1))


def test_each_process_comes_after_what_it_needs() -> None:
    names = [entry.name for entry in in_start_order([spec("mirror", "live", "offline"), spec("offline"), spec("live")])]
    assert names == ["offline", "live", "mirror"]


def test_a_circle_is_named() -> None:
    with pytest.raises(ProcessTableError, match="a, b"):
        in_start_order([spec("a", "b"), spec("b", "a")])


def test_an_unknown_need_is_named() -> None:
    with pytest.raises(ProcessTableError, match="'a' comes after 'nothing'"):
        in_start_order([spec("a", "nothing")])


def test_the_table_that_make_up_uses_is_shifted_as_a_whole() -> None:
    here = process_table.load(Layout(home=Path("/a")))
    there = process_table.load(Layout(home=Path("/b"), port_shift=10_000))
    assert [entry.port + 10_000 for entry in here if entry.port] == [entry.port for entry in there if entry.port]
    words = " ".join(word for entry in there for word in entry.command)
    assert "/a" not in words.split()
    assert "19092" in words
    assert " 9092" not in words


def test_an_optional_process_is_there_where_its_variable_has_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    for topic, names in ((None, []), ("", []), ("clicks", ["sink"])):
        monkeypatch.delenv("HEADRACE_SINK_TOPIC", raising=False)
        if topic is not None:
            monkeypatch.setenv("HEADRACE_SINK_TOPIC", topic)
        found = [entry for entry in process_table.load(Layout(home=Path("/a"), port_shift=10_000)) if entry.name == "sink"]
        assert [entry.name for entry in found] == names
        for entry in found:
            words = list(entry.command)
            assert words[words.index("--topic") + 1] == "clicks"
            assert words[words.index("--folder") + 1] == "/a/sink"
            assert words[words.index("--bootstrap") + 1] == "127.0.0.1:19092"


def test_an_entry_without_a_command_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "table.toml"
    table.write_text('[[process]]\nname = "lonely"\nready = "status"\n')
    monkeypatch.setenv("HEADRACE_PROCESS_TABLE", str(table))
    with pytest.raises(ProcessTableError, match="'lonely' lacks or misnames 'command'"):
        process_table.load(Layout(home=tmp_path))


@pytest.mark.parametrize("shift", ["x", "-1", "60000", "1.5"])
def test_a_port_shift_that_cannot_be_is_refused(shift: str) -> None:
    with pytest.raises(LayoutError, match="PORT_SHIFT"):
        Layout.from_environment({"PORT_SHIFT": shift})
