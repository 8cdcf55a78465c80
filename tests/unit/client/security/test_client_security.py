"""Client configurations: what is taken, what is refused, what stays hidden, and which cluster's it is."""

import copy
import pickle
import traceback
from pathlib import Path

import pytest

from headrace.client.connection.cluster import Cluster
from headrace.client.errors import AuthenticationFailed, ClientConfigRefused
from headrace.client.security.chosen import VARIABLE, security_for
from headrace.client.security.client_security import ClientSecurity
from headrace.client.security.oauth_tokens import OAuthTokens
from headrace.client.security.secret_value import Secret
from headrace.client.security.settings import OAuthSettings, from_words
from tests.support.certificates import Authority
from tests.support.token_endpoint import TokenEndpoint

PLAIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "hunter2"}
OAUTH = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://issuer.test/token",
    "sasl.oauthbearer.client.id": "c",
    "sasl.oauthbearer.client.secret": "hunter2",
}


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ({"security.protocol": "TLS"}, "is none of PLAINTEXT"),
        ({"securty.protocol": "SSL"}, "did you mean security.protocol"),
        ({"ssl.cafile": "/ca.pem"}, "not used with security.protocol=PLAINTEXT"),
        ({**PLAIN, "ssl.cafile": "/ca.pem"}, "not used with security.protocol=SASL_PLAINTEXT"),
        ({"security.protocol": "SSL", "sasl.mechanism": "PLAIN"}, "SASL_"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is not given"),
        ({**PLAIN, "sasl.mechanism": "GSSAPI"}, "none of PLAIN"),
        ({**PLAIN, "sasl.password": ""}, "sasl.password is missing or empty"),
        ({**PLAIN, "sasl.mechanisms": "SCRAM-SHA-256"}, "mean the same"),
        ({**PLAIN, "sasl.jaas.config": 'x.ScramLoginModule required username="u" password="p";'}, "do not belong together"),
        ({**PLAIN, "sasl.jaas.config": 'x.PlainLoginModule required username="u" password="other";'}, "different values"),
        ({**PLAIN, "sasl.oauthbearer.scope": "s"}, "not used with sasl.mechanism=PLAIN"),
        ({"security.protocol": "SSL", "ssl.truststore.type": "JKS"}, "only PEM"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/store.jks"}, "only PEM"),
        ({"security.protocol": "SSL", "ssl.truststore.password": "hunter2"}, "PEM files have none"),
        ({"security.protocol": "SSL", "ssl.keyfile": "/k"}, "no certificate"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "/k", "ssl.certfile": "/c"}, "both name"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldap"}, "neither https"),
        ({**OAUTH, "sasl.oauthbearer.token.endpoint.url": "http://issuer.test/token"}, "unencrypted"),
        ({**OAUTH, "sasl.oauthbearer.token.endpoint.url": "https://c:hunter2@issuer.test/token"}, "holds credentials"),
        ({**OAUTH, "sasl.oauthbearer.client.secret": ""}, "client.secret is missing"),
        ({**OAUTH, "sasl.username": "u"}, "not used with sasl.mechanism=OAUTHBEARER"),
    ],
)
def test_what_cannot_stand_is_refused_with_what_to_do_and_without_a_secret(words: dict[str, str], fault: str) -> None:
    with pytest.raises(ClientConfigRefused) as refused:
        from_words(words, where="client.properties")
    assert fault in str(refused.value)
    assert "client.properties" in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(ClientConfigRefused) as refused:
        from_words({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "nonsense": "1"}, where="f")
    assert len(refused.value.faults) == 3


def test_names_of_kafka_and_of_librdkafka_mean_the_same() -> None:
    ours = from_words({"security.protocol": "SSL", "ssl.cafile": "/a", "ssl.certfile": "/b", "ssl.keyfile": "/c"}, where="f")
    librdkafka = {"security.protocol": "ssl", "ssl.ca.location": "/a", "ssl.certificate.location": "/b", "ssl.key.location": "/c"}
    assert from_words(librdkafka, where="f") == ours
    kafka = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": "/a"}
    assert (
        from_words({**kafka, "ssl.keystore.type": "PEM", "ssl.keystore.location": "/b"}, where="f").tls.certificate_file == "/b"
    )
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hunter2";'
    without = {name: value for name, value in PLAIN.items() if name not in ("sasl.username", "sasl.password")}
    assert from_words({**without, "sasl.jaas.config": jaas}, where="f") == from_words(PLAIN, where="f")


def test_a_secret_is_nowhere_but_where_it_is_revealed() -> None:
    security = ClientSecurity(PLAIN)
    secret = security.settings.password
    assert secret.reveal() == "hunter2"
    for shown in (repr(security), str(secret), f"{secret}", repr(security.settings), repr([secret])):
        assert "hunter2" not in shown
    for one in (secret, security, security.settings):
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(one)
    with pytest.raises(TypeError):
        copy.copy(secret)


def test_references_lead_to_files_and_variables(tmp_path: Path) -> None:
    (tmp_path / "secrets.properties").write_text("kafka=hunter2\n")
    (tmp_path / "word").write_text("hunter2\n")
    for reference in (f"${{file:{tmp_path}/secrets.properties:kafka}}", f"${{dir:{tmp_path}:word}}", "${env:WORD}"):
        found = ClientSecurity({**PLAIN, "sasl.password": reference}, environment={"WORD": "hunter2"})
        assert found.settings.password == Secret("hunter2")
    for reference in (
        "${env:NONE}",
        "${file:/none:key}",
        f"${{file:{tmp_path}/secrets.properties:other}}",
        f"${{dir:{tmp_path}}}",
    ):
        with pytest.raises(ClientConfigRefused, match=r"sasl\.password") as refused:
            ClientSecurity({**PLAIN, "sasl.password": reference}, environment={})
        assert "hunter2" not in "".join(traceback.format_exception(refused.value))


def test_a_changed_file_is_read_by_the_next_connection_and_a_broken_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in PLAIN.items()))
    security = ClientSecurity(path)
    path.write_text("sasl.mechanism=")
    assert next(security.exchange()) == b"\0u\0hunter2"
    path.write_text("".join(f"{name}={value}\n" for name, value in {**PLAIN, "sasl.password": "replaced"}.items()))
    assert next(security.exchange()) == b"\0u\0replaced"


def test_a_file_that_others_can_read_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for mode, count in ((0o600, 0), (0o644, 1)):
        path = tmp_path / f"{mode}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in PLAIN.items()))
        path.chmod(mode)
        ClientSecurity(path)
        ClientSecurity(path)
        assert sum(str(path) in record.getMessage() for record in caplog.records) == count
    assert "hunter2" not in caplog.text


def test_a_refused_login_is_not_tried_again_before_a_pause_that_doubles_to_a_minute() -> None:
    now_ms = 0
    security = ClientSecurity(PLAIN, monotonic_ms=lambda: now_ms)
    error = AuthenticationFailed("b:1", "PLAIN", "no")
    pauses = []
    for _ in range(10):
        security.refused("b:1", error)
        begun = now_ms
        while True:
            try:
                security.check_may_try("b:1")
            except AuthenticationFailed:
                now_ms += 500
            else:
                break
        pauses.append(now_ms - begun)
    assert pauses == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000, 60_000]
    security.check_may_try("other:1")


def test_an_encrypted_key_without_its_password_is_refused_and_asks_nobody(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("client", password="hunter2")
    words = {"security.protocol": "SSL", "ssl.certfile": str(certificate), "ssl.keyfile": str(key)}
    with pytest.raises(ClientConfigRefused, match=r"ssl\.key\.password is not given"):
        ClientSecurity(words)
    with pytest.raises(ClientConfigRefused, match="does not open it"):
        ClientSecurity({**words, "ssl.key.password": "wrong"})
    assert ClientSecurity({**words, "ssl.key.password": "hunter2"}).settings.uses_tls


def test_pem_text_serves_as_well_as_files(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("client")
    words = {"security.protocol": "SSL", "ssl.truststore.certificates": authority.file.read_text()}
    words |= {"ssl.keystore.certificate.chain": certificate.read_text(), "ssl.keystore.key": key.read_text()}
    assert ClientSecurity(words).settings.uses_tls


def test_the_credentials_of_one_cluster_never_go_to_another(tmp_path: Path) -> None:
    own, general = tmp_path / "own", tmp_path / "general"
    own.write_text("".join(f"{name}={value}\n" for name, value in {**PLAIN, "bootstrap.servers": "a:1,b:1"}.items()))
    general.write_text("security.protocol=SSL\n")
    assert security_for("a:1", None, {}) is None
    both = {VARIABLE: f"{own}:{general}"}
    assert [security_for(one, None, both).settings.protocol for one in ("b:1,c:1", "z:1")] == ["SASL_PLAINTEXT", "SSL"]  # type: ignore[union-attr]
    with pytest.raises(ClientConfigRefused, match="none is for z:1"):
        security_for("z:1", None, {VARIABLE: str(own)})
    with pytest.raises(ClientConfigRefused, match="keep one"):
        security_for("z:1", None, {VARIABLE: f"{general}:{general}"})


def test_every_cluster_takes_what_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none.properties"))
    with pytest.raises(ClientConfigRefused, match=r"none\.properties"):
        Cluster("127.0.0.1:1")


def test_tokens_are_kept_renewed_and_used_to_their_end_when_the_endpoint_is_away() -> None:
    endpoint = TokenEndpoint({"c": "hunter2"})
    now_ms = 0
    try:
        endpoint.life_s = 100
        settings = OAuthSettings(token_url=endpoint.url, client_id="c", client_secret=Secret("hunter2"), scope="logs")
        tokens = OAuthTokens(settings, monotonic_ms=lambda: now_ms)
        first = tokens.token()
        now_ms = 79_999
        assert tokens.token() == first
        assert endpoint.requests == [{"grant_type": ["client_credentials"], "scope": ["logs"]}]
        endpoint.fails_with = 503
        now_ms = 81_000
        assert tokens.token() == first
        now_ms = 81_500
        assert tokens.token() == first
        assert len(endpoint.requests) == 2, "not asked again before the pause"
        now_ms = 100_000
        with pytest.raises(Exception, match="no token from") as away:
            tokens.token()
        assert away.value.retriable  # type: ignore[attr-defined]
        endpoint.fails_with = None
        now_ms = 200_000
        assert isinstance(tokens.token(), Secret)
    finally:
        endpoint.close()


def test_a_wrong_client_secret_is_told_without_it() -> None:
    endpoint = TokenEndpoint({"c": "right"})
    try:
        tokens = OAuthTokens(OAuthSettings(token_url=endpoint.url, client_id="c", client_secret=Secret("hunter2")))
        with pytest.raises(AuthenticationFailed, match="invalid_client") as refused:
            tokens.token()
        assert "hunter2" not in "".join(traceback.format_exception(refused.value))
        with pytest.raises(AuthenticationFailed):
            tokens.token()
        assert len(endpoint.requests) == 1
        for answer in (b"", b"[]", b'{"access_token": "a b"}', b'{"access_token": 5}', b"x" * 100_000):
            endpoint.raw_answer = answer
            endpoint.clients["c"] = "hunter2"
            with pytest.raises(Exception, match="no token from"):
                OAuthTokens(OAuthSettings(token_url=endpoint.url, client_id="c", client_secret=Secret("hunter2"))).token()
    finally:
        endpoint.close()
