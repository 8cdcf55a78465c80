"""The TLS settings of a broker, under Kafka's names. Pure: opens no file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .listener_settings import PREFIX, Values, in_force
from .listeners import Listener
from .principal_rules import DEFAULT_RULES, PrincipalRules

VERSIONS = ("TLSv1.2", "TLSv1.3")
CLIENT_AUTH = ("none", "requested", "required")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """The files and rules of one listener with TLS. Connections to other brokers have those of the listener for brokers."""

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


def tls_settings(
    values: Values,
    of_listeners: Mapping[str, Values],
    listeners: Sequence[Listener],
    faults: list[str],
) -> dict[str, TlsSettings]:
    """Return the settings of the listeners with TLS by name. Each value has been checked alone (`definitions`).

    `of_listeners`: the listeners' own values (`listener_settings`). Clients of a listener with a login need no certificate,
    unless the listener's own ssl.client.auth says so, as in Kafka (KIP-684).
    """
    return {
        one.name: _of_listener(one, in_force(values, of_listeners, one.name), of_listeners, faults)
        for one in listeners
        if one.has_tls
    }


def _of_listener(
    listener: Listener,
    values: Values,
    of_listeners: Mapping[str, Values],
    faults: list[str],
) -> TlsSettings:
    own = of_listeners.get(listener.name, {})
    keystore, truststore = values["ssl.keystore.location"], values["ssl.truststore.location"]
    client_auth = values["ssl.client.auth"] or "none"
    if listener.has_login and "ssl.client.auth" not in own:
        client_auth = "none"
    if keystore is None:
        faults.append(
            f"ssl.keystore.location is not given: TLS needs a file with the broker's key and certificate chain (PEM). "
            f"{PREFIX}{listener.name.lower()}.ssl.keystore.location is for the listener {listener.name} alone"
        )
    if client_auth != "none" and truststore is None:
        faults.append(
            f"ssl.client.auth={client_auth} of the listener {listener.name} needs ssl.truststore.location: "
            "the CAs of the clients' certificates (PEM)"
        )
    return TlsSettings(
        keystore=Path(keystore or ""),
        key_password=values["ssl.key.password"],
        truststore=None if truststore is None else Path(truststore),
        client_auth=client_auth,
        versions=tuple(one.strip() for one in (values["ssl.enabled.protocols"] or "").split(",")),
        principal_rules=PrincipalRules.parse(values["ssl.principal.mapping.rules"] or "DEFAULT"),
        checks_host_names=(values["ssl.endpoint.identification.algorithm"] or "none").lower() == "https",
    )
