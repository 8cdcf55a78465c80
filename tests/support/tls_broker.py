"""A broker in this process with one listener, which has TLS, and certificates for it."""

import ssl
from collections.abc import Mapping
from pathlib import Path

from tests.support.certificates import Authority
from tests.support.raw_kafka import RawClient
from tests.support.serving_broker import ServingBroker


def keystore(authority: Authority, name: str = "broker", *, is_expired: bool = False, password: str | None = None) -> Path:
    """Return a new PEM file with a key and its certificate, for the loopback."""
    certificate, key = authority.issue(name, hosts=("127.0.0.1", "localhost"), is_expired=is_expired, password=password)
    store = authority.folder / f"{name}-store.pem"
    store.write_bytes(key.read_bytes() + certificate.read_bytes())
    return store


def trusting(authority: Authority, own: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    """Return a client's context that trusts the authority and shows the certificate `own` (certificate, key)."""
    context = ssl.create_default_context(cafile=str(authority.file))
    if own is not None:
        context.load_cert_chain(*own)
    return context


class TlsBroker(ServingBroker):
    """A `ServingBroker` whose clients speak TLS."""

    def __init__(
        self,
        folder: Path,
        *,
        authority: Authority,
        topics: Mapping[str, int | tuple[int, dict[str, str]]] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        with_tls = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": keystore(authority), **(settings or {})}
        super().__init__(folder, topics=topics, settings=with_tls)
        self.authority = authority
        self.trust = trusting(authority)

    def client(self) -> RawClient:
        return RawClient(self.port, tls=self.trust)
