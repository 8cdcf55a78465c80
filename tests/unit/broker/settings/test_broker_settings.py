"""Settings: all faults together, each by the name that the user typed."""

from pathlib import Path

import pytest

from headrace.broker.errors import SettingsRefused
from headrace.broker.settings import broker_settings as broker_settings
from headrace.broker.settings.broker_settings import BrokerSettings


def given(*words: str, environment: dict[str, str] | None = None) -> BrokerSettings:
    return broker_settings.from_words(
        data=Path("/data"), zookeeper="127.0.0.1:2181/live", words=words, environment=environment or {}
    )


def test_without_words_the_defaults_are_kafkas() -> None:
    settings = given()
    assert (settings.num_partitions, settings.auto_create_topics, settings.request_max_bytes) == (3, True, 100 << 20)
    assert settings.topic_defaults == {}


def test_a_word_goes_before_the_environment_and_the_environment_before_the_default() -> None:
    environment = {"HEADRACE_BROKER_NUM_PARTITIONS": "7", "HEADRACE_BROKER_MAX_CONNECTIONS": "9", "HOME": "/root"}
    settings = given("num.partitions=5", environment=environment)
    assert (settings.num_partitions, settings.max_connections) == (5, 9)


def test_kafkas_broker_names_change_the_defaults_of_topics() -> None:
    settings = given("log.segment.bytes=4096", "log.retention.ms=-1", "message.max.bytes=1000")
    assert settings.topic_defaults == {"segment.bytes": "4096", "retention.ms": "-1", "max.message.bytes": "1000"}


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(SettingsRefused) as caught:
        broker_settings.from_words(
            data=Path("/data"),
            zookeeper="/chroot-without-host",
            port=70_000,
            broker_id=-1,
            words=["num.partitions=many", "max.connections=0", "no.such.setting=1", "shouting", "log.retention.ms=soon"],
            environment={"HEADRACE_BROKER_NO_SUCH": "1"},
        )
    message = str(caught.value)
    assert len(caught.value.faults) == 9
    for name in ("--port", "--id", "--zookeeper", "num.partitions", "max.connections", "no.such.setting", "shouting"):
        assert name in message
    assert "log.retention.ms: 'soon' is not a whole number" in message
    assert "HEADRACE_BROKER_NO_SUCH" in message


def test_auto_creation_is_true_or_false_and_nothing_else() -> None:
    assert given("auto.create.topics.enable=false").auto_create_topics is False
    with pytest.raises(SettingsRefused, match="neither true nor false"):
        given("auto.create.topics.enable=yes")


def test_listening_on_every_address_needs_one_to_tell_clients() -> None:
    with pytest.raises(SettingsRefused, match="--advertised-host"):
        broker_settings.from_words(data=Path("/data"), zookeeper="z:1", host="0.0.0.0")
    settings = broker_settings.from_words(
        data=Path("/data"),
        zookeeper="z:1",
        host="0.0.0.0",
        advertised_host="broker.example",
        words=["listeners.insecure.allowed=true"],
    )
    assert (settings.listeners[0].host, settings.listeners[0].advertised_host) == ("0.0.0.0", "broker.example")


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "::", "broker.example"])
def test_other_machines_are_not_served_without_a_word_that_says_so(host: str) -> None:
    with pytest.raises(SettingsRefused, match=r"listeners\.insecure\.allowed=true"):
        broker_settings.from_words(data=Path("/data"), zookeeper="z:1", host=host, advertised_host="broker.example")


def test_metrics_are_not_served_to_other_machines_without_a_token() -> None:
    words = ["http.host=0.0.0.0", "http.port=9094"]
    with pytest.raises(SettingsRefused, match=r"http\.token\.file"):
        broker_settings.from_words(data=Path("/data"), zookeeper="z:1", words=words)
    settings = broker_settings.from_words(data=Path("/data"), zookeeper="z:1", words=[*words, "http.token.file=/etc/token"])
    assert settings.http_token_file == Path("/etc/token")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_the_loopback_needs_nothing(host: str) -> None:
    assert broker_settings.from_words(data=Path("/data"), zookeeper="z:1", host=host).listeners[0].host == host


def test_a_listener_without_login_is_refused_with_the_three_commands_that_make_it_right() -> None:
    words = ["listeners=PLAINTEXT://0.0.0.0:9092", "advertised.listeners=PLAINTEXT://broker-1.example:9092"]
    with pytest.raises(SettingsRefused) as caught:
        broker_settings.from_words(data=Path("/data"), zookeeper="zk:2181/live", words=words)
    (said,) = caught.value.faults
    for command in (
        "(1) `headrace security init FOLDER --host broker=broker-1.example`",
        "(2) `headrace security apply FOLDER --zookeeper zk:2181/live`",
        "(3) `headrace broker run --config FILE --config FOLDER/broker/broker.properties` with listeners=SASL_SSL://0.0.0.0:9092",
    ):
        assert command in said
