"""The brokers of one cluster, the leader of each partition, and the connections to them. Works on any Kafka-wire cluster.

Metadata is requested in three cases: nothing is known, the caller reported a failure with `forget`, or the metadata is too old.
No background thread requests it. If no broker answers, a call fails at once: the caller decides how long to retry.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ...runtime.clock import Clock, SystemClock
from ...wire.errors import ErrorCode
from ..errors import (
    BadAnswer,
    BrokerUnreachable,
    ClientError,
    InvalidAddress,
    LeaderUnknown,
    UnknownTopic,
    UnsupportedApi,
    broker_error,
)
from ..security.chosen import ClientConfig, security_for
from . import control_plane
from .connection import Connection

T = TypeVar("T")

METADATA_MAX_AGE_MS = 300_000
"""Metadata older than this is requested again, so that new partitions are found."""

MOST_LISTINGS = 4
"""Selections of topics whose last listing is remembered."""


def parse_bootstrap(bootstrap: str) -> list[tuple[str, int]]:
    """Return the addresses of `host:port[,host:port…]`. Raises `InvalidAddress`."""
    found = []
    for word in bootstrap.split(","):
        host, colon, port = word.strip().rpartition(":")
        if not colon or not host or not port.isdigit() or not 0 < int(port) < 65_536:
            raise InvalidAddress(f"bootstrap {bootstrap!r}: {word.strip()!r} is not host:port; give `host:port[,host:port…]`")
        found.append((host.strip("[]"), int(port)))
    return found


class Cluster:
    """A view of one cluster, safe to share between threads.

    There is one connection for each broker and `lane`. A request holds its connection until the response arrives. A caller that
    waits long (a fetch), or that must not wait (a producer), therefore uses its own lane.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "headrace",
        request_timeout_ms: int = 30_000,
        clock: Clock | None = None,
        security: "ClientConfig | None" = None,
    ) -> None:
        """`security`: the client configuration (TLS, SASL); None: what `HEADRACE_CLIENT_CONFIG` names, else in the clear.

        Raises `InvalidAddress`, `ClientConfigRefused`.
        """
        self.bootstrap = bootstrap
        self.client_id = client_id
        self.request_timeout_ms = request_timeout_ms
        self._seeds = parse_bootstrap(bootstrap)
        self._security = security_for(bootstrap, security)
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._connections: dict[tuple[str, int, str], Connection] = {}
        self._brokers: dict[int, tuple[str, int]] = {}
        self._controller_id = -1
        self._topics: dict[str, tuple[dict[int, int], int]] = {}
        """Topic → (partition → leader's id, when it was learned)."""
        self._listings: dict[tuple[str, ...] | None, tuple[control_plane.Listing, int]] = {}
        """The last one of each selection of topics, and when it was learned."""
        self._has_forgotten = False
        """Since all topics were learned."""
        self._closed = False

    def listing(self, topics: tuple[str, ...] | None = None, *, lane: str = "control") -> control_plane.Listing:
        """Return these topics (None: all) with their partitions and ids; those that do not exist are left out. Asks the cluster.

        While nothing changes there, the same object is returned, and the answer is not decoded again: asking often costs little.
        """
        with self._lock:
            before, learned_ms = self._listings.get(topics, (None, 0))
        found = self._from_any(lane, lambda connection: control_plane.ask_listing(connection, topics, before))
        now_ms = self._clock.monotonic_ms()
        # Unchanged answers are learned again before they are too old, or to bring back what was forgotten.
        if found is not before or self._has_forgotten or now_ms - learned_ms > METADATA_MAX_AGE_MS // 4:
            self._has_forgotten = False
            self._learn(found.facts, None if topics is None else list(topics))
            with self._lock:
                if len(self._listings) >= MOST_LISTINGS:
                    self._listings.clear()
                self._listings[topics] = (found, now_ms)
        return found

    def topics(self) -> list[str]:
        """Return the names of all topics, sorted. Asks the cluster."""
        return sorted(name for name, topic in self.listing().facts.topics.items() if not topic.error_code)

    def topic_ids(self, topics: Sequence[str] | None = None) -> dict[str, str]:
        """Return the id of each of these topics (None: of all): another one under the same name is another topic.

        Asks the cluster; empty if it has none.
        """
        try:
            return control_plane.ask_topic_ids(self.controller(), topics)
        except UnsupportedApi:
            return {}

    def partitions(self, topic: str, *, may_create: bool = False) -> list[int]:
        """Return the topic's partitions, sorted. With `may_create` the broker may create the topic, if its settings allow it.

        Raises `UnknownTopic` (retriable: a topic that is being created appears soon), `BrokerUnreachable`, or the broker's
        refusal.
        """
        return sorted(self._leaders(topic, may_create=may_create))

    def leader(self, topic: str, partition: int, *, lane: str = "control") -> Connection:
        """Return this lane's connection to the partition's leader. Raises `LeaderUnknown`, and as `partitions`."""
        leaders = self._leaders(topic, may_create=False)
        if leaders.get(partition, -1) < 0 or leaders[partition] not in self._brokers:
            self.refresh([topic])
            leaders = self._leaders(topic, may_create=False)
        if partition not in leaders:
            raise LeaderUnknown(topic, partition, f"the topic has partitions {sorted(leaders)}")
        with self._lock:
            address = self._brokers.get(leaders[partition])
        if address is None:
            raise LeaderUnknown(topic, partition, "no broker leads it now")
        return self._connection(*address, lane)

    def controller(self, *, lane: str = "control") -> Connection:
        """Return the connection to the controller, or to any broker if the cluster names no controller."""
        self._ask([], may_create=False)
        with self._lock:
            address = self._brokers.get(self._controller_id) or next(iter(self._brokers.values()), self._seeds[0])
        return self._connection(*address, lane)

    def broker_settings(self, names: Iterable[str]) -> dict[str, str]:
        """Return those of these broker settings that the controller (or the first broker) knows. Raises the broker's refusal."""
        connection = self.controller()
        with self._lock:
            known = self._controller_id in self._brokers
            broker_id = self._controller_id if known else next(iter(self._brokers), self._controller_id)
        return control_plane.ask_broker_settings(connection, broker_id, names)

    def brokers(self, *, lane: str = "control") -> list[Connection]:
        """Return the connections to all brokers, by id. Asks the cluster."""
        self._ask([], may_create=False)
        with self._lock:
            addresses = [self._brokers[broker_id] for broker_id in sorted(self._brokers)]
        return [self._connection(*address, lane) for address in addresses]

    def coordinator(self, group: str, *, lane: str = "control") -> Connection:
        """Return the connection to the broker that coordinates a group."""
        return self._connection(*control_plane.ask_coordinator(self.controller(lane=lane), group), lane)

    def coordinators(self, groups: Sequence[str], *, lane: str = "control") -> dict[str, Connection]:
        """Return the same of many groups, in one request if the cluster serves that."""
        found = control_plane.ask_coordinators(self.controller(lane=lane), groups)
        return {group: self._connection(*address, lane) for group, address in found.items()}

    def transaction_coordinator(self, transactional_id: str, *, lane: str = "transactions") -> Connection:
        """Return the connection to the broker that coordinates this id's transactions."""
        address = control_plane.ask_coordinator(self.controller(), transactional_id, of_transactions=True)
        return self._connection(*address, lane)

    def refresh(self, topics: Iterable[str] | None = None, *, may_create: bool = False) -> None:
        """Request the metadata of these topics (None: of all topics requested before)."""
        with self._lock:
            asked = list(self._topics) if topics is None else list(topics)
        self._ask(asked, may_create=may_create)

    def learn(self, topics: Iterable[str]) -> None:
        """Request the metadata of those of the topics that are not known, in one request. Raises ClientError."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            unknown = [
                topic for topic in topics if topic not in self._topics or now_ms - self._topics[topic][1] >= METADATA_MAX_AGE_MS
            ]
        if unknown:
            self._ask(unknown, may_create=False)

    def forget(self, topic: str) -> None:
        """Drop the topic's metadata, because a broker has contradicted it."""
        with self._lock:
            self._topics.pop(topic, None)
            self._has_forgotten = True

    def close(self) -> None:
        """Close every connection, from any thread; requests in flight fail."""
        with self._lock:
            self._closed = True
            held = list(self._connections.values())
            self._connections.clear()
        for connection in held:
            connection.close()

    def close_lane(self, lane: str) -> None:
        """Close the connections of one lane."""
        with self._lock:
            names = [name for name in self._connections if name[2] == lane]
            held = [self._connections.pop(name) for name in names]
        for connection in held:
            connection.close()

    def let_go(self) -> None:
        """Close inherited descriptors, in the child of a fork. The parent's connections continue; this object is of no more use.

        Takes no lock: a thread that did not come along may hold it.
        """
        self._closed = True
        for connection in list(self._connections.values()):
            connection.let_go()

    def _leaders(self, topic: str, *, may_create: bool) -> dict[int, int]:
        with self._lock:
            cached = self._topics.get(topic)
        if cached is not None and self._clock.monotonic_ms() - cached[1] < METADATA_MAX_AGE_MS:
            return cached[0]
        facts = self._ask([topic], may_create=may_create)
        described = facts.topics.get(topic)
        if (
            described is None
            or described.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            or (not described.error_code and not described.leaders)
        ):
            raise UnknownTopic(topic, self.bootstrap)
        if described.error_code:
            raise broker_error(f"topic {topic!r} on {self.bootstrap}", described.error_code)
        return dict(described.leaders)

    def _ask(self, topics: list[str] | None, *, may_create: bool) -> control_plane.ClusterFacts:
        """Request metadata from one broker after another until one answers, and store the answer."""
        facts = self._from_any(
            "control", lambda connection: control_plane.ask_metadata(connection, topics, may_create=may_create)
        )
        self._learn(facts, topics)
        return facts

    def _from_any(self, lane: str, ask: Callable[[Connection], T]) -> T:
        """Return the answer of the first broker that answers."""
        with self._lock:
            addresses = list(dict.fromkeys([*self._brokers.values(), *self._seeds]))
        failed: ClientError | None = None
        for host, port in addresses:
            try:
                return ask(self._connection(host, port, lane))
            except (BrokerUnreachable, BadAnswer) as error:
                failed = error
        assert failed is not None
        raise failed

    def _learn(self, facts: control_plane.ClusterFacts, asked: list[str] | None) -> None:
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            self._brokers = dict(facts.brokers)
            self._controller_id = facts.controller_id
            for name, topic in facts.topics.items():
                if not topic.error_code and topic.leaders:
                    self._topics[name] = (dict(topic.leaders), now_ms)
                else:
                    self._topics.pop(name, None)
            for name in asked or ():
                if name not in facts.topics:
                    self._topics.pop(name, None)

    def _connection(self, host: str, port: int, lane: str) -> Connection:
        name = (host, port, lane)
        with self._lock:
            if self._closed:
                raise BrokerUnreachable(
                    f"{host}:{port}", "connect", "this client closed the cluster's connections", was_sent=False
                )
            found = self._connections.get(name)
            if found is None:
                found = self._connections[name] = Connection(
                    host, port, self.client_id, self.request_timeout_ms, security=self._security
                )
            return found
