"""Gives a cluster the users and access rules of a folder: in its ZooKeeper, where no user can log in yet, or by its brokers."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...broker.logins.scram_credential import LEAST_ITERATIONS, ScramCredential
from ...broker.rights.rule import ANY_NAME, Rule, RuleFilter, read, written
from ...client import access_rules, scram_users
from ...client.connection.cluster import Cluster
from ...coordination.access_rules import AccessRules
from ...coordination.session import Session
from ...coordination.users import Config, UserRegistry
from .certificates import SecurityError
from .files import MECHANISM, password_of
from .roles import ROLES, Role, principal, role_of, rules_of

OPEN_MS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The users with their passwords, and the rules that their roles are to have. Other rules of these users are taken away."""

    passwords: Mapping[str, str]
    rules: Sequence[Rule]
    roles: Sequence[Role]


def wanted(
    folder: Path,
    cluster: str,
    *,
    roles: Sequence[str] = (),
    topics: Sequence[str] = (ANY_NAME,),
    groups: Sequence[str] = (ANY_NAME,),
) -> Wanted:
    """Return what a cluster (`live` or `offline`) is to have. `roles`: these only. Raises SecurityError."""
    chosen = [role_of(name) for name in roles] if roles else [role for role in ROLES if (folder / role.name).is_dir()]
    users = [role for role in chosen if role.has_user]
    if not users:
        raise SecurityError(f"{folder} has no roles: make them with `headrace security init {folder}`")
    return Wanted(
        passwords={role.name: password_of(folder, role.name) for role in users},
        rules=[rule for role in users for rule in rules_of(role, cluster, topics, groups)],
        roles=users,
    )


def in_zookeeper(hosts: str, plan: Wanted) -> None:
    """Write users and rules. Raises CoordinationError. Running it again changes nothing but what differs."""
    principals = {principal(role) for role in plan.roles}
    session = Session(hosts, name="headrace-security")
    session.start(OPEN_MS)
    try:
        users = UserRegistry(session)
        for name, password in plan.passwords.items():
            users.change(name, partial(_with, password))
        AccessRules(session).change(
            lambda rows: written({rule for rule in read(rows) if rule.principal not in principals} | set(plan.rules))
        )
    finally:
        session.close()


def _with(password: str, present: Config) -> Config:
    """Return a user's settings with this password. The salt stays if it fits: a login that is under way would fail."""
    if MECHANISM in present and ScramCredential.of_text(MECHANISM, present[MECHANISM]).fits(MECHANISM, password):
        return present
    salt = secrets.token_bytes(scram_users.SALT_BYTES)
    return {**present, MECHANISM: ScramCredential.of_password(MECHANISM, password, salt, LEAST_ITERATIONS).to_text()}


def by_brokers(cluster: Cluster, plan: Wanted, *, keeps_users: bool = False) -> None:
    """Ask the cluster's brokers for the same. `keeps_users`: those that are there keep their passwords. Raises ClientError."""
    known = scram_users.users(cluster) if keeps_users else {}
    for name, password in plan.passwords.items():
        if MECHANISM in known.get(name, ()):
            continue
        scram_users.put_user(cluster, name, password, [MECHANISM], LEAST_ITERATIONS)
    access_rules.add(cluster, [access_rules.Row(*rule) for rule in plan.rules])
    keep = set(plan.rules)
    for role in plan.roles:
        found = access_rules.find(cluster, access_rules.Row(*RuleFilter(principal=principal(role))))
        access_rules.remove(cluster, [row for row in found if Rule(*row) not in keep])  # type: ignore[arg-type]
