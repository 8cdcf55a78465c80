"""The roles of a platform, and the least rights of each: the one table that files, rules, manual and tests are made from. Pure.

A right names what is refused without it. `tests/integration/broker/test_least_rights.py` removes each one in turn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...broker.rights.rule import ANY_NAME, CLUSTER_NAME, Operation, Pattern, Permission, Resource, Rule
from ...runtime.layout import (
    ACCESS_TOPIC,
    AUDIT_CHECKPOINT_TOPIC,
    AUDIT_TOPIC,
    QUARANTINE_SUFFIX,
    SCHEMAS_TOPIC,
)
from ...wire.mirror_ledger import LEDGER_PREFIX

LIVE, OFFLINE = "live", "offline"
TOPICS, QUARANTINES, GROUPS = "TOPICS", "QUARANTINES", "GROUPS"
"""Stand for the topics that the platform is for, for their quarantines, and for the groups of readers."""
AUDIT_GROUP = "_headrace.audit."
"""Begins the names of groups in which the audit keeps its place."""
TRANSACTIONS = "headrace-mirror-"
"""Begins the transactional ids of mirrors."""
REPORTED = "headrace.reported."
MIRRORED = "headrace.mirror."
"""Begin the names of groups that hold how far a reader, and the mirror, have reported. Without ZooKeeper they are kept there."""

_TOPIC, _GROUP = Resource.TOPIC, Resource.GROUP


class Right(NamedTuple):
    """One operation that a role needs."""

    cluster: str
    operation: Operation
    resource: Resource
    name: str
    """A name, or one of `TOPICS`, `QUARANTINES`, `GROUPS`. With `is_prefix` the beginning of names."""
    breaks: str
    """What is refused without it."""
    is_prefix: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One kind of process, or user."""

    name: str
    what: str
    rights: Sequence[Right] = ()
    is_super_user: bool = False
    has_sessions: bool = False
    """Whether it opens sessions with ZooKeeper."""
    is_server: bool = False
    """Whether it listens, so that its certificate names hosts."""
    has_user: bool = True
    """Whether it logs in to brokers."""


def _topics(cluster: str, name: str, **breaks: str) -> tuple[Right, ...]:
    """Return rights to topics: operation → what is refused without it."""
    return tuple(Right(cluster, Operation[word.upper()], _TOPIC, name, what) for word, what in breaks.items())


_REPORTS = _topics(LIVE, AUDIT_TOPIC, write="report to the audit")
_QUARANTINES = _topics(LIVE, QUARANTINES, write="quarantine a record", create="create a topic's quarantine")

ROLES: Sequence[Role] = (
    Role(
        name="broker",
        what="the brokers of a cluster",
        is_super_user=True,
        has_sessions=True,
        is_server=True,
    ),
    Role(name="zookeeper", what="the servers of an ensemble", is_server=True, has_user=False),
    Role(name="operator", what="administers clusters and rights", is_super_user=True, has_sessions=True),
    Role(
        name="application",
        what="logs events with the SDK",
        rights=(
            *_topics(
                LIVE,
                TOPICS,
                write="log an event",
                create="create a topic by first use",
                describe_configs="warn of times that a topic does not keep",
            ),
            *_REPORTS,
        ),
    ),
    Role(
        name="reader",
        what="reads events in a group",
        has_sessions=True,
        rights=(
            *_topics(LIVE, TOPICS, read="read events"),
            Right(LIVE, Operation.READ, _GROUP, GROUPS, "join a group and commit"),
            Right(LIVE, Operation.READ, _GROUP, REPORTED, "note how far it has reported, without ZooKeeper", is_prefix=True),
            *_REPORTS,
            *_QUARANTINES,
        ),
    ),
    Role(
        name="agent",
        what="ships journals and files",
        rights=(
            *_topics(LIVE, TOPICS, write="log an event", create="create a topic by first use", read="read back what was shipped"),
            *_REPORTS,
            *_QUARANTINES,
        ),
    ),
    Role(
        name="registry",
        what="the schema registry",
        has_sessions=True,
        is_server=True,
        rights=_topics(
            LIVE,
            SCHEMAS_TOPIC,
            read="read the schemas",
            write="register a schema",
            create="create the topic of schemas",
            describe_configs="check the settings of the topic of schemas",
        ),
    ),
    Role(
        name="audit",
        what="the audit service",
        is_server=True,
        rights=(
            *_topics(
                LIVE,
                AUDIT_TOPIC,
                read="collect reports",
                write="report to the audit",
                create="create the topic of reports",
                delete="delete reports that a checkpoint holds",
            ),
            *_topics(
                LIVE,
                AUDIT_CHECKPOINT_TOPIC,
                read="read a checkpoint",
                write="write a checkpoint",
                create="create the topic of checkpoints",
                delete="delete old checkpoints",
            ),
            Right(LIVE, Operation.READ, _GROUP, AUDIT_GROUP, "note what a checkpoint holds", is_prefix=True),
            *_topics(LIVE, TOPICS, read="count a topic", describe_configs="see a topic's retention"),
            *_topics(LIVE, QUARANTINES, read="count a quarantine"),
            *_topics(OFFLINE, TOPICS, read="count a topic", describe_configs="see a topic's retention"),
            Right(LIVE, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME, "see what was repaired"),
            Right(OFFLINE, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME, "see what was repaired"),
        ),
    ),
    Role(
        name="mirror",
        what="copies live topics to the offline cluster",
        has_sessions=True,
        rights=(
            *_topics(LIVE, TOPICS, read="fetch from the source", describe_configs="see a topic's settings"),
            *_topics(LIVE, SCHEMAS_TOPIC, read="fetch schemas", describe_configs="see the settings of the topic of schemas"),
            Right(LIVE, Operation.DESCRIBE, _GROUP, GROUPS, "see the groups of the source"),
            *_REPORTS,
            *_QUARANTINES,
            *_topics(
                OFFLINE,
                TOPICS,
                write="append to a copy",
                read="read a copy back",
                create="create a copy",
                alter="add partitions to a copy",
                alter_configs="see and change a copy's settings",
            ),
            *_topics(
                OFFLINE, SCHEMAS_TOPIC, write="append schemas", read="read schemas back", create="create the copy of schemas"
            ),
            Right(OFFLINE, Operation.READ, _GROUP, GROUPS, "commit the offsets of groups"),
            Right(OFFLINE, Operation.READ, _GROUP, MIRRORED, "note how far it has reported, without ZooKeeper", is_prefix=True),
            *(
                Right(OFFLINE, Operation[word], _TOPIC, LEDGER_PREFIX, what, is_prefix=True)
                for word, what in (
                    ("WRITE", "write the ledger, with Apache Kafka at an end"),
                    ("READ", "read the ledger back"),
                    ("CREATE", "create the ledger"),
                )
            ),
            Right(OFFLINE, Operation.WRITE, Resource.TRANSACTIONAL_ID, TRANSACTIONS, "copy to Apache Kafka", is_prefix=True),
        ),
    ),
    Role(
        name="loads",
        what="Spark's loads, by hand or by Airflow",
        rights=(
            *_topics(OFFLINE, TOPICS, read="load a topic", describe_configs="see a topic's settings"),
            *_topics(LIVE, TOPICS, describe="see a live topic's partitions"),
            Right(LIVE, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME, "see the audit's verdicts"),
            *_REPORTS,
            *_QUARANTINES,
        ),
    ),
    Role(
        name="console",
        what="shows the platform",
        is_server=True,
        rights=(
            *_topics(LIVE, TOPICS, read="show a topic's events", describe_configs="show a topic's settings"),
            *_topics(LIVE, QUARANTINES, read="show a quarantine"),
            *_topics(OFFLINE, TOPICS, read="show a copy's events", describe_configs="show a copy's settings"),
            Right(LIVE, Operation.READ, _GROUP, GROUPS, "move a group's offsets"),
            Right(LIVE, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME, "see the audit's verdicts"),
            Right(OFFLINE, Operation.DESCRIBE, _GROUP, GROUPS, "show a copied group"),
        ),
    ),
)

GUARDED: Sequence[tuple[str, Operation, Sequence[str]]] = (
    (SCHEMAS_TOPIC, Operation.WRITE, ("registry",)),
    (AUDIT_CHECKPOINT_TOPIC, Operation.WRITE, ("audit",)),
    (ACCESS_TOPIC, Operation.READ, ()),
    (ACCESS_TOPIC, Operation.WRITE, ()),
)
"""Topics of the platform, an operation, and the roles that may do it. A role with a right to all topics (`*`) is denied the
others by rules of its own. The mirror writes the topic of schemas on the offline cluster."""


def role_of(name: str) -> Role:
    """Return the role of this name. Raises KeyError."""
    return {role.name: role for role in ROLES}[name]


def principal(role: Role) -> str:
    return f"User:{role.name}"


def super_users() -> str:
    """Return the value of `super.users`."""
    return ";".join(principal(role) for role in ROLES if role.is_super_user)


def rules_of(role: Role, cluster: str, topics: Sequence[str] = (ANY_NAME,), groups: Sequence[str] = (ANY_NAME,)) -> list[Rule]:
    """Return the access rules of a role on one of the clusters. A name that ends in `*` is the beginning of names."""
    rules = [rule for right in role.rights if right.cluster == cluster for rule in rules_for(role, right, topics, groups)]
    if ANY_NAME in topics:
        rules += list(_denials(role, cluster, rules))
    return list(dict.fromkeys(rules))


def rules_for(role: Role, right: Right, topics: Sequence[str], groups: Sequence[str]) -> Iterator[Rule]:
    """Yield the access rules that one right is made of."""
    for name in _names(right, topics, groups):
        pattern = Pattern.LITERAL
        if right.is_prefix or (len(name) > 1 and name.endswith("*")):
            name, pattern = name.removesuffix("*"), Pattern.PREFIXED
        yield Rule(right.resource, name, pattern, principal(role), ANY_NAME, right.operation, Permission.ALLOW)


def _names(right: Right, topics: Sequence[str], groups: Sequence[str]) -> Sequence[str]:
    match right.name:
        case "TOPICS":
            return topics
        case "QUARANTINES":  # no pattern is about the ends of names
            return [name if name.endswith("*") else name + QUARANTINE_SUFFIX for name in topics]
        case "GROUPS":
            return groups
    return (right.name,)


def _denials(role: Role, cluster: str, rules: Sequence[Rule]) -> Iterator[Rule]:
    for name, operation, roles in GUARDED:
        may = role.name in roles or (cluster == OFFLINE and role.name == "mirror" and name == SCHEMAS_TOPIC)
        has_all = any(one.name == ANY_NAME and one.resource is _TOPIC and one.operation is operation for one in rules)
        if has_all and not may:
            yield Rule(_TOPIC, name, Pattern.LITERAL, principal(role), ANY_NAME, operation, Permission.DENY)


def table() -> str:
    """Return the table of least rights as it is in docs/RIGHTS.md."""
    lines = ["| role | cluster | right | without it is refused |", "|---|---|---|---|"]
    for role in ROLES:
        if role.is_super_user:
            lines.append(f"| {role.name}: {role.what} | both | `super.users` | everything |")
        for right in role.rights:
            name = f"`{right.name}{'*' if right.is_prefix else ''}`"
            groups = {TOPICS: "each topic", QUARANTINES: "each topic's quarantine", GROUPS: "each group"}
            named = {**groups, CLUSTER_NAME: "the cluster"}.get(right.name, name)
            lines.append(f"| {role.name}: {role.what} | {right.cluster} | {right.operation.name} on {named} | {right.breaks} |")
    return "\n".join(lines)
