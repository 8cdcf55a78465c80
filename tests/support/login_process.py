"""A broker process whose listeners want logins over TLS, and the command that adds its users."""

from pathlib import Path

from headrace.cli.main import main
from tests.support.broker import BrokerProcess
from tests.support.certificates import Authority
from tests.support.processes import free_port
from tests.support.tls_broker import keystore
from tests.support.token_endpoint import AUDIENCE, ISSUER, TokenEndpoint

NAMES = ("TLS", "INNER")
PASSWORD = 'alice,=" \\secret'
PLANTED = "planted-inner-7261"
CLIENT = "headrace-client"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")


class LoggedIn(BrokerProcess):
    """A broker process with a SASL_SSL listener for clients and one for brokers; `ports` by their names."""

    def __init__(
        self, folder: Path, zookeeper: str, number: int, authority: Authority, endpoint: TokenEndpoint, **more: object
    ) -> None:
        self.ports = {name: free_port() for name in NAMES}
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        words = {
            "listeners": listeners,
            "advertised.listeners": listeners.replace("127.0.0.1", "localhost"),
            "listener.security.protocol.map": "TLS:SASL_SSL,INNER:SASL_SSL",
            "inter.broker.listener.name": "INNER",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.inner.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.inter.broker.username": "broker",
            "ssl.keystore.location": keystore(authority, f"broker-{number}"),
            "ssl.truststore.location": authority.file,
            "sasl.oauthbearer.jwks.endpoint.url": endpoint.jwks_url,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        environment = {"HEADRACE_BROKER_SASL_INTER_BROKER_PASSWORD": PLANTED}
        super().__init__(
            folder / str(number), zookeeper, broker_id=number, port=self.ports["TLS"], settings=words, environment=environment
        )


def user(folder: Path, *words: str, password: str | None = None) -> int:
    """Run `headrace user`."""
    if password is not None:
        (folder / "password").write_text(password + "\n")
        words = (*words, "--password-file", str(folder / "password"))
    return main(["user", *words])
