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
    (tls,) = settings.tls.values()
    assert (tls.keystore, tls.truststore, tls.client_auth) == (Path("/k.pem"), Path("/t.pem"), "required")


def test_a_flag_changes_the_first_listener_alone() -> None:
    settings = given("listeners=PLAINTEXT://127.0.0.1:1,SSL://127.0.0.1:2", *STORES, port=7, advertised_host="here")
    assert [(one.host, one.port, one.advertised_host) for one in settings.listeners] == [
        ("127.0.0.1", 7, "here"),
        ("127.0.0.1", 2, "127.0.0.1"),
    ]


def test_brokers_meet_on_the_first_listener_unless_another_is_named_and_without_tls_nothing_of_it_is_read() -> None:
    settings = given("ssl.keystore.location=/k.pem")
    assert (settings.inter_broker_listener, settings.tls) == ("PLAINTEXT", {})


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
    assert settings.tls["SSL"].key_password == "planted-7261"
    assert "planted" not in repr(settings)
    (shown,) = (one for one in settings.effective if one.name == "ssl.key.password")
    assert shown.value == "***"


# -- settings of one listener ----------------------------------------

BOTH = ("listeners=OUT://127.0.0.1:1,IN://127.0.0.1:2", "listener.security.protocol.map=OUT:SASL_SSL,IN:SSL")


def test_a_listeners_own_setting_counts_before_the_plain_one() -> None:
    settings = given(
        *BOTH,
        *STORES,
        "listener.name.out.ssl.keystore.location=/out.pem",
        "listener.name.out.ssl.key.password=planted-1",
        "listener.name.IN.ssl.truststore.location=/in.pem",
        "listener.name.in.ssl.principal.mapping.rules=RULE:^CN=(.*)$/$1/",
        "listener.name.out.ssl.enabled.protocols=TLSv1.3",
    )
    out, inner = settings.tls["OUT"], settings.tls["IN"]
    assert (out.keystore, out.truststore, out.versions) == (Path("/out.pem"), Path("/t.pem"), ("TLSv1.3",))
    assert (inner.keystore, inner.truststore, inner.versions) == (Path("/k.pem"), Path("/in.pem"), ("TLSv1.2", "TLSv1.3"))
    assert (out.key_password, inner.key_password) == ("planted-1", None)
    assert inner.principal_rules != out.principal_rules


def test_a_listeners_own_store_needs_no_plain_one() -> None:
    words = [f"listener.name.{name}.ssl.keystore.location=/{name}.pem" for name in ("in", "out")]
    assert [str(one.keystore) for one in given(*BOTH, *words).tls.values()] == ["/out.pem", "/in.pem"]
    assert "listener.name.in.ssl.keystore.location is for the listener IN alone" in faults(*BOTH, words[1])


def test_an_empty_value_of_a_listener_takes_the_plain_one_away() -> None:
    settings = given(*BOTH, *STORES, "ssl.key.password=secret", "listener.name.in.ssl.key.password=")
    assert (settings.tls["OUT"].key_password, settings.tls["IN"].key_password) == ("secret", None)


def test_a_listener_with_a_login_asks_for_certificates_only_by_its_own_setting() -> None:
    """Kafka ignores the plain ssl.client.auth there (KIP-684)."""
    assert given(*BOTH, *STORES).tls["OUT"].client_auth == "none"
    assert given(*BOTH, *STORES, "listener.name.out.ssl.client.auth=requested").tls["OUT"].client_auth == "requested"


def test_what_a_listener_does_for_itself_decides_whether_other_machines_are_served() -> None:
    reached = ("listeners=SSL://10.0.0.1:9093", "ssl.keystore.location=/k.pem", "ssl.truststore.location=/t.pem")
    assert given(*reached, "listener.name.ssl.ssl.client.auth=required").listeners[0].host == "10.0.0.1"
    assert "does not ask them who they are" in faults(
        *reached, "ssl.client.auth=required", "listener.name.ssl.ssl.client.auth=none"
    )


def test_mechanisms_of_one_listener() -> None:
    settings = given(*BOTH, *STORES, "listener.name.out.sasl.enabled.mechanisms=SCRAM-SHA-256")
    assert settings.logins is not None
    assert settings.logins.mechanisms == {"OUT": ("SCRAM-SHA-256",)}


@pytest.mark.parametrize(
    ("word", "fault"),
    [
        ("listener.name.other.ssl.client.auth=none", "no listener OTHER has TLS"),
        ("listener.name.in.sasl.enabled.mechanisms=PLAIN", "no listener IN has a login"),
        ("listener.name.out.sasl.enabled.mechanisms=GSSAPI", "is not a list of"),
        ("listener.name.in.ssl.client.auth=maybe", "listener.name.in.ssl.client.auth: 'maybe' is neither"),
        ("listener.name.in.ssl.keystore.locaton=/k", "did you mean listener.name.in.ssl.keystore.location?"),
        ("listener.name.in.num.partitions=3", "a listener can have sasl.enabled.mechanisms, ssl.client.auth"),
        ("listener.name.out.ssl.keystore.type=JKS", "convert the store to PEM"),
    ],
)
def test_a_listeners_setting_without_effect_is_a_fault(word: str, fault: str) -> None:
    assert fault in faults(*BOTH, *STORES, word)


def test_a_listener_that_wants_certificates_needs_cas() -> None:
    words = ("ssl.keystore.location=/k.pem", "listener.name.out.ssl.client.auth=required")
    assert "ssl.client.auth=required of the listener OUT needs ssl.truststore.location" in faults(*BOTH, *words)


def test_the_settings_in_force_show_a_listeners_own_ones_without_its_password() -> None:
    words = ("listener.name.in.ssl.key.password=planted-7261", "listener.name.in.ssl.client.auth=none")
    settings = given(*BOTH, *STORES, *words)
    shown = {one.name: (one.value, one.source) for one in settings.effective if one.name.startswith("listener.name.")}
    assert shown == {
        "listener.name.in.ssl.client.auth": ("none", "--set"),
        "listener.name.in.ssl.key.password": ("***", "--set"),
    }
    assert "planted" not in repr(settings)
