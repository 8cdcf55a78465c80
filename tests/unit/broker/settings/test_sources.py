"""The sources of settings: their syntax, their precedence, and faults that name the source."""

from pathlib import Path

import pytest

from headrace.broker.errors import SettingsRefused
from headrace.broker.settings import broker_settings as broker_settings
from headrace.broker.settings.broker_settings import BrokerSettings
from headrace.broker.settings.definitions import NOT_HERE, NUMBERS, SYNONYMS, WORDS
from headrace.broker.settings.listeners import Listener
from headrace.broker.settings.sources import Given


def given(text: str = "", *words: str, environment: dict[str, str] | None = None, **flags: object) -> BrokerSettings:
    flags = {"data": Path("/data")} | flags
    return broker_settings.from_words(
        words=words,
        environment=environment,
        files=[(text, "broker.properties")],
        **flags,  # type: ignore[arg-type]
    )


def faults(text: str = "", *words: str, environment: dict[str, str] | None = None, **flags: object) -> list[str]:
    with pytest.raises(SettingsRefused) as caught:
        given(text, *words, environment=environment, **flags)
    return list(caught.value.faults)


def test_a_file_is_written_as_kafkas_is() -> None:
    settings = given(
        "# a comment\n! another\n\n  num.partitions = 5\nmax.connections:9\nlog.segment.bytes=40\\\n  96\n"
        "zookeeper.connect=a:1,b:2/chroot=odd\nauto.create.topics.enable=false\r\n"
    )
    assert (settings.num_partitions, settings.max_connections, settings.auto_create_topics) == (5, 9, False)
    assert settings.topic_defaults == {"segment.bytes": "4096"}
    assert settings.zookeeper == "a:1,b:2/chroot=odd"


def test_a_file_alone_can_say_everything_that_flags_can() -> None:
    settings = broker_settings.from_words(
        files=[
            (
                "broker.id=7\nlog.dirs=/logs\nzookeeper.connect=z:1/live\nlisteners=PLAINTEXT://10.0.0.1:9000\n"
                "advertised.listeners=PLAINTEXT://broker.example:19000\nhttp.port=9094\nhttp.host=0.0.0.0\n"
                "http.token.file=/etc/token\nlisteners.insecure.allowed=true\n",
                "f",
            )
        ]
    )
    assert (settings.broker_id, settings.data, settings.zookeeper) == (7, Path("/logs"), "z:1/live")
    assert settings.listeners == [
        Listener(
            name="PLAINTEXT",
            protocol="PLAINTEXT",
            host="10.0.0.1",
            port=9000,
            advertised_host="broker.example",
            advertised_port=19_000,
        )
    ]
    assert (settings.http_host, settings.http_port) == ("0.0.0.0", 9094)


def test_flags_go_before_environment_before_file_before_default() -> None:
    text = "num.partitions=2\nmax.connections=2\nfetch.max.bytes=2000\n"
    environment = {"HEADRACE_BROKER_NUM_PARTITIONS": "3", "HEADRACE_BROKER_MAX_CONNECTIONS": "3"}
    settings = given(text, "num.partitions=4", environment=environment)
    assert (settings.num_partitions, settings.max_connections, settings.fetch_max_bytes) == (4, 3, 2000)
    sources = {one.name: one.source for one in settings.effective}
    assert sources["num.partitions"] == "--set"
    assert sources["max.connections"] == "HEADRACE_BROKER_MAX_CONNECTIONS"
    assert sources["fetch.max.bytes"] == "broker.properties:3"
    assert sources["fetch.max.wait.ms"] == "default"


def test_a_flag_of_its_own_goes_before_the_file_and_changes_only_what_it_names() -> None:
    text = "listeners=PLAINTEXT://10.0.0.1:9000\nbroker.id=3\nlisteners.insecure.allowed=true\n"
    settings = given(text, port=9001, broker_id=4)
    assert (settings.listeners[0].host, settings.listeners[0].port, settings.broker_id) == ("10.0.0.1", 9001, 4)
    (listener,) = (one for one in settings.effective if one.name == "listeners")
    assert (listener.value, listener.source) == ("PLAINTEXT://10.0.0.1:9001", "--port")


def test_what_the_layout_assumes_goes_behind_everything_that_was_said() -> None:
    defaults = {"zookeeper.connect": Given("127.0.0.1:2281", "PORT_SHIFT")}
    assert given(defaults=defaults).zookeeper == "127.0.0.1:2281"
    assert given("zookeeper.connect=z:1", defaults=defaults).zookeeper == "z:1"


@pytest.mark.parametrize(("line", "retention_ms"), [("log.retention.hours=2", "7200000"), ("log.retention.minutes=-1", "-1")])
def test_kafkas_coarser_names_are_taken(line: str, retention_ms: str) -> None:
    assert given(line).topic_defaults == {"retention.ms": retention_ms}


def test_of_kafkas_names_for_one_setting_the_finest_counts() -> None:
    assert given("log.retention.hours=2\nlog.retention.ms=5\n").topic_defaults == {"retention.ms": "5"}


def test_every_fault_of_every_source_is_named_at_once_with_its_place() -> None:
    found = faults(
        "num.partitions=many\nnum.partition=3\nnonsense\nmax.connections=0\nmax.connections=1\nlisteners=SSL://:1x\n"
        "num.io.threads=8\nretention.ms=5\n",
        "fetch.max.bytes=1",
        environment={"HEADRACE_BROKER_NUM_PARTITION": "4", "HEADRACE_BROKER_LOG_RETENTION_MS": "soon"},
        broker_id=-1,
    )
    assert found[-1].startswith("log.retention.ms: 'soon' is not a whole number")
    assert found[-1].endswith("(HEADRACE_BROKER_LOG_RETENTION_MS)")
    assert found[:-1] == [
        "broker.properties:3: it is not name=value",
        "broker.properties:5: max.connections was given before, at broker.properties:4: keep one of the two",
        "HEADRACE_BROKER_NUM_PARTITION in the environment names no setting: did you mean HEADRACE_BROKER_NUM_PARTITIONS?",
        "num.partition: there is no such setting (broker.properties:2): did you mean num.partitions?",
        "num.io.threads: there is no such setting (broker.properties:7): one loop serves all connections; take the line out",
        "retention.ms: there is no such setting (broker.properties:8): it is a topic's setting; the default for all topics is "
        "log.retention.ms",
        "broker.id: -1 is not from 0 to 2147483647 (--id)",
        "listeners: 'SSL://:1x': 1x is not from 0 to 65535 (broker.properties:6)",
        "num.partitions: 'many' is not a whole number (broker.properties:1)",
        "max.connections: 0 is not from 1 to 2147483647 (broker.properties:4)",
        "fetch.max.bytes: 1 is not from 1024 to 2147483647 (--set)",
    ]


@pytest.mark.parametrize("value", ["", "1e9", "١", "9" * 5_000, "--1"])
def test_what_is_no_number_is_a_fault_and_no_crash(value: str) -> None:
    (found,) = faults(f"num.partitions={value}")
    assert "num.partitions" in found


def test_without_a_folder_nothing_starts() -> None:
    assert any("log.dirs is not given" in fault for fault in faults(data=None))
    assert any("a broker has one folder" in fault for fault in faults("log.dirs=/a,/b", data=None))


def test_every_setting_has_a_doc_and_a_default_that_it_takes_itself() -> None:
    settings = given()
    assert [one.name for one in settings.effective] == broker_settings.known_names()
    for one in settings.effective:
        assert one.doc.endswith((".", ".)")), one.name
        if one.value and one.name != "log.dirs":
            given(f"{one.name}={one.value}")
    assert all(hasattr(settings, number.field) for number in NUMBERS.values())


def test_no_name_is_both_known_and_refused() -> None:
    names = {*broker_settings.known_names()}
    assert not names & NOT_HERE.keys()
    assert not names & SYNONYMS.keys()
    assert {name for name, _ in SYNONYMS.values()} <= names
    assert not NUMBERS.keys() & WORDS.keys()


def test_of_two_files_the_later_one_counts_and_each_value_keeps_its_file() -> None:
    files = [
        ("num.partitions=5\nlog.retention.hours=1\nmax.connections=7\n", "first"),
        ("num.partitions=6\nlog.retention.ms=9\n", "second"),
    ]
    settings = broker_settings.from_words(data=Path("/data"), files=files)
    assert (settings.num_partitions, settings.max_connections, settings.topic_defaults["retention.ms"]) == (6, 7, "9")
    shown = {one.name: one.source for one in settings.effective}
    assert (shown["num.partitions"], shown["max.connections"]) == ("second:1", "first:3")
