"""Apache Kafka, one KRaft node, with a listener for each way to be secured."""

import subprocess
from pathlib import Path

from bench.harness.child import BenchFault, free_port
from bench.peers.kafka import Kafka
from tests.support.certificates import Authority
from tests.support.token_endpoint import AUDIENCE, ISSUER, TokenEndpoint

USER, PASSWORD = "alice", 'alice,=" \\secret'
SCRAM_PASSWORD = "scram-secret-88"
CLIENT, CLIENT_SECRET = "headrace-client", "token-secret-7261"
SHORT_SESSION_MS = 3_000

_SECURITY = "org.apache.kafka.common.security"
_VALIDATOR = f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_PROTOCOLS = {
    "CLEAR": "PLAINTEXT",
    "SASLCLEAR": "SASL_PLAINTEXT",
    "SASLTLS": "SASL_SSL",
    "SHORT": "SASL_PLAINTEXT",
    "TLS": "SSL",
    "MTLS": "SSL",
    "SCRAMONLY": "SASL_PLAINTEXT",
}
"""Listener → its protocol. SHORT's sessions last `SHORT_SESSION_MS`; MTLS wants a client's certificate."""


class SecuredKafka(Kafka):
    def __init__(self, folder: Path, authority: Authority, endpoint: TokenEndpoint) -> None:
        super().__init__(folder)
        self.authority = authority
        self._endpoint = endpoint
        self.ports = {name: free_port() for name in _PROTOCOLS} | {"CLEAR": self.port}
        certificate, key = authority.issue("broker", hosts=("127.0.0.1", "localhost"))
        self._store = folder.parent / "broker-store.pem"
        self._store.write_bytes(key.read_bytes() + certificate.read_bytes())

    def address(self, listener: str) -> str:
        """Return host:port of a listener. The name, so that it is checked against the certificate."""
        return f"localhost:{self.ports[listener]}"

    def prepare(self) -> None:
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        advertised = ",".join(f"{name}://localhost:{port}" for name, port in self.ports.items())
        protocols = ",".join(f"{name}:{protocol}" for name, protocol in _PROTOCOLS.items())
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": advertised,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "CLEAR",
            "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.file),
            "listener.name.mtls.ssl.client.auth": "required",
            "connection.failed.authentication.delay.ms": "50",
        }
        for listener in ("saslclear", "sasltls", "short", "scramonly"):
            settings |= self._login(f"listener.name.{listener}", _MECHANISMS if listener != "scramonly" else ("SCRAM-SHA-512",))
        for mechanism in _MECHANISMS:
            settings[f"listener.name.short.{mechanism.lower()}.connections.max.reauth.ms"] = str(SHORT_SESSION_MS)
        Path(self._properties).write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        scram = [
            word
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for word in ("--add-scram", f'{mechanism}=[name="{USER}",iterations=4096,password="{SCRAM_PASSWORD}"]')
        ]
        identity = "MkU3OEVBNTcwNTJENDM2Qg"
        done = subprocess.run(
            self._java("kafka.tools.StorageTool", "format", "-t", identity, "-c", self._properties, "--ignore-formatted", *scram),
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise BenchFault(f"Kafka's StorageTool refused to format: {(done.stdout + done.stderr)[-2000:]}")

    def command(self) -> list[str]:
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self._endpoint.jwks_url}"
        return self._java("kafka.Kafka", self._properties, "-Xmx512m", allowed)

    def _login(self, prefix: str, mechanisms: tuple[str, ...]) -> dict[str, str]:
        quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"').replace("\\", "\\\\")
        return {
            f"{prefix}.sasl.enabled.mechanisms": ",".join(mechanisms),
            f"{prefix}.plain.sasl.jaas.config": f'{_SECURITY}.plain.PlainLoginModule required user_{USER}="{quoted}";',
            f"{prefix}.scram-sha-256.sasl.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required;",
            f"{prefix}.scram-sha-512.sasl.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required;",
            f"{prefix}.oauthbearer.sasl.jaas.config": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required;",
            f"{prefix}.oauthbearer.sasl.server.callback.handler.class": _VALIDATOR,
            f"{prefix}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": self._endpoint.jwks_url,
            f"{prefix}.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{prefix}.oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
        }
