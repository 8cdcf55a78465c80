"""What a client configuration says, checked: every fault is named at once. Reads no file and no clock."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ..errors import ClientConfigRefused
from . import jaas
from .names import CANONICAL, IGNORED_PREFIX, INSTEAD, MECHANISMS, NAMES, PROTOCOLS
from .secret_value import Secret

_LOOPBACKS = ("localhost", "127.0.0.1", "::1")
_ADDRESS = re.compile(r"[^\s:,]+:\d{1,5}|\[[0-9a-fA-F:.%]+\]:\d{1,5}")
_EXTENSION = re.compile("[A-Za-z]+")
_JAAS_NAMES = {
    "username": "sasl.username",
    "password": "sasl.password",
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_OAUTH_HANDLER = "OAuthBearerLoginCallbackHandler"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Certificates as paths of PEM files, or as PEM text."""

    ca_file: str | None = None
    """The CAs that may have signed the broker's certificate; with neither this nor `ca_pem` the system's."""
    ca_pem: str | None = None
    certificate_file: str | None = None
    certificate_pem: str | None = None
    key_file: str | None = None
    """None: the key is in `certificate_file`, as Kafka's PEM key stores have it."""
    key_pem: Secret | None = None
    key_password: Secret | None = None
    checks_host: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthSettings:
    """The client credentials grant (RFC 6749, section 4.4)."""

    token_url: str
    client_id: str
    client_secret: Secret
    scope: str | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)
    """Sent to the broker with the token (KIP-342)."""
    is_urlencoded: bool = False
    """Whether id and secret are URL-encoded in the header, as RFC 6749 wants and Kafka does not by default."""
    ca_file: str | None = None
    """CAs of the token endpoint; None: the system's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    """One checked client configuration."""

    bootstrap_servers: tuple[str, ...] = ()
    """The cluster that this configuration is for; empty: for any."""
    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str = ""
    password: Secret = field(default_factory=lambda: Secret(""))
    tls: TlsSettings = field(default_factory=TlsSettings)
    oauth: OAuthSettings | None = None

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")


def from_words(words: Mapping[str, str], *, where: str) -> SecuritySettings:
    """Return the settings of a file's names and values. Raises `ClientConfigRefused` with every fault; no fault holds a value
    that may be secret.
    """
    faults: list[str] = []
    given = _canonical(words, faults)
    _put_jaas(given, faults)
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        faults.append(f"security.protocol={protocol} is none of {', '.join(PROTOCOLS)}")
    else:
        _check_belongs(given, protocol, faults)
    made = SecuritySettings(
        bootstrap_servers=_addresses(given, faults),
        protocol=protocol,
        mechanism=_mechanism(given, protocol, faults),
        username=given.get("sasl.username", ""),
        password=Secret(given.get("sasl.password", "")),
        tls=_tls(given, faults),
        oauth=_oauth(given, faults) if given.get("sasl.mechanism", "").upper() == "OAUTHBEARER" else None,
    )
    if faults:
        raise ClientConfigRefused(where, faults)
    return made


def _canonical(words: Mapping[str, str], faults: list[str]) -> dict[str, str]:
    """Return the values under the first of each setting's names."""
    given: dict[str, str] = {}
    written: dict[str, str] = {}
    for name, value in words.items():
        if name.startswith(IGNORED_PREFIX):
            continue
        canonical = CANONICAL.get(name)
        if canonical is None:
            faults.append(f"{name}: {INSTEAD.get(name) or _unknown(name)}")
        elif canonical in given and given[canonical] != value:
            faults.append(f"{name} and {written[canonical]} mean the same and have different values: keep one of them")
        else:
            given[canonical], written[canonical] = value.strip() if canonical != "sasl.password" else value, name
    return given


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, CANONICAL, n=1)
    return "is no setting of a client's security" + (f": did you mean {close[0]}?" if close else f"; known: {', '.join(NAMES)}")


def _put_jaas(given: dict[str, str], faults: list[str]) -> None:
    """Put the options of `sasl.jaas.config` in the place of the settings that mean the same."""
    text = given.get("sasl.jaas.config")
    if text is None:
        return
    try:
        module, options = jaas.parse(text)
    except jaas.BadJaas as error:
        faults.append(f"sasl.jaas.config: {error}")
        return
    mechanism = given.get("sasl.mechanism", "").upper()
    if mechanism in MECHANISMS and mechanism not in jaas.MODULES[module]:
        faults.append(f"sasl.jaas.config names {module}, and sasl.mechanism is {mechanism}: they do not belong together")
    extensions = {name.removeprefix("extension_"): options[name] for name in options if name.startswith("extension_")}
    if extensions and "sasl.oauthbearer.extensions" not in given:
        given["sasl.oauthbearer.extensions"] = ",".join(f"{name}={value}" for name, value in extensions.items())
    for option, value in options.items():
        name = _JAAS_NAMES.get(option)
        if option.startswith("extension_"):
            continue
        if name is None:
            faults.append(f"sasl.jaas.config: option {option} is not known; known: {', '.join(_JAAS_NAMES)}, extension_…")
        elif name in given and given[name] != value:
            faults.append(f"{name} and sasl.jaas.config's {option} have different values: keep one of them")
        else:
            given[name] = value


def _check_belongs(given: Mapping[str, str], protocol: str, faults: list[str]) -> None:
    for prefix, part in (("sasl.", "SASL"), ("ssl.", "SSL")):
        names = sorted(name for name in given if name.startswith(prefix))
        if names and part not in protocol.split("_"):
            better = [one for one in PROTOCOLS if part in one.split("_") and one != protocol]
            faults.append(
                f"{', '.join(names)}: not used with security.protocol={protocol}"
                f"{'' if 'security.protocol' in given else ' (the default)'}: "
                f"write security.protocol={' or '.join(better)}, or leave {'them' if len(names) > 1 else 'it'} out"
            )


def _addresses(given: Mapping[str, str], faults: list[str]) -> tuple[str, ...]:
    words = [word.strip() for word in given.get("bootstrap.servers", "").split(",") if word.strip()]
    faults += [f"bootstrap.servers: {word!r} is not host:port" for word in words if not _ADDRESS.fullmatch(word)]
    return tuple(words)


def _mechanism(given: Mapping[str, str], protocol: str, faults: list[str]) -> str | None:
    if not protocol.startswith("SASL_"):
        return None
    mechanism = given.get("sasl.mechanism", "").upper()
    if mechanism not in MECHANISMS:
        said = f"sasl.mechanism={given['sasl.mechanism']}" if "sasl.mechanism" in given else "sasl.mechanism is not given, and"
        faults.append(f"{said} is none of {', '.join(MECHANISMS)}")
        return None
    if mechanism != "OAUTHBEARER":
        for name in ("sasl.username", "sasl.password"):
            if not given.get(name):
                faults.append(f"{name} is missing or empty: sasl.mechanism={mechanism} needs it (or sasl.jaas.config has it)")
        for name in sorted(name for name in given if name.startswith("sasl.oauthbearer.")):
            faults.append(f"{name}: not used with sasl.mechanism={mechanism}")
    elif names := sorted({"sasl.username", "sasl.password"} & set(given)):
        faults.append(f"{', '.join(names)}: not used with sasl.mechanism=OAUTHBEARER, which has a client id and a client secret")
    for name in ("sasl.username", "sasl.password"):
        if "\0" in given.get(name, ""):
            faults.append(f"{name} holds a NUL character, which no mechanism can carry")
    return mechanism


def _tls(given: Mapping[str, str], faults: list[str]) -> TlsSettings:
    for name in ("ssl.truststore.type", "ssl.keystore.type"):
        if given.get(name, "PEM").upper() != "PEM":
            faults.append(
                f"{name}={given[name]}: only PEM files are read; turn a PKCS12 store into PEM with `openssl pkcs12 -in … -out …`"
            )
    for name in ("ssl.cafile", "ssl.keystore.location", "ssl.certfile"):
        if given.get(name, "").lower().endswith((".jks", ".p12", ".pfx")):
            faults.append(f"{name}={given[name]}: only PEM files are read; turn it into one with keytool or openssl")
    store = given.get("ssl.keystore.location")
    own = [name for name in ("ssl.certfile", "ssl.keyfile", "ssl.certificate.pem", "ssl.key.pem") if name in given]
    if store is not None and own:
        faults.append(f"ssl.keystore.location and {', '.join(own)}: both name the client's certificate: keep one of them")
    for one, other in (("ssl.cafile", "ssl.ca.pem"), ("ssl.certfile", "ssl.certificate.pem"), ("ssl.keyfile", "ssl.key.pem")):
        if one in given and other in given:
            faults.append(f"{one} and {other}: one names a file, one holds the text: keep one of them")
    has_certificate = store is not None or "ssl.certfile" in given or "ssl.certificate.pem" in given
    if not has_certificate and ("ssl.keyfile" in given or "ssl.key.pem" in given or "ssl.key.password" in given):
        faults.append("there is a key, or its password, and no certificate: give ssl.certfile or ssl.keystore.location")
    if "ssl.certificate.pem" in given and "ssl.key.pem" not in given:
        faults.append("ssl.certificate.pem needs ssl.key.pem beside it")
    algorithm = given.get("ssl.endpoint.identification.algorithm", "https").lower()
    if algorithm not in ("https", "", "none"):
        faults.append(f"ssl.endpoint.identification.algorithm={algorithm} is neither https nor empty nor none")
    key_pem, password = given.get("ssl.key.pem"), given.get("ssl.key.password")
    return TlsSettings(
        ca_file=given.get("ssl.cafile"),
        ca_pem=given.get("ssl.ca.pem"),
        certificate_file=store or given.get("ssl.certfile"),
        certificate_pem=given.get("ssl.certificate.pem"),
        key_file=given.get("ssl.keyfile"),
        key_pem=None if key_pem is None else Secret(key_pem),
        key_password=None if password is None else Secret(password),
        checks_host=algorithm == "https",
    )


def _oauth(given: Mapping[str, str], faults: list[str]) -> OAuthSettings:
    url = given.get("sasl.oauthbearer.token.endpoint.url", "")
    faults += _faults_of_url(url)
    if given.get("sasl.oauthbearer.method", "oidc").lower() != "oidc":
        faults.append("sasl.oauthbearer.method: only oidc (client credentials at a token endpoint) is spoken")
    handler = given.get("sasl.login.callback.handler.class", _OAUTH_HANDLER)
    if not handler.endswith(_OAUTH_HANDLER):
        faults.append(f"sasl.login.callback.handler.class={handler}: no Java class is run here; {_OAUTH_HANDLER}'s work is done")
    for name in ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"):
        if not given.get(name):
            faults.append(f"{name} is missing or empty: sasl.mechanism=OAUTHBEARER needs it (or sasl.jaas.config has it)")
    encode = given.get("sasl.oauthbearer.header.urlencode", "false").lower()
    if encode not in ("true", "false"):
        faults.append(f"sasl.oauthbearer.header.urlencode={encode} is neither true nor false")
    extensions: dict[str, str] = {}
    for word in filter(None, (word.strip() for word in given.get("sasl.oauthbearer.extensions", "").split(","))):
        name, equals, value = word.partition("=")
        if not equals or not _EXTENSION.fullmatch(name) or name == "auth" or not value.isprintable():
            faults.append("sasl.oauthbearer.extensions: write name=value[,name=value…], names of letters, `auth` is taken")
        extensions[name] = value
    return OAuthSettings(
        token_url=url,
        client_id=given.get("sasl.oauthbearer.client.id", ""),
        client_secret=Secret(given.get("sasl.oauthbearer.client.secret", "")),
        scope=given.get("sasl.oauthbearer.scope") or None,
        extensions=extensions,
        is_urlencoded=encode == "true",
        ca_file=given.get("https.ca.location"),
    )


def _faults_of_url(url: str) -> list[str]:
    name = "sasl.oauthbearer.token.endpoint.url"
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        return [f"{name} is not a URL"]
    if not url:
        return [f"{name} is missing: sasl.mechanism=OAUTHBEARER gets its tokens there"]
    if parts.username or parts.password:
        return [f"{name} holds credentials: give them as sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret"]
    if not host or parts.scheme not in ("https", "http"):
        return [f"{name}={url} is not an https:// address"]
    if parts.scheme == "http" and host not in _LOOPBACKS:
        return [f"{name}={url}: the client secret would travel unencrypted: only https://, or http:// on the loopback"]
    return []
