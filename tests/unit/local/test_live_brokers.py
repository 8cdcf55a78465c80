"""How many brokers the live cluster of a platform has, and what it starts then."""

import fcntl
from pathlib import Path

import pytest

from headrace.local import preflight
from headrace.local.supervisor import process_table
from headrace.runtime.layout import BROKERS_FILE, Layout, LayoutError


def test_three_live_brokers_have_ports_and_folders_of_their_own_and_everybody_knows_all_of_them() -> None:
    layout = Layout(home=Path("/a"), port_shift=100, brokers=3)
    specs = {spec.name: spec for spec in process_table.load(layout)}
    live = [specs[name] for name in ("broker-live", "broker-live-2", "broker-live-3")]
    assert [spec.port for spec in live] == [9192, 9392, 9492]
    assert layout.live_bootstrap == "127.0.0.1:9192,127.0.0.1:9392,127.0.0.1:9492"
    for spec in live:
        assert "default.replication.factor=3" in spec.command
    for name, flag in (("registry", "--bootstrap"), ("audit", "--live"), ("mirror", "--source")):
        words = list(specs[name].command)
        assert words[words.index(flag) + 1] == layout.live_bootstrap
        assert {"broker-live-2", "broker-live-3"} <= set(specs[name].after)


def test_with_one_broker_nothing_else_is_started_and_nobody_waits_for_another() -> None:
    specs = {spec.name: spec for spec in process_table.load(Layout(home=Path("/a")))}
    assert "broker-live-2" not in specs
    assert list(specs["registry"].after) == ["broker-live"]
    assert "default.replication.factor=1" in specs["broker-live"].command
    assert "127.0.0.1:9092" in specs["registry"].command


def test_a_home_keeps_its_number_of_brokers_and_a_child_gets_it(tmp_path: Path) -> None:
    assert Layout.from_environment({"HEADRACE_HOME": str(tmp_path)}).brokers == 1
    (tmp_path / BROKERS_FILE).write_text("3\n")
    layout = Layout.from_environment({"HEADRACE_HOME": str(tmp_path)})
    assert layout.brokers == 3
    assert Layout.from_environment(layout.environment()) == layout


@pytest.mark.parametrize("words", ["0", "4", "33", "three", "-1"])
def test_another_number_is_refused(words: str, tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match="from 1 to 3"):
        Layout.from_environment({"HEADRACE_BROKERS": words})
    assert preflight.brokers_faults(tmp_path, {"HEADRACE_BROKERS": words}, "headrace")[1]


def test_the_ports_of_all_brokers_are_checked() -> None:
    table = preflight.TABLE.read_text()
    assert preflight.ports_of(table, 0, brokers=3).keys() - preflight.ports_of(table, 0).keys() == {9292, 9294, 9392, 9394}


def test_a_home_gets_more_brokers_while_it_is_down_and_never_fewer(tmp_path: Path) -> None:
    def faults(asked: str, engine: str = "headrace") -> list[str]:
        return preflight.brokers_faults(tmp_path, {"HEADRACE_BROKERS": asked}, engine)[1]

    assert faults("3") == []
    assert "our own broker" in faults("3", "kafka")[0]
    (tmp_path / "run").mkdir()
    with (tmp_path / "run" / "supervisor.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "make down" in faults("3")[0]
        (tmp_path / BROKERS_FILE).write_text("3\n")
        assert faults("3") == []
    assert "has 3 live brokers" in faults("1")[0]
