"""The settings of logins (SASL), under Kafka's names where it has them. Pure: opens no file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from .listener_settings import MECHANISMS_SETTING, Values, in_force
from .listeners import Listener, split

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
MECHANISMS = (*SCRAM, PLAIN, OAUTHBEARER)
DEFAULT_MECHANISMS = ",".join(reversed(SCRAM))
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Signatures with a public key. There is none with a shared secret: a public key must never be taken for one."""
DEFAULT_ALGORITHMS = "RS256,PS256,ES256"


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthSettings:
    """What a token must show."""

    jwks_url: str
    jwks_ca: Path | None
    """CAs of the server of the keys; None: the system's."""
    issuer: str
    audience: str
    algorithms: Sequence[str]
    skew_ms: int
    refresh_ms: int
    """The keys are fetched again after this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BetweenBrokers:
    """How this broker logs in to other brokers."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSettings:
    """Who may log in, and how."""

    mechanisms: Mapping[str, Sequence[str]]
    """By the listener's name: what its clients may log in with."""
    max_reauth_ms: int
    """A session ends after this time, unless the client logs in again. 0: never."""
    failed_delay_ms: int
    oauth: OAuthSettings | None
    between: BetweenBrokers | None
    """None: this broker asks others nothing where that wants a login."""


def login_settings(
    values: Mapping[str, str | None],
    numbers: Mapping[str, int],
    listeners: Sequence[Listener],
    inter_broker: str,
    of_listeners: Mapping[str, Values],
    faults: list[str],
) -> LoginSettings | None:
    """Return the settings, None where no listener wants a login. Each value has been checked alone (`definitions`).

    `of_listeners`: the listeners' own values (`listener_settings`).
    """
    names = {one.name: one for one in listeners if one.has_login}
    mechanisms: dict[str, Sequence[str]] = {
        name: tuple(split(in_force(values, of_listeners, name)[MECHANISMS_SETTING] or "")) for name in names
    }
    if not names:
        return None
    wants_tokens = any(OAUTHBEARER in one for one in mechanisms.values())
    return LoginSettings(
        mechanisms=mechanisms,
        max_reauth_ms=numbers["connections_max_reauth_ms"],
        failed_delay_ms=numbers["connection_failed_authentication_delay_ms"],
        oauth=_oauth(values, numbers, faults) if wants_tokens else None,
        between=_between(values, mechanisms[inter_broker], faults) if inter_broker in names else None,
    )


def _oauth(values: Mapping[str, str | None], numbers: Mapping[str, int], faults: list[str]) -> OAuthSettings:
    wanted = {
        "sasl.oauthbearer.jwks.endpoint.url": "where the keys that sign tokens are",
        "sasl.oauthbearer.expected.issuer": "whose tokens are taken",
        "sasl.oauthbearer.expected.audience": "what tokens of this cluster are for",
    }
    faults.extend(f"{name} is not given: OAUTHBEARER needs it ({why})" for name, why in wanted.items() if not values[name])
    ca = values["sasl.oauthbearer.jwks.ca.location"]
    return OAuthSettings(
        jwks_url=values["sasl.oauthbearer.jwks.endpoint.url"] or "",
        jwks_ca=None if ca is None else Path(ca),
        issuer=values["sasl.oauthbearer.expected.issuer"] or "",
        audience=values["sasl.oauthbearer.expected.audience"] or "",
        algorithms=tuple(split(values["sasl.oauthbearer.algorithms"] or "")),
        skew_ms=numbers["oauth_clock_skew_seconds"] * 1_000,
        refresh_ms=numbers["oauth_jwks_refresh_ms"],
    )


def _between(values: Mapping[str, str | None], served: Sequence[str], faults: list[str]) -> BetweenBrokers | None:
    mechanism = values["sasl.mechanism.inter.broker.protocol"] or ""
    names = ("sasl.inter.broker.username", "sasl.inter.broker.password")
    if not any(values[name] for name in names):
        return None
    faults.extend(f"{name} is not given: a name and a password belong together" for name in names if not values[name])
    if mechanism not in served:
        faults.append(
            f"sasl.mechanism.inter.broker.protocol: {mechanism} is not one of the mechanisms of the listener for other brokers "
            f"({', '.join(served)})"
        )
    return BetweenBrokers(mechanism=mechanism, username=values[names[0]] or "", password=values[names[1]] or "")


def url_fault(value: str) -> str | None:
    """Return the fault of the address of keys, or None."""
    parts = urlsplit(value)
    if parts.scheme == "https" and parts.hostname:
        return None
    if parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost"):
        return None
    return f"{value!r} is not an https address (http is taken on the loopback only): others could give this broker their keys"
