"""Makes the folder of a secured platform: a CA, and for each role its certificate, its password and the files that it reads.

    FOLDER/ca.pem, ca.key            the CA; the key signs only here, and stays here
    FOLDER/ROLE/keystore.pem         key and certificate, CN=headrace-ROLE
    FOLDER/ROLE/password             of the user ROLE (SCRAM)
    FOLDER/ROLE/login                ROLE:password, as registry and audit want it (HEADRACE_REGISTRY_LOGIN_FILE)
    FOLDER/ROLE/client.properties    how this role reaches brokers: for Kafka's tools and ours
    FOLDER/ROLE/zookeeper.properties how this role reaches ZooKeeper
    FOLDER/broker/broker.properties  lines for a broker's own file
    FOLDER/zookeeper/zoo.cfg         lines for ZooKeeper's own file

Every file is its owner's alone. What is there is kept: passwords always, certificates unless they are to be renewed.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...broker.settings.definitions import AUTHORIZERS
from ...coordination import security as zookeeper_settings
from ..supervisor import zookeeper
from .certificates import Authority, SecurityError, days_left, make_folder, write_secret
from .roles import ROLES, Role, role_of, super_users

DAYS = 825
RENEWED_FROM_DAYS = 30
"""A certificate that is valid for fewer days is renewed without being asked."""
LOCAL_HOSTS = ("localhost", "127.0.0.1")
MECHANISM = "SCRAM-SHA-512"
PASSWORD_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What one run has done."""

    issued: list[str] = field(default_factory=list)
    """Roles with a new certificate."""
    kept: list[str] = field(default_factory=list)
    """Roles whose certificate stays."""


def init(
    folder: Path,
    *,
    roles: Sequence[str] = (),
    hosts: Mapping[str, Sequence[str]] | None = None,
    installed: Path | None = None,
    days: int = DAYS,
    renews: bool = False,
) -> Made:
    """Make what is missing in the folder, and renew certificates. `roles`: these only; none: all. `hosts`: role → names of its
    machines. `installed`: where the folder is on the machines, for the paths in files.

    Raises SecurityError, also where there is nothing to do.
    """
    wanted = [role_of(name) for name in roles] if roles else list(ROLES)
    make_folder(folder)
    if (folder / "ca.pem").exists() or (folder / "ca.key").exists():
        authority = Authority.read(folder)
    elif any((folder / role.name).exists() for role in ROLES):
        raise SecurityError(f"{folder} has files of roles and no CA: put ca.pem and ca.key back, or name a folder that is empty")
    else:
        authority = Authority.made(folder)
    made, at = Made(), (installed or folder).absolute()
    for role in wanted:
        make_folder(folder / role.name)
        keystore = folder / role.name / "keystore.pem"
        is_new = not keystore.exists()
        if is_new or renews or days_left(keystore) < RENEWED_FROM_DAYS:
            its = (hosts or {}).get(role.name, LOCAL_HOSTS) if role.is_server else ()
            authority.issue(keystore, f"headrace-{role.name}", hosts=its, days=days)
            made.issued.append(role.name)
        else:
            made.kept.append(role.name)
        _write_files(folder / role.name, role, at)
    if not made.issued:
        raise SecurityError(
            f"nothing was made: {folder} has valid certificates of {', '.join(made.kept)}. --renew makes new ones; passwords stay"
        )
    return made


def make_current(folder: Path) -> None:
    """Make what is missing, and renew certificates that end soon. Raises SecurityError."""
    keystores = [folder / role.name / "keystore.pem" for role in ROLES]
    if not all(one.exists() and days_left(one) >= RENEWED_FROM_DAYS for one in keystores):
        init(folder)
    else:
        for role in ROLES:
            _write_files(folder / role.name, role, folder.absolute())


def password_of(folder: Path, role: str) -> str:
    """Return the password of a role's user. Raises SecurityError."""
    try:
        return (folder / role / "password").read_text().strip()
    except OSError as error:
        raise SecurityError(
            f"{folder / role / 'password'} cannot be read ({type(error).__name__}): `headrace security init {folder}` makes it"
        ) from None


def _write_files(folder: Path, role: Role, at: Path) -> None:
    if role.has_user:
        if not (folder / "password").exists():
            write_secret(folder / "password", f"{secrets.token_urlsafe(PASSWORD_BYTES)}\n".encode())
        password = password_of(folder.parent, role.name)
        _write(folder / "client.properties", client_lines(role.name, password, at))
        write_secret(folder / "login", f"{role.name}:{password}\n".encode())
    if role.has_sessions:
        _write(folder / "zookeeper.properties", zookeeper_lines(role.name, at))
    if role.name == "broker":
        _write(folder / "broker.properties", broker_lines(password_of(folder.parent, "broker"), at))
    if role.name == "zookeeper":
        _write(folder / "zoo.cfg", {name: str(value) for name, value in zookeeper.tls(at).items()})


def client_lines(user: str, password: str, at: Path) -> dict[str, str]:
    """Return how a user reaches brokers, in names that Kafka's tools and our clients know."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": f"{at}/ca.pem",
    }


def zookeeper_lines(role: str, at: Path) -> dict[str, str]:
    return {
        zookeeper_settings.ENABLE: "true",
        zookeeper_settings.KEYSTORE: f"{at}/{role}/keystore.pem",
        zookeeper_settings.TRUSTSTORE: f"{at}/ca.pem",
        zookeeper_settings.SET_ACL: "true",
    }


def broker_lines(password: str, at: Path) -> dict[str, str]:
    """Return the lines that a broker's own file needs besides `listeners`."""
    return {
        "ssl.keystore.location": f"{at}/broker/keystore.pem",
        "ssl.truststore.location": f"{at}/ca.pem",
        "sasl.enabled.mechanisms": MECHANISM,
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        "sasl.inter.broker.username": "broker",
        "sasl.inter.broker.password": password,
        "authorizer.class.name": AUTHORIZERS[0],
        "super.users": super_users(),
        **zookeeper_lines("broker", at),
    }


def _write(path: Path, lines: Mapping[str, str]) -> None:
    write_secret(path, "".join(f"{name}={value}\n" for name, value in lines.items()).encode())
