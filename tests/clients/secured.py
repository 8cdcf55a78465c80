"""A broker for clients in other languages that log in: the user alice, tokens, listeners with a login and with certificates."""

from collections.abc import Mapping
from pathlib import Path

from headrace.coordination.session import Session
from headrace.coordination.users import UserRegistry
from tests.support.broker import BrokerProcess
from tests.support.certificates import Authority
from tests.support.login_broker import stored
from tests.support.processes import free_port
from tests.support.tls_broker import keystore
from tests.support.token_endpoint import AUDIENCE, ISSUER, TokenEndpoint

SESSION_MS = 1_500


class SecuredBroker(BrokerProcess):
    """Sessions end after `SESSION_MS`, so that each client has to renew its own."""

    def __init__(self, folder: Path, zookeeper: str) -> None:
        self.authority = Authority(folder / "authority")
        self._tokens = TokenEndpoint({})
        self.ports = {name: free_port() for name in ("LOGIN", "MTLS")}
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        settings = {
            "listeners": listeners,
            "advertised.listeners": listeners.replace("127.0.0.1", "localhost"),
            "listener.security.protocol.map": "LOGIN:SASL_SSL,MTLS:SSL",
            "inter.broker.listener.name": "MTLS",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": self._tokens.jwks_url,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "connections.max.reauth.ms": SESSION_MS,
            "ssl.keystore.location": keystore(self.authority),
            "ssl.truststore.location": self.authority.file,
            "ssl.client.auth": "required",
            "num.partitions": 1,
        }
        session = Session(zookeeper, name="test").start()
        try:
            UserRegistry(session).change("alice", lambda _: stored("secret", "SCRAM-SHA-256", "SCRAM-SHA-512"))
        finally:
            session.close()
        self.certificate, self.key = self.authority.issue("client")
        super().__init__(folder, zookeeper, port=self.ports["LOGIN"], settings=settings)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._tokens.close()

    @property
    def words(self) -> Mapping[str, str]:
        """What the tests in other languages read from their environment."""
        store = self.authority.folder / "client-store.pem"
        store.write_bytes(self.key.read_bytes() + self.certificate.read_bytes())
        return {
            "SECURED": f"localhost:{self.ports['LOGIN']}",
            "MTLS": f"localhost:{self.ports['MTLS']}",
            "CA": str(self.authority.file),
            "CERTIFICATE": str(self.certificate),
            "KEY": str(self.key),
            "KEYSTORE": str(store),
            "TOKEN": self._tokens.token_for("alice", life_s=3_600),
        }
