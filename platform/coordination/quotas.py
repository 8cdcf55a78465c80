"""The registry of quotas: how much users and clients may ask of each broker, in the nodes and the format of Kafka's own tools.

    /config/users/{user}                     JSON {"version": 1, "config": {"producer_byte_rate": "1048576"}}
    /config/users/{user}/clients/{client}    the same, for one client id of the user
    /config/clients/{client}                 the same, for a client id of any user
    /config/quota_changes                    JSON {"version": 1, "changed": [[user, client], …]}: the last changes, oldest first

A step `<default>` is every user, or every client, without one of its own. A user's node holds its credentials, too. The node of
the changes is written in one transaction with each change. Brokers watch it alone, and read what it names. Its version counts the
changes. Source: Kafka 3 with ZooKeeper (`kafka-configs.sh --entity-type users|clients`); there, /config/changes has such nodes.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from . import paths
from .errors import UnreadableNode, VersionConflict
from .node import Node
from .operations import Create, Operation, Write
from .session import Session
from .values import json_bytes, read_json

ATTEMPTS = 20
"""How often a change starts over because another broker changed something meanwhile."""
MOST_NAMED = 100
"""Changes that the node names. A broker that missed more reads all quotas."""

Entity = tuple[str | None, str | None]
"""The steps of a user and of a client; None where the quota is not about one."""
Config = Mapping[str, str]


class Changed(NamedTuple):
    """What a broker does not know yet."""

    number: int
    """Of changes so far. -1: there never was one."""
    configs: Mapping[Entity, Config]
    is_all: bool
    """Whether there are no other entities."""


class QuotaRegistry:
    """Reads, changes and watches quotas."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def read(self, known: int | None = None) -> Changed:
        """Return the settings of the entities that changed after the change with the number `known`, or of all."""
        node = self._session.tree.read(paths.QUOTA_CHANGES)
        if node is None:
            return Changed(-1, {}, is_all=True)
        named = _named(node)
        missed = None if known is None else node.version - known
        if missed is None or not 0 <= missed <= len(named):
            return Changed(node.version, self._read_each(self._list()), is_all=True)
        return Changed(node.version, self._read_each(dict.fromkeys(named[len(named) - missed :])), is_all=False)

    def change(self, entity: Entity, change: Callable[[Config], Config]) -> None:
        """Replace the entity's settings by what `change` makes of them, empty where there are none. It is called again when
        another client was faster. Raises InvalidName.
        """
        path, tree = paths.quotas(*entity), self._session.tree
        for _ in range(ATTEMPTS):
            changes = tree.read(paths.QUOTA_CHANGES)
            if changes is None:
                tree.create(paths.QUOTA_CHANGES, json_bytes({"version": 1, "changed": []}))
                continue
            node = tree.read(path)
            present = {} if node is None else _config(path, node)
            wanted = change(present)
            if wanted == present:
                return
            data = json_bytes({"version": 1, "config": dict(wanted)})
            write: Operation
            if node is None:
                tree.ensure(path.rpartition("/")[0])
                write = Create(path=path, data=data)
            else:
                write = Write(path=path, data=data, version=node.version)
            named = [*_named(changes), entity][-MOST_NAMED:]
            note = json_bytes({"version": 1, "changed": [list(one) for one in named]})
            if tree.transact([write, Write(path=paths.QUOTA_CHANGES, data=note, version=changes.version)]) is None:
                if not wanted and node is not None:
                    self._remove(path, node.version + 1)
                return
        raise VersionConflict("change", path)

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` on the session's thread now, and after each change. Return what ends the watch."""
        return self._session.watch_data(paths.QUOTA_CHANGES, callback)

    def _remove(self, path: str, version: int) -> None:
        """Remove a node without settings. It stays where it changed again, or has clients below it."""
        try:
            self._session.tree.delete(path, version=version)
        except VersionConflict:
            return

    def _list(self) -> list[Entity]:
        tree = self._session.tree
        users = tree.children(paths.CONFIG_USERS)
        below = tree.children_many(f"{paths.CONFIG_USERS}/{user}/{paths.CLIENTS}" for user in users)
        found: list[Entity] = [(user, None) for user in users]
        for user, clients in zip(users, below.values(), strict=True):
            found += [(user, client) for client in clients]
        return found + [(None, client) for client in tree.children(paths.CONFIG_CLIENTS)]

    def _read_each(self, entities: Iterable[Entity]) -> dict[Entity, Config]:
        by_path = {paths.quotas(*entity): entity for entity in entities}
        found = self._session.tree.read_many(by_path)
        return {entity: _config(path, found[path]) if path in found else {} for path, entity in by_path.items()}


def _named(node: Node) -> list[Entity]:
    changed = read_json(paths.QUOTA_CHANGES, node.data).get("changed")
    if not isinstance(changed, list) or not all(isinstance(one, list) and len(one) == 2 for one in changed):
        raise UnreadableNode(paths.QUOTA_CHANGES, node.data, "a list of users and clients is expected")
    return [(one[0], one[1]) for one in changed]


def _config(path: str, node: Node) -> Config:
    if not node.data:
        return {}
    config = read_json(path, node.data).get("config", {})
    if not isinstance(config, dict):
        raise UnreadableNode(path, node.data, "config is a JSON object")
    return {str(name): str(value) for name, value in config.items()}
