"""How a session speaks to ZooKeeper: TLS, this process's certificate, and whether nodes get rights.

A properties file under Kafka's names (`zookeeper.ssl.…`, `zookeeper.set.acl`), which `HEADRACE_ZOOKEEPER_CONFIG` or the flag
`--zookeeper-config` names; a broker takes the same names in its own file. Without any, sessions speak in the clear, and everyone
may change every node, as before.

ZooKeeper knows a client by the name in its certificate. `zookeeper.acl.identities` says which of our roles has which name;
`node_rights` says what each role may do. The files are read for each new connection, so a renewed certificate needs no restart.
"""

import os
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .errors import ZooKeeperConfigRefused

VARIABLE = "HEADRACE_ZOOKEEPER_CONFIG"
BROKER, OPERATOR, REGISTRY, MIRROR, READER = "broker", "operator", "registry", "mirror", "reader"
ROLES = (BROKER, OPERATOR, REGISTRY, MIRROR, READER)
"""Those who open sessions. The names of their certificates are `CN=headrace-ROLE`, unless a setting says otherwise."""

ENABLE = "zookeeper.ssl.client.enable"
KEYSTORE = "zookeeper.ssl.keystore.location"
KEY_PASSWORD = "zookeeper.ssl.keystore.password"
TRUSTSTORE = "zookeeper.ssl.truststore.location"
HOST_NAMES = "zookeeper.ssl.endpoint.identification.algorithm"
SET_ACL = "zookeeper.set.acl"
IDENTITIES = "zookeeper.acl.identities"
NAMES = (ENABLE, KEYSTORE, KEY_PASSWORD, TRUSTSTORE, HOST_NAMES, SET_ACL, IDENTITIES)

_IDENTITY = re.compile(r"([a-z]+):(.+=.+)")


def default_identities() -> dict[str, tuple[str, ...]]:
    """Return the names that certificates of `headrace security init` have, by role."""
    return {role: (f"CN=headrace-{role}",) for role in ROLES}


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSecurity:
    """The settings of one process."""

    truststore: Path
    """PEM: the CAs of ZooKeeper's certificates."""
    keystore: Path | None = None
    """PEM: this process's key and certificate chain. None: it shows no certificate."""
    key_password: str | None = field(default=None, repr=False)
    checks_host_names: bool = True
    sets_rights: bool = False
    """Whether nodes that this process makes may be changed by their roles only."""
    identities: Mapping[str, Sequence[str]] = field(default_factory=default_identities)

    def context(self) -> ssl.SSLContext:
        """Return a new context from the files as they are now. Raises OSError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.checks_host_names
        context.load_verify_locations(self.truststore)
        if self.keystore is not None:
            # Without a password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(self.keystore, password=self.key_password or "")
        return context


def security_of(values: Mapping[str, str | None], where: str, *, faults: list[str]) -> ZooKeeperSecurity | None:
    """Return the settings in `values`; None where TLS is not turned on. Adds to `faults`; no value of a secret is in them."""
    if (values.get(ENABLE) or "false").lower() != "true":
        strange = values.get(ENABLE) not in (None, "", "false")
        if strange or (values.get(SET_ACL) or "false") == "true":
            what = f"{ENABLE} is neither true nor false" if strange else f"{SET_ACL}=true needs {ENABLE}=true"
            faults.append(f"{what}: ZooKeeper knows clients by their certificates ({where})")
        return None
    truststore, keystore = values.get(TRUSTSTORE), values.get(KEYSTORE)
    if not truststore:
        faults.append(f"{TRUSTSTORE} is not given: a PEM file with the CAs of ZooKeeper's certificates ({where})")
    sets_rights = (values.get(SET_ACL) or "false").lower() == "true"
    if sets_rights and not keystore:
        faults.append(f"{SET_ACL}=true needs {KEYSTORE}: a PEM file with this process's key and certificate ({where})")
    return ZooKeeperSecurity(
        truststore=Path(truststore or ""),
        keystore=Path(keystore) if keystore else None,
        key_password=values.get(KEY_PASSWORD) or None,
        checks_host_names=(values.get(HOST_NAMES, "https") or "none").lower() == "https",
        sets_rights=sets_rights,
        identities=_identities(values.get(IDENTITIES) or "", where, faults),
    )


def of_file(path: Path) -> ZooKeeperSecurity | None:
    """Return what a properties file says. Raises ZooKeeperConfigRefused with every fault."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ZooKeeperConfigRefused(str(path), [f"it cannot be read: {type(error).__name__}"]) from None
    faults: list[str] = []
    values: dict[str, str | None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            faults.append(f"line {number} is not name=value")  # not repeated: it may be a password
        elif name.strip() not in NAMES:
            faults.append(f"line {number}: there is no setting {name.strip()[:80]!r}; there are {', '.join(NAMES)}")
        else:
            values[name.strip()] = value.strip()
    found = security_of(values, str(path), faults=faults)
    if found is not None and not faults:
        faults += _unusable(found)
    if faults:
        raise ZooKeeperConfigRefused(str(path), faults)
    return found


def of_environment(environment: Mapping[str, str] | None = None) -> ZooKeeperSecurity | None:
    """Return what the file that `HEADRACE_ZOOKEEPER_CONFIG` names says; None without one. Raises ZooKeeperConfigRefused."""
    named = (os.environ if environment is None else environment).get(VARIABLE)
    return of_file(Path(named)) if named else None


def _unusable(security: ZooKeeperSecurity) -> list[str]:
    try:
        security.context()
    except (OSError, ValueError) as error:
        files = " and ".join(str(path) for path in (security.truststore, security.keystore) if path is not None)
        return [f"{files} cannot be used: {error}"]
    return []


def _identities(text: str, where: str, faults: list[str]) -> dict[str, tuple[str, ...]]:
    given: dict[str, tuple[str, ...]] = {}
    for one in filter(None, (part.strip() for part in text.split(";"))):
        found = _IDENTITY.fullmatch(one)
        if found is None or found[1] not in ROLES:
            faults.append(
                f"{IDENTITIES}: {one!r} is not ROLE:NAME, such as reader:CN=shop, with one of {', '.join(ROLES)} ({where})"
            )
        else:
            given[found[1]] = (*given.get(found[1], ()), found[2])
    return default_identities() | given
