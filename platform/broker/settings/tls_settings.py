"""The TLS settings of a broker, under Kafka's names. Pure: opens no file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .principal_rules import DEFAULT_RULES, PrincipalRules

VERSIONS = ("TLSv1.2", "TLSv1.3")
CLIENT_AUTH = ("none", "requested", "required")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """The files and rules of all listeners with TLS, and of connections to other brokers."""

    keystore: Path
    """A private key and its certificate chain, in PEM."""
    key_password: str | None = field(default=None, repr=False)
    truststore: Path | None = None
    """CA certificates, in PEM. None: the system's, for other brokers only."""
    client_auth: str = "none"
    """One of `CLIENT_AUTH`: whether clients must show a certificate (mTLS)."""
    versions: tuple[str, ...] = VERSIONS
    checks_host_names: bool = True
    """Whether the certificate of another broker must name its host."""
    principal_rules: PrincipalRules = DEFAULT_RULES
    """How a client's certificate gives its principal's name."""


def tls_settings(values: Mapping[str, str | None], *, is_needed: bool, faults: list[str]) -> TlsSettings | None:
    """Return the settings, None without a listener that needs them. Each value has been checked alone (`definitions`)."""
    if not is_needed:
        return None
    keystore, truststore = values["ssl.keystore.location"], values["ssl.truststore.location"]
    client_auth = values["ssl.client.auth"] or "none"
    if keystore is None:
        faults.append("ssl.keystore.location is not given: TLS needs a file with the broker's key and certificate chain (PEM)")
    if client_auth != "none" and truststore is None:
        faults.append(f"ssl.client.auth={client_auth} needs ssl.truststore.location: the CAs of the clients' certificates (PEM)")
    return TlsSettings(
        keystore=Path(keystore or ""),
        key_password=values["ssl.key.password"],
        truststore=None if truststore is None else Path(truststore),
        client_auth=client_auth,
        versions=tuple(one.strip() for one in (values["ssl.enabled.protocols"] or "").split(",")),
        principal_rules=PrincipalRules.parse(values["ssl.principal.mapping.rules"] or "DEFAULT"),
        checks_host_names=(values["ssl.endpoint.identification.algorithm"] or "none").lower() == "https",
    )
