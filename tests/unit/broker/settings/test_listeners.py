"""Listeners and TLS among a broker's settings: names as Kafka has them, and every fault with what to do."""

from pathlib import Path

import pytest

from headrace.broker.errors import SettingsRefused
from headrace.broker.settings import broker_settings
from headrace.broker.settings.broker_settings import BrokerSettings

TWO = "listeners=CLEAR://127.0.0.1:9092,INNER://0.0.0.0:9093"
MAP = "listener.security.protocol.map=CLEAR:PLAINTEXT,INNER:SSL"
STORES = ("ssl.keystore.location=/k.pem", "ssl.truststore.location=/t.pem", "ssl.client.auth=required")


def given(*words: str, **flags: object) -> BrokerSettings:
    return broker_settings.from_words(data=Path("/data"), zookeeper="z:1", words=words, **flags)  # type: ignore[arg-type]


def faults(*words: str, **flags: object) -> str:
    with pytest.raises(SettingsRefused) as caught:
        given(*words, **flags)
    return "; ".join(caught.value.faults)


def test_several_listeners_each_with_its_protocol_and_its_address_for_clients() -> None:
    settings = given(TWO, MAP, *STORES, "advertised.listeners=INNER://broker.example:19093", "inter.broker.listener.name=INNER")
    shown = [(one.name, one.protocol, one.host, one.port, one.advertised_host, one.advertised_port) for one in settings.listeners]
    assert shown == [
        ("CLEAR", "PLAINTEXT", "127.0.0.1", 9092, "127.0.0.1", None),
        ("INNER", "SSL", "0.0.0.0", 9093, "broker.example", 19093),
    ]
    assert settings.inter_broker_listener == "INNER"
    assert settings.tls is not None
    assert (settings.tls.keystore, settings.tls.truststore, settings.tls.client_auth) == (
        Path("/k.pem"),
        Path("/t.pem"),
        "required",
    )


def test_a_flag_changes_the_first_listener_alone() -> None:
    settings = given("listeners=PLAINTEXT://127.0.0.1:1,SSL://127.0.0.1:2", *STORES, port=7, advertised_host="here")
    assert [(one.host, one.port, one.advertised_host) for one in settings.listeners] == [
        ("127.0.0.1", 7, "here"),
        ("127.0.0.1", 2, "127.0.0.1"),
    ]


def test_brokers_meet_on_the_first_listener_unless_another_is_named_and_without_tls_nothing_of_it_is_read() -> None:
    settings = given("ssl.keystore.location=/k.pem")
    assert (settings.inter_broker_listener, settings.tls) == ("PLAINTEXT", None)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ([TWO], "CLEAR has no protocol"),
        (["listeners=SSL://127.0.0.1:1"], "ssl.keystore.location is not given"),
        (
            ["listeners=SSL://127.0.0.1:1", "ssl.keystore.location=/k", "ssl.client.auth=required"],
            "needs ssl.truststore.location",
        ),
        (["listeners=SSL://127.0.0.1:1,SSL://127.0.0.1:2"], "two are called SSL"),
        (["listeners=PLAINTEXT://127.0.0.1:1,SSL://127.0.0.1:1"], "two have the address 127.0.0.1:1"),
        (["listener.security.protocol.map=IN:TLS"], "which is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        (["listener.security.protocol.map=IN"], "'IN' is not NAME:PROTOCOL"),
        (["inter.broker.listener.name=SSL"], "SSL is not one of listeners (PLAINTEXT)"),
        (["advertised.listeners=SSL://h:1"], "SSL is not one of listeners"),
        (["listeners=PLAINTEXT://0.0.0.0:1"], "listens on every address"),
        (["listeners="], "no listener is named"),
        (["listeners=://h:1"], "is not NAME://HOST:PORT"),
        (["ssl.keystore.type=JKS"], "convert the store to PEM"),
        (["ssl.enabled.protocols=TLSv1.1"], "not a list of TLSv1.2 and TLSv1.3"),
        (["ssl.client.auth=maybe"], "neither none nor requested nor required"),
        (["ssl.keystore.password=x"], "a PEM file has none"),
        (["security.inter.broker.protocol=SSL"], "inter.broker.listener.name names the listener"),
    ],
)
def test_what_does_not_fit_together_is_a_fault(words: list[str], fault: str) -> None:
    assert fault in faults(*words)


def test_kafkas_own_protocol_map_is_taken() -> None:
    everything = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    assert given(everything).listeners[0].protocol == "PLAINTEXT"


def test_other_machines_are_served_over_tls_with_certificates_and_not_without() -> None:
    reached = ("listeners=SSL://10.0.0.1:9093", *STORES)
    assert given(*reached).listeners[0].host == "10.0.0.1"
    message = faults(*reached, "ssl.client.auth=requested")
    assert "does not ask them who they are over TLS" in message
    assert "ssl.client.auth=required" in message


def test_the_keys_password_is_shown_nowhere() -> None:
    settings = given("listeners=SSL://127.0.0.1:1", *STORES, "ssl.key.password=planted-7261")
    assert settings.tls is not None
    assert settings.tls.key_password == "planted-7261"
    assert "planted" not in repr(settings)
    (shown,) = (one for one in settings.effective if one.name == "ssl.key.password")
    assert shown.value == "***"
