"""What Apache Kafka refuses: a clear error that is not retriable, few attempts, and events that are accounted for."""

import itertools
import shutil
import time
import uuid
from collections.abc import Callable

import pytest

from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.consumer.group_consumer import GroupConsumer
from headrace.client.errors import AuthenticationFailed, BrokerUnreachable, ClientError, DeliveryFailed, TlsFailed
from headrace.client.producer.delivery import Delivery, DeliveryEnd
from headrace.client.producer.producer import Producer
from headrace.client.security.chosen import VARIABLE
from tests.security.conftest import Config
from tests.security.secured_kafka import CLIENT_SECRET, PASSWORD, SCRAM_PASSWORD, SecuredKafka
from tests.support.certificates import Authority
from tests.support.processes import eventually
from tests.support.token_endpoint import TokenEndpoint

Words = Callable[[str, str | None], dict[str, str]]


def _refusal(server: SecuredKafka, listener: str, settings: dict[str, str]) -> ClientError:
    cluster = Cluster(server.address(listener), request_timeout_ms=15_000, security=settings)
    try:
        with pytest.raises(ClientError) as refused:
            cluster.topics()
        for secret in (PASSWORD, SCRAM_PASSWORD, CLIENT_SECRET, "wrong-secret", "key-secret-4"):
            assert secret not in str(refused.value)
            assert secret not in repr(refused.value)
        return refused.value
    finally:
        cluster.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("listener", ["SASLCLEAR", "SASLTLS"])
def test_a_wrong_password_is_told(server: SecuredKafka, words: Words, listener: str, mechanism: str) -> None:
    error = _refusal(server, listener, words(listener, mechanism) | {"sasl.password": "wrong-secret"})
    assert isinstance(error, AuthenticationFailed)
    assert not error.retriable
    assert mechanism in str(error)
    assert "credentials" in str(error)


def test_a_mechanism_that_the_listener_lacks_is_told_with_those_that_it_has(server: SecuredKafka, words: Words) -> None:
    error = _refusal(server, "SCRAMONLY", words("SASLCLEAR", "PLAIN"))
    assert isinstance(error, AuthenticationFailed)
    assert "SCRAM-SHA-512" in str(error)


def test_a_wrong_client_secret_is_the_endpoints_refusal(server: SecuredKafka, words: Words) -> None:
    settings = words("SASLCLEAR", "OAUTHBEARER") | {"sasl.oauthbearer.client.secret": "wrong-secret"}
    error = _refusal(server, "SASLCLEAR", settings)
    assert isinstance(error, AuthenticationFailed)
    assert "invalid_client" in str(error)


def test_a_token_for_somebody_else_is_the_brokers_refusal(server: SecuredKafka, words: Words) -> None:
    other = TokenEndpoint({"headrace-client": CLIENT_SECRET})
    try:
        settings = words("SASLCLEAR", "OAUTHBEARER") | {"sasl.oauthbearer.token.endpoint.url": other.url}
        error = _refusal(server, "SASLCLEAR", settings)
        assert isinstance(error, AuthenticationFailed)
        assert "invalid_token" in str(error)
    finally:
        other.close()


def test_an_expired_token_is_the_brokers_refusal(server: SecuredKafka, words: Words, endpoint: TokenEndpoint) -> None:
    endpoint.life_s = -300
    try:
        error = _refusal(server, "SASLCLEAR", words("SASLCLEAR", "OAUTHBEARER"))
    finally:
        endpoint.life_s = 3_600
    assert isinstance(error, AuthenticationFailed)


def test_a_certificate_of_another_authority_is_refused_by_the_broker(
    server: SecuredKafka, words: Words, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stranger = Authority(tmp_path_factory.mktemp("stranger"), "stranger-ca")
    certificate, key = stranger.issue("client")
    settings = words("TLS", None) | {"ssl.certfile": str(certificate), "ssl.keyfile": str(key)}
    error = _refusal(server, "MTLS", settings)
    assert isinstance(error, TlsFailed), error
    assert "the broker refuses us" in str(error)


def test_no_certificate_is_refused_where_one_is_wanted(server: SecuredKafka, words: Words) -> None:
    error = _refusal(server, "MTLS", words("TLS", None))
    assert isinstance(error, TlsFailed), error
    assert "ssl.certfile" in str(error)


def test_an_expired_certificate_is_refused_by_the_broker(server: SecuredKafka, words: Words, authority: Authority) -> None:
    certificate, key = authority.issue("late", is_expired=True)
    settings = words("TLS", None) | {"ssl.certfile": str(certificate), "ssl.keyfile": str(key)}
    assert isinstance(_refusal(server, "MTLS", settings), TlsFailed)


def test_the_brokers_certificate_is_checked_against_the_authority(
    server: SecuredKafka, words: Words, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stranger = Authority(tmp_path_factory.mktemp("stranger"), "stranger-ca")
    error = _refusal(server, "TLS", words("TLS", None) | {"ssl.ca.location": str(stranger.file)})
    assert isinstance(error, TlsFailed)
    assert "ssl.cafile" in str(error)


def test_the_wrong_protocol_is_told(server: SecuredKafka, words: Words) -> None:
    assert "does it support TLS" in str(_refusal(server, "CLEAR", words("TLS", None)))
    assert "takes no login" in str(_refusal(server, "CLEAR", words("SASLCLEAR", "PLAIN")))
    for listener in ("TLS", "SASLCLEAR"):
        cluster = Cluster(server.address(listener), request_timeout_ms=5_000)
        with pytest.raises(ClientError, match="client configuration"):
            cluster.topics()
        cluster.close()


def test_a_producer_with_a_wrong_password_counts_every_record_and_knocks_seldom(server: SecuredKafka, words: Words) -> None:
    ended: list[Delivery] = []
    cluster = Cluster(
        server.address("SASLCLEAR"), request_timeout_ms=15_000, security=words("SASLCLEAR", "PLAIN") | {"sasl.password": "no"}
    )
    attempts = itertools.count()
    security = cluster._security
    assert security is not None
    exchange = security.exchange
    security.exchange = lambda: (next(attempts), exchange())[1]  # type: ignore[method-assign]
    producer = Producer(cluster, linger_ms=1, on_delivery=ended.append)
    sent = 0
    until = time.monotonic() + 3
    while time.monotonic() < until:
        producer.send(f"t-{uuid.uuid4().hex}", b"v", timestamp_ms=time.time_ns() // 1_000_000)
        sent += 1
        time.sleep(0.005)
    with pytest.raises(DeliveryFailed, match="login to"):
        producer.close(10_000)
    cluster.close()
    assert sum(one.record_count for one in ended) == sent
    assert {one.end for one in ended} == {DeliveryEnd.NEVER_SENT}
    assert next(attempts) <= 4, "pauses of 1, 2 and 4 s: three logins in three seconds, and one to be sure"


def test_a_replaced_certificate_is_used_by_the_next_connection(
    server: SecuredKafka, words: Words, written: Config, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("rotated")
    stranger = Authority(folder, "stranger-ca")
    certificate, key = stranger.issue("client")
    settings = words("TLS", None) | {"ssl.certfile": str(certificate), "ssl.keyfile": str(key)}
    cluster = Cluster(server.address("MTLS"), request_timeout_ms=15_000, security=written(settings))
    with pytest.raises(TlsFailed):
        cluster.topics()
    fresh_certificate, fresh_key = authority.issue("fresh")
    shutil.copy(fresh_certificate, certificate)
    # Between the two writes of a rotation certificate and key do not belong together.
    with pytest.raises(ClientError):
        cluster.topics()
    shutil.copy(fresh_key, key)
    assert isinstance(cluster.topics(), list)
    cluster.close()


def test_a_session_is_renewed_on_the_same_connection(server: SecuredKafka, words: Words) -> None:
    """KIP-368: the broker ends a connection whose session is over when the next request comes."""
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"):
        settings = words("SHORT", mechanism)
        cluster = Cluster(server.address("SHORT"), request_timeout_ms=15_000, security=settings)
        connection = cluster.controller()
        descriptor = connection._socket
        ends = connection._session_ends_at
        assert ends < float("inf")
        until = time.monotonic() + 7
        while time.monotonic() < until:
            cluster.topics()
            time.sleep(0.05)
        assert connection._socket is descriptor, mechanism
        assert connection._session_ends_at > ends
        cluster.close()


def test_a_session_whose_renewal_is_refused_ends(server: SecuredKafka, words: Words, written: Config) -> None:
    settings = words("SHORT", "PLAIN")
    path = written(settings)
    cluster = Cluster(server.address("SHORT"), request_timeout_ms=15_000, security=path)
    cluster.topics()
    written(settings | {"sasl.password": "replaced"})

    def is_refused() -> bool:
        try:
            cluster.topics()
        except AuthenticationFailed:
            return True
        except BrokerUnreachable:
            pass
        return False

    eventually(is_refused, within_ms=15_000)
    written(settings)
    assert isinstance(cluster.topics(), list)
    cluster.close()


def test_a_consumer_waits_for_credentials_that_were_good_and_reads_on_with_new_ones(
    server: SecuredKafka, words: Words, written: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: a member of a group ended when its login was refused, though the file had a good password again a minute later."""
    settings = words("SHORT", "PLAIN")
    monkeypatch.setenv(VARIABLE, str(written(settings)))
    topic = f"t-{uuid.uuid4().hex[:8]}"
    cluster = Cluster(server.address("SHORT"), request_timeout_ms=15_000)
    create_topic(cluster, topic, partitions=1)
    producer = Producer(cluster, linger_ms=0)
    consumer = GroupConsumer(server.address("SHORT"), topic, [topic], session_timeout_ms=10_000)

    def is_read(value: bytes) -> bool:
        message = consumer.poll(200)
        return message is not None and message.value == value

    def is_troubled() -> bool:
        assert consumer.poll(200) is None
        return isinstance(consumer.trouble, AuthenticationFailed)

    try:
        consumer.start()
        producer.send(topic, b"before", timestamp_ms=1)
        producer.flush(30_000)
        eventually(lambda: is_read(b"before"), within_ms=60_000)
        written(settings | {"sasl.password": "wrong-secret"})
        eventually(is_troubled, within_ms=60_000, what="the refusal told")
        written(settings)
        producer.send(topic, b"after", timestamp_ms=2)
        producer.flush(30_000)
        eventually(lambda: is_read(b"after"), within_ms=60_000)
        eventually(lambda: consumer.poll(200) is None and consumer.trouble is None, within_ms=60_000)
    finally:
        consumer.close()
        producer.close(5_000)
        cluster.close()
