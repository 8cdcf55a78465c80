"""Which engine a platform has, and what it starts then."""

import fcntl
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.local import control, preflight
from headrace.local.demo.demo import Demo, DemoError
from headrace.local.kafka import jars
from headrace.local.supervisor import process_table
from headrace.runtime.layout import Layout, LayoutError


def test_with_kafka_no_zookeeper_is_started_and_the_others_wait_for_the_same_names(tmp_path: Path) -> None:
    ours, kafka = (
        {spec.name: spec for spec in process_table.load(Layout(home=tmp_path, engine=engine))} for engine in ("headrace", "kafka")
    )
    assert ours.keys() - kafka.keys() == {"zookeeper-live", "zookeeper-offline"}
    assert not kafka.keys() - ours.keys()
    assert kafka["broker-live"].probe.kafka_port == 9092
    assert "headrace.local.kafka.server" in kafka["broker-offline"].command
    assert Layout(home=tmp_path, engine="kafka").live_zookeeper == ""


def test_a_home_keeps_its_engine(tmp_path: Path) -> None:
    (tmp_path / "engine").write_text("kafka\n")
    assert Layout.from_environment({"HEADRACE_HOME": str(tmp_path)}).engine == "kafka"
    engine, faults = preflight.engine_faults(tmp_path, {"HEADRACE_ENGINE": "headrace"})
    assert engine == "headrace"
    assert "holds the data of a platform with ENGINE=kafka" in faults[0]
    assert "or use ENGINE=kafka" in faults[0]
    assert preflight.engine_faults(tmp_path, {}) == ("kafka", [])


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Path]:
    """The home of a platform that is running, as far as its lock tells."""
    (tmp_path / "run").mkdir()
    with (tmp_path / "run" / "supervisor.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield tmp_path


@pytest.mark.parametrize(("there", "asked"), [("headrace", "kafka"), ("kafka", "headrace")])
def test_a_running_platform_of_the_other_engine_is_not_used_and_the_remedy_is_named(
    running: Path, there: str, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (running / "engine").write_text(f"{there}\n")
    told = [f"ENGINE={there}", f"in {running} (HEADRACE_HOME)", f"ENGINE={asked}", "make down", "HEADRACE_HOME=", "PORT_SHIFT="]
    settings = {"HEADRACE_HOME": str(running), "HEADRACE_ENGINE": asked}
    layout = Layout.from_environment(settings)
    quiet = Demo(layout, log=Path(__file__), topic="t", keep=False, say=print, show=print)
    errors = []
    for use in (lambda: control.up(layout), quiet.run):
        with pytest.raises((control.PlatformError, DemoError)) as refused:
            use()
        errors.append(str(refused.value))
    monkeypatch.setattr(preflight, "installing_faults", lambda environment: [])
    errors += [fault for what in ("up", "demo") for fault in preflight.faults_before(what, {**settings, "LOG": "here"})]
    assert len(errors) == 4
    assert [[words for words in told if words not in error] for error in errors] == [[]] * 4


def test_a_running_platform_of_the_engine_that_was_asked_for_is_used(running: Path) -> None:
    (running / "engine").write_text("kafka\n")
    for settings in ({}, {"HEADRACE_ENGINE": "kafka"}):
        assert preflight.platform_faults(running, 0, {"PATH": "", **settings}) == []


def test_an_unknown_engine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match="pulsar"):
        Layout.from_environment({"HEADRACE_HOME": str(tmp_path), "HEADRACE_ENGINE": "pulsar"})
    assert "headrace or kafka" in preflight.engine_faults(tmp_path, {"HEADRACE_ENGINE": "pulsar"})[1][0]


def test_the_ports_are_those_of_the_engine() -> None:
    table = preflight.TABLE.read_text()
    assert 2181 in preflight.ports_of(table, 0)
    kafka = preflight.ports_of(table, 0, "kafka")
    assert 2181 not in kafka
    assert kafka[9093] == "broker-live"


def test_jars_that_cannot_be_had_are_told_before_anything_starts(tmp_path: Path) -> None:
    nothing = {"HEADRACE_BENCH_CACHE": str(tmp_path), "PATH": str(tmp_path)}
    assert "no Maven" in preflight.kafka_faults(nothing)[0]
    assert "KAFKA_HOME" in preflight.kafka_faults({**nothing, "KAFKA_HOME": str(tmp_path)})[0]
    with pytest.raises(jars.KafkaUnavailable, match="KAFKA_HOME"):
        jars.found({"KAFKA_HOME": str(tmp_path)})
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "kafka_2.13-4.3.1.jar").touch()
    assert preflight.kafka_faults({**nothing, "KAFKA_HOME": str(tmp_path)}) == []
    assert jars.found({"KAFKA_HOME": str(tmp_path)}) == tmp_path / "libs"


def test_jars_in_the_cache_are_taken_only_if_their_fetch_was_whole(tmp_path: Path) -> None:
    environment = {"HEADRACE_BENCH_CACHE": str(tmp_path)}
    folder = jars.cache_folder(environment)
    folder.mkdir()
    assert jars.found(environment) is None
    (folder / "complete").touch()
    assert jars.found(environment) == folder
