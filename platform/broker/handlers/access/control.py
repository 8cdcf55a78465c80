"""The broker's access control: the rules in force, and what holds each request to them. Lives on the loop thread.

The rules come from ZooKeeper, by a watch. While ZooKeeper is away the last known rules stay in force; a broker that has never
read them denies everything, except to super users. A change builds a new `Authorizer` on another thread, which replaces the old.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ....runtime.logs import get_logger
from ...errors import Overloaded
from ...event_loop.response_generators import ResponseGenerator
from ...event_loop.worker import Worker
from ...metrics import BrokerMetrics
from ...network.peer import Peer
from ...rights import rule as rules
from ...rights.authorizer import Authorizer
from ...rights.rule import CLUSTER_NAME, Operation, Resource, Rule
from ..request import Request
from .asking import Asker, Asking
from .guard import Handler, guarded
from .metadata_check import KEY as METADATA
from .metadata_check import SeenTopics, guarded_metadata
from .table import CHECKS
from .trail import Trail

if TYPE_CHECKING:
    from ..broker import Answer, Broker

log = get_logger(__name__)

READ_AGAIN_MS = 1_000
NAMED_IN_TRAIL = 10
"""Resources of one administrative request that its event names."""

Rows = Sequence[Sequence[str]]
Changed = Callable[[frozenset[Rule] | Exception], None]


class RuleStore(Protocol):
    """The part of `coordination.access_rules.AccessRules` that is used here."""

    def read(self) -> Rows: ...

    def change(self, change: Callable[[Rows], Rows]) -> Rows: ...


class _Names(dict[int, str]):
    """Names of APIs; one without a name is called by its number."""

    def __missing__(self, api_key: int) -> str:
        return str(api_key)


class AccessControl:
    """Holds requests to the rules."""

    def __init__(
        self,
        store: RuleStore,
        worker: Worker,
        trail: Trail,
        metrics: BrokerMetrics,
        call_later: Callable[[int, Callable[[], None]], None],
        *,
        api_names: Mapping[int, str],
        super_users: Collection[str],
        allow_if_no_rule: bool,
    ) -> None:
        """`worker` makes the calls of the store. `call_later` calls a function on the loop after so many milliseconds."""
        self.authorizer = Authorizer([], super_users)
        """Until the rules are read it denies everything, except to super users."""
        self.trail = trail
        self._metrics = metrics
        self.is_loaded = False
        """Whether the rules were ever read."""
        self._settings = Authorizer([], super_users, allow_if_no_rule=allow_if_no_rule)
        self._store = store
        self._worker = worker
        self._call_later = call_later
        self._reads_again = False
        self._api_names = _Names(api_names)
        self._seen = SeenTopics()

    def load(self) -> None:
        """Read the rules; before the loop runs. Raises CoordinationError, ValueError."""
        self._take(self._read())

    def refresh(self) -> None:
        """Read the rules again: they may have changed. What cannot be read changes nothing, and is read again soon: a
        right that was withdrawn is not to stay until the next change.
        """

        def failed(error: Exception) -> None:
            log.error("rules_not_read", why=str(error))
            if not self._reads_again:
                self._reads_again = True
                self._call_later(READ_AGAIN_MS, again)

        def again() -> None:
            self._reads_again = False
            self.refresh()

        self._submit(self._read, self._take, failed)

    def change(self, change: Callable[[frozenset[Rule]], Iterable[Rule]], done: Changed) -> None:
        """Replace the rules by what `change` makes of them. `done` gets those before, once the new ones are in force here, or the
        error. `change` runs on another thread, and again when another broker was faster.
        """
        before: frozenset[Rule] = frozenset()

        def job() -> Authorizer:
            def of_rows(rows: Rows) -> Rows:
                nonlocal before
                before = rules.read(rows)
                return rules.written(change(before))

            return self._settings.with_rules(rules.read(self._store.change(of_rows)))

        def changed(authorizer: Authorizer) -> None:
            self._take(authorizer)
            done(before)

        self._submit(job, changed, done)

    def asking(self, peer: Peer, api_key: int, client_id: str = "") -> Asking:
        """Return the questions of a client's request."""
        return Asking(self.authorizer, self.trail, Asker(str(peer.principal), peer.host, self._api_names[api_key], client_id))

    def could(self, peer: Peer, operation: Operation, topic: str) -> bool:
        """Return whether the client may do this with the topic. A no is not in the trail: the general path asks again. Hot: once
        a run of Produce requests, and once a fetch; 0.6 µs.
        """
        return self.authorizer.allows(str(peer.principal), peer.host, operation, Resource.TOPIC, topic)

    def may(self, peer: Peer, api_key: int, operation: Operation, topic: str) -> bool:
        """Return whether the client may do this with the topic. A denial goes into the trail. Hot: once a topic of each Produce
        request that is not part of a run; 0.6 µs, and where it is denied again 0.8 µs more.
        """
        principal, host = str(peer.principal), peer.host
        if self.authorizer.allows(principal, host, operation, Resource.TOPIC, topic):
            return True
        asker = principal, host, self._api_names[api_key], ""
        self.trail.denied(self.authorizer, asker, operation, Resource.TOPIC, topic)
        return False

    def could_follow(self, peer: Peer) -> bool:
        """Return whether the client may fetch as a follower. A no is not in the trail: the general path asks again."""
        return self.authorizer.allows(str(peer.principal), peer.host, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)

    def unreadable(self, peer: Peer, topics: Iterable[str], *, of_replica: bool) -> frozenset[str]:
        """Return those of the topics that the client may not fetch: a follower wants a right on the cluster instead. Denials go
        into the trail. Hot: once a fetch that is not repeated; 1 µs a topic.
        """
        principal, host = str(peer.principal), peer.host
        if of_replica:
            may_follow = self.asking(peer, 1).may(Operation.CLUSTER_ACTION, Resource.CLUSTER)
            return frozenset() if may_follow else frozenset(topics)
        allows = self.authorizer.allows
        denied = frozenset([one for one in topics if not allows(principal, host, Operation.READ, Resource.TOPIC, one)])
        if denied:
            asker = principal, host, self._api_names[1], ""
            for one in denied:
                self.trail.denied(self.authorizer, asker, Operation.READ, Resource.TOPIC, one)
        return denied

    def handle(self, broker: "Broker", api_key: int, handler: Handler, request: Request) -> "Answer | ResponseGenerator":
        """Return what the handler returns for what the client may have of the request."""
        check = CHECKS.get(api_key)
        if check is None and api_key != METADATA:
            return handler(broker, request)
        kept = request.kept()
        asking = self.asking(request.peer, api_key, request.client_id)
        if check is None:
            return guarded_metadata(broker, handler, kept, asking, self._seen, self.authorizer)

        def passed(message: Any) -> None:
            if check.is_admin:
                self.trail.changed(asking.asker, [*_names_in(message)][:NAMED_IN_TRAIL])

        return guarded(broker, api_key, handler, kept, check, asking, passed)

    def _read(self) -> Authorizer:
        return self._settings.with_rules(rules.read(self._store.read()))

    def _take(self, authorizer: Authorizer) -> None:
        if not self.is_loaded or authorizer.rules != self.authorizer.rules:
            log.info("access_rules", rules=len(authorizer.rules))
            self.authorizer = authorizer
        self.is_loaded = True
        self._metrics.access_rules = len(authorizer.rules)

    def _submit(
        self, job: Callable[[], Authorizer], done: Callable[[Authorizer], None], failed: Callable[[Exception], None]
    ) -> None:
        if not self._worker.submit(job, done, failed):
            failed(Overloaded())


def _names_in(message: Any) -> Collection[str]:
    """Return the names of what an administrative request is about."""
    names: dict[str, None] = {}
    for array in ("topics", "topic_names", "resources", "groups_names", "creations", "filters", "deletions", "upsertions"):
        for one in getattr(message, array, None) or ():
            if isinstance(one, str):
                names[one] = None
                continue
            for field in ("name", "resource_name", "resource_name_filter"):
                if isinstance(name := getattr(one, field, None), str):
                    names[name] = None
    return names.keys()
