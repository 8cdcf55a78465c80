"""One Apache Kafka for all tests of this folder, and client configurations for its listeners."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.security.secured_kafka import CLIENT, CLIENT_SECRET, PASSWORD, SCRAM_PASSWORD, USER, SecuredKafka
from tests.support.certificates import Authority
from tests.support.token_endpoint import TokenEndpoint

Config = Callable[..., Path]


@pytest.fixture(scope="session")
def endpoint() -> Iterator[TokenEndpoint]:
    made = TokenEndpoint({CLIENT: CLIENT_SECRET})
    yield made
    made.close()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, authority: Authority, endpoint: TokenEndpoint) -> Iterator[SecuredKafka]:
    made = SecuredKafka(tmp_path_factory.mktemp("kafka") / "server", authority, endpoint)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def words(authority: Authority, endpoint: TokenEndpoint) -> Callable[[str, str | None], dict[str, str]]:
    """Returns the settings that are right for a listener and a mechanism."""

    def settings(listener: str, mechanism: str | None) -> dict[str, str]:
        found = {"security.protocol": "SSL" if mechanism is None else "SASL_PLAINTEXT"}
        if mechanism is not None:
            found["sasl.mechanism"] = mechanism
        if listener == "SASLTLS":
            found["security.protocol"] = "SASL_SSL"
        if listener in ("SASLTLS", "TLS", "MTLS"):
            found["ssl.ca.location"] = str(authority.file)
        if listener == "MTLS":
            certificate, key = authority.issue("client", password="key-secret-4")
            found |= {
                "ssl.certificate.location": str(certificate),
                "ssl.key.location": str(key),
                "ssl.key.password": "key-secret-4",
            }
        if mechanism == "OAUTHBEARER":
            found |= {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": endpoint.url,
                "sasl.oauthbearer.client.id": CLIENT,
                "sasl.oauthbearer.client.secret": CLIENT_SECRET,
            }
        elif mechanism is not None:
            found |= {"sasl.username": USER, "sasl.password": PASSWORD if mechanism == "PLAIN" else SCRAM_PASSWORD}
        return found

    return settings


@pytest.fixture
def written(tmp_path: Path) -> Config:
    """Writes settings as a properties file."""

    def write(settings: dict[str, str], name: str = "client.properties") -> Path:
        path = tmp_path / name
        escaped = {key: value.replace("\\", "\\\\") for key, value in settings.items()}
        path.write_text("".join(f"{key}={value}\n" for key, value in escaped.items()))
        path.chmod(0o600)
        return path

    return write


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/security/" in str(item.path):
            item.add_marker(pytest.mark.needs("kafka"))
