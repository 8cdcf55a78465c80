"""Which role may do what with which node of ZooKeeper's tree. Pure.

Brokers and operators may do everything. Each other role has what its work needs, and nothing under /config, /rights, /replicas,
/brokers/lives and /producer_ids: a mirror or a reader cannot pass for a broker, add a user or give itself rights.

ZooKeeper's rights are not inherited, so each node gets those of the longest entry of `TABLE` that its path begins with. Source:
ZooKeeper's programmer's guide, "ACL permissions"; X509AuthenticationProvider.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .security import BROKER, MIRROR, OPERATOR, READER, REGISTRY

READ, WRITE, CREATE, DELETE, ADMIN = 1, 2, 4, 8, 16
ALL = READ | WRITE | CREATE | DELETE | ADMIN
CHANGE = READ | WRITE | CREATE | DELETE
"""Everything but changing rights."""
ANYONE = "anyone"
"""All that ZooKeeper lets connect: with its TLS, each holder of a certificate of its CA."""

KEEPERS = (BROKER, OPERATOR)

TABLE: Mapping[str, Mapping[str, int]] = {
    "/": {ANYONE: READ},
    "/brokers": {ANYONE: READ},
    "/brokers/ids": {ANYONE: READ},
    "/brokers/topics": {ANYONE: READ},
    "/brokers/lives": {},
    "/cluster": {},
    "/producer_ids": {},
    "/rights": {},
    "/config": {},
    "/config/users": {},
    "/replicas": {},
    "/consumers": {READER: CHANGE},
    "/audit": {MIRROR: READ, READER: READ},
    "/audit/positions": {READER: CHANGE},
    "/audit/positions/mirror": {MIRROR: CHANGE},
    "/audit/restate": {READER: CHANGE},
    "/audit/restate/mirror": {MIRROR: CHANGE},
    "/mirror": {MIRROR: CHANGE},
    "/mirror/sources": {MIRROR: CHANGE},
    "/leaders": {REGISTRY: READ},
    "/leaders/schema-registry": {REGISTRY: CHANGE},
}
"""Path → role → rights. Each path is made, with its rights, before anything below it. Keepers have `ALL` everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Entry:
    """What one identity may do with a node."""

    identity: str
    """The name of a certificate (`CN=…`), or `ANYONE`."""
    permissions: int


def rights_of(path: str, identities: Mapping[str, Sequence[str]]) -> tuple[Entry, ...]:
    """Return the rights of a node, sorted. `identities`: role → names of certificates."""
    found: dict[str, int] = {}
    for role, permissions in (*TABLE[_entry_of(path)].items(), *((keeper, ALL) for keeper in KEEPERS)):
        for identity in (ANYONE,) if role == ANYONE else identities.get(role, ()):
            found[identity] = found.get(identity, 0) | permissions
    return tuple(Entry(identity=identity, permissions=found[identity]) for identity in sorted(found))


def in_words(entries: Sequence[Entry]) -> str:
    """Return rights as text: `CN=headrace-broker: cdrwa; anyone: r`."""
    return "; ".join(f"{one.identity}: {_letters(one.permissions)}" for one in entries)


def _letters(permissions: int) -> str:
    letters = {"c": CREATE, "d": DELETE, "r": READ, "w": WRITE, "a": ADMIN}
    return "".join(letter for letter, bit in letters.items() if permissions & bit) or "nothing"


def _entry_of(path: str) -> str:
    at = path
    while at not in TABLE and at:
        at = at.rpartition("/")[0]
    return at or "/"
