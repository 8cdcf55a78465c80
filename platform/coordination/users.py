"""The registry of users: what they log in with, in the nodes and the format of Kafka's own tools.

    /config/users/{user}   JSON {"version": 1, "config": {"SCRAM-SHA-256": "salt=…,stored_key=…,server_key=…,iterations=…"}}

Source: Kafka 3 with ZooKeeper (`kafka-configs.sh --zookeeper`, KIP-84). Settings of a user that are not credentials stay."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from . import paths
from .errors import UnreadableNode, VersionConflict
from .node import Node
from .session import Session
from .values import json_bytes, read_json
from .watched_children import watch_each

ATTEMPTS = 20
SECRET_BYTES = 32
Config = Mapping[str, str]


class UserRegistry:
    """Reads, changes and watches users."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def secret(self) -> bytes:
        """Return a secret that all brokers of the cluster share. The first one to ask makes it."""
        path = paths.LOGIN_SECRET
        drawn = self._session.surroundings.random_below(1 << (8 * SECRET_BYTES))
        self._session.tree.create(path, b"%0*x" % (2 * SECRET_BYTES, drawn))
        node = self._session.tree.read(path)
        if node is None or len(node.data) < SECRET_BYTES:
            raise UnreadableNode(path, b"" if node is None else node.data, "a secret is expected")
        return node.data

    def list(self) -> list[str]:
        """Return the users' names, sorted. Default settings of all users, which Kafka keeps beside them, are none."""
        steps = self._session.tree.children(paths.CONFIG_USERS)
        return sorted(paths.user_of(step) for step in steps if step != paths.DEFAULT_USER)

    def read_each(self, users: Sequence[str]) -> dict[str, Config | UnreadableNode]:
        """Return the settings of the users that exist, by name; the error where a node cannot be read."""
        found = self._session.tree.read_many(paths.user(name) for name in users)
        read: dict[str, Config | UnreadableNode] = {}
        for name in users:
            if (node := found.get(paths.user(name))) is not None:
                try:
                    read[name] = _read(name, node)
                except UnreadableNode as error:
                    read[name] = error
        return read

    def change(self, user: str, change: Callable[[Config], Config]) -> None:
        """Replace the user's settings by what `change` makes of them, empty where there is no user yet. A user whose last setting
        goes is removed. When another client changed the user meanwhile, `change` is called again. Raises InvalidName.
        """
        path, tree = paths.user(user), self._session.tree
        for _ in range(ATTEMPTS):
            node = tree.read(path)
            present = {} if node is None else _read(user, node)
            wanted = change(present)
            try:
                if node is None:
                    if not wanted or tree.create(path, _write(wanted)):
                        return
                elif wanted or not _is_removed(tree.delete, path, node):
                    tree.write(path, _write(wanted), version=node.version)
                    return
                else:
                    return
            except VersionConflict:
                continue
        raise VersionConflict("change", path)

    def watch_each(self, listed: Callable[[], None], changed: Callable[[str], None]) -> Callable[[], None]:
        """Call `listed` after users appeared or disappeared, `changed` with the user that may have changed, on the session's
        thread. Return what ends the watch.
        """

        return watch_each(self._session, paths.CONFIG_USERS, listed, lambda step: partial(changed, paths.user_of(step)))


def _is_removed(delete: Callable[..., bool], path: str, node: Node) -> bool:
    """Remove the node. Return False where it stays, because Kafka's tools keep quotas below it."""
    try:
        delete(path, version=node.version)
    except VersionConflict:
        return False
    return True


def _write(config: Config) -> bytes:
    return json_bytes({"version": 1, "config": dict(config)})


def _read(user: str, node: Node) -> Config:
    path = paths.user(user)
    if not node.data:
        return {}
    value = read_json(path, node.data).get("config", {})
    if not isinstance(value, dict):
        raise UnreadableNode(path, node.data, "config is a JSON object")
    return {str(name): str(setting) for name, setting in value.items()}
