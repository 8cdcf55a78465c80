"""The broker registry: which brokers are running, and their addresses.

Source: the paper's section 3.2, ephemeral nodes under /brokers/ids.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from . import paths
from .ephemeral import EphemeralNode
from .errors import BrokerIdTaken, CoordinationError, UnreadableNode
from .session import Session
from .values import json_bytes, read_json


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInfo:
    """One registered broker."""

    broker_id: int
    host: str
    port: int
    folder_id: str
    """The id of its data folder. A restarted broker recognises its own earlier node by it."""
    timestamp_ms: int
    """When it registered, by its own clock."""
    endpoints: Mapping[str, tuple[str, int]]
    """Host and port for clients, by the listener's name. `host` and `port` are those for other brokers."""
    start_number: int = 0
    """Which start of the broker this is (`replica_states`); 0 of a broker that knows none."""


class BrokerRegistry:
    """Registers one broker and lists all brokers."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._node: EphemeralNode | None = None

    def register(
        self,
        broker_id: int,
        host: str,
        port: int,
        folder_id: str,
        *,
        endpoints: Mapping[str, tuple[str, int]] | None = None,
        start_number: int = 0,
        on_refused: Callable[[CoordinationError], None] | None = None,
    ) -> None:
        """Register this broker, now and after every loss of the session. `endpoints` None: one, called PLAINTEXT.

        A node of the same folder_id (this broker before its restart) is replaced. Raises BrokerIdTaken when the broker of another
        folder is registered, and ConnectionUnsure. When a renewal finds such a broker, the session's thread calls `on_refused`.
        """
        path = paths.broker(broker_id)
        shown = {"PLAINTEXT": (host, port)} if endpoints is None else endpoints
        data = json_bytes(
            {
                "host": host,
                "port": port,
                "folder_id": folder_id,
                "timestamp": self._session.surroundings.wall_ms(),
                "start_number": start_number,
                "endpoints": [f"{name}://{_bracketed(host)}:{port}" for name, (host, port) in shown.items()],
            }
        )

        def is_mine(found: bytes) -> bool:
            return _read(broker_id, path, found).folder_id == folder_id

        def taken(found: bytes) -> CoordinationError:
            holder = _read(broker_id, path, found)
            return BrokerIdTaken(broker_id, folder_id, f"folder {holder.folder_id} at {holder.host}:{holder.port}")

        node = EphemeralNode(self._session, path, data, is_mine=is_mine, taken=taken, on_refused=on_refused)
        node.register()
        self._node = node

    def withdraw(self) -> None:
        """Remove this broker's node, for a clean stop."""
        if self._node is not None:
            self._node.withdraw()
            self._node = None

    def list(self) -> list[BrokerInfo]:
        """Return the registered brokers by id."""
        ids = [int(name) for name in self._session.tree.children(paths.BROKER_IDS) if name.isdigit()]
        found = self._session.tree.read_many(paths.broker(broker_id) for broker_id in ids)
        return [
            _read(broker_id, paths.broker(broker_id), found[paths.broker(broker_id)].data)
            for broker_id in sorted(ids)
            if paths.broker(broker_id) in found
        ]

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` on the session's thread, now and after each change of the list. Return what ends the watch."""
        return self._session.watch_children(paths.BROKER_IDS, callback)


def _read(broker_id: int, path: str, data: bytes) -> BrokerInfo:
    value = read_json(path, data)
    match value:
        case {"host": str(host), "port": int(port), "folder_id": str(folder_id), "timestamp": int(timestamp_ms)}:
            return BrokerInfo(
                broker_id=broker_id,
                host=host,
                port=port,
                folder_id=folder_id,
                timestamp_ms=timestamp_ms,
                # An older broker has one listener and does not name it.
                endpoints=dict(_endpoints(path, data, value.get("endpoints", [f"PLAINTEXT://{_bracketed(host)}:{port}"]))),
                start_number=int(value.get("start_number", 0)),
            )
    raise UnreadableNode(path, data, "host, port, folder_id and timestamp are expected")


def _endpoints(path: str, data: bytes, endpoints: object) -> Iterator[tuple[str, tuple[str, int]]]:
    for endpoint in endpoints if isinstance(endpoints, list) else [endpoints]:
        name, mark, address = str(endpoint).partition("://")
        host, _, port = address.rpartition(":")
        if not (mark and name and host and port.isascii() and port.isdigit()):
            raise UnreadableNode(path, data, "endpoints is a list of NAME://HOST:PORT")
        yield name, (host.strip("[]"), int(port))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
