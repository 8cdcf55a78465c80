"""One member of a consumer group in Kafka's own protocol: the thread that joins, beats, gives partitions back and joins again.

Eager, as Kafka's range assignor: at each rebalance all partitions are given back (the application may commit, its commits still
count in the old generation) before the member joins the next generation. The broker that coordinates the group is found again
whenever it says that it is not, or does not answer. A member is *sure* for one session time after it sent the last request that
the coordinator accepted; while that is not sure, nothing is delivered.
"""

import itertools
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from ...errors import HeadraceError
from ...runtime.backoff import Backoff
from ...runtime.logs import get_logger
from ...wire.errors import ErrorCode
from ..connection.cluster import Cluster
from ..connection.connection import Connection
from ..errors import LOGIN_REFUSALS, BrokerError, ClientError
from ..fetch.fetched import TopicPartition
from . import group_requests
from .group_requests import NO_GENERATION
from .membership import Starts
from .partition_holder import PartitionHolder
from .stalled_application import StalledApplication
from .zk_errors import PartitionsLost

log = get_logger(__name__)

COMMIT_LANE = "commit"
OTHERS_OWN_THEM = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})
LONGEST_BEAT_MS = 3_000
LEAVE_MS = 3_000
_REJOIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS})
_THROWN_OUT = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.MEMBER_ID_REQUIRED}
)
_lanes = itertools.count()


class GroupMembership:
    """A `Membership`. `begin` begins the thread, `stop_sharing` ends it, `leave` tells the group."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        group: str,
        consumer_id: str,
        topics: Sequence[str],
        session_timeout_ms: int,
        handover_ms: int,
        recheck_ms: int,
        stall: StalledApplication | None = None,
    ) -> None:
        """The application has `handover_ms` to release partitions. The group's leader looks for new partitions every
        `recheck_ms`.
        """
        self._cluster = cluster
        self._state: PartitionHolder
        self._starts: Starts
        self._group, self._consumer_id, self._topics = group, consumer_id, topics
        self._session_timeout_ms, self._handover_ms, self._recheck_ms = session_timeout_ms, handover_ms, recheck_ms
        self._stall = stall or StalledApplication(None)
        self._beat_ms = int(min(LONGEST_BEAT_MS, session_timeout_ms // 3, self._stall.look_every_ms))
        self._lane = f"group-{next(_lanes)}"
        self._member_id = ""
        self._generation = NO_GENERATION
        self._is_leader = False
        self._owned: set[TopicPartition] = set()
        self._known: Mapping[str, Sequence[int]] = {}
        """The partitions that the leader shared out."""
        self._recheck_at = 0.0
        self._sure_until = 0.0
        self._coordinator: Connection | None = None
        self._backoff = Backoff(first_ms=50, longest_ms=1_000)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"group-{consumer_id}", daemon=True)
        self.rebalance_count = 0

    def join(
        self, holder: PartitionHolder, starts: Starts, timeout_ms: int, *, on_brokers: Callable[[], None] | None = None
    ) -> None:
        """Return at once: the group is joined after `begin`, whenever its coordinator answers."""
        self._state, self._starts = holder, starts

    def begin(self) -> None:
        self._thread.start()

    def stop_sharing(self, timeout_ms: int = 10_000) -> None:
        """End the thread. The member stays in its group: its application may still commit."""
        self._stop.set()
        self._cluster.close_lane(self._lane)  # a join that waits for the others is cut short
        if self._thread.is_alive():
            self._thread.join(timeout_ms / 1000)
        self._coordinator = None  # its lane is closed

    def leave(self) -> None:
        """Leave the group, so that its other members take over at once, not after the session timeout."""
        if not self._member_id:
            return
        try:
            group_requests.leave(self._coordinator_now(), self._group, self._member_id, timeout_ms=LEAVE_MS)
        except HeadraceError as error:
            log.info("group_not_left", group=self._group, consumer=self._consumer_id, reason=str(error))
        self._member_id, self._generation, self._sure_until = "", NO_GENERATION, 0.0

    @property
    def generation(self) -> int:
        return self._generation

    def is_sure(self) -> bool:
        """Return whether the coordinator provably counts this member as alive."""
        return self._generation != NO_GENERATION and time.monotonic() < self._sure_until

    def commit(self, due: Mapping[TopicPartition, int], generation: int) -> None:
        """Commit next offsets of partitions of this generation; any thread. Raises PartitionsLost, and the client's errors,
        retriable while the coordinator moves or is away.
        """
        coordinator = self._cluster.coordinator(self._group, lane=COMMIT_LANE)
        try:
            group_requests.commit_offsets(coordinator, self._group, due, generation=generation, member_id=self._member_id)
        except BrokerError as error:
            if ErrorCode.of(error.code) in OTHERS_OWN_THEM:
                self._sure_until = 0.0
                raise PartitionsLost(self._group, self._consumer_id) from error
            raise

    # ---- the thread

    def _run(self) -> None:
        attempt = 0
        while not self._stop.is_set():
            try:
                self._turn()
                attempt = 0
                self._state.waits_for("group", None)
            except HeadraceError as error:
                if self._stop.is_set():
                    return
                if not error.retriable and not self._is_passing(error):
                    self._state.fail(error)
                    return
                if not attempt:
                    log.info("group_not_reached", group=self._group, consumer=self._consumer_id, reason=str(error))
                self._coordinator = None
                self._state.waits_for("group", error)
                self._stop.wait(self._backoff.wait_ms(attempt) / 1000)
                attempt += 1
            except Exception as error:  # a fault of ours must reach the application, not end in a silent thread
                log.error("group_membership_failed", group=self._group, consumer=self._consumer_id, exc_info=True)
                self._state.fail(error)
                return

    def _is_passing(self, error: HeadraceError) -> bool:
        if isinstance(error, LOGIN_REFUSALS):
            return self.rebalance_count > 0  # a member once: its credentials have expired or were replaced, and are waited for
        return isinstance(error, BrokerError) and ErrorCode.of(error.code) in _REJOIN | _THROWN_OUT

    def _turn(self) -> None:
        if self._stall.is_stalled():
            self._step_out()
            self._stop.wait(self._beat_ms / 1000)
            return
        if self._generation == NO_GENERATION:
            self._join()
            return
        self._stop.wait(self._beat_ms / 1000)
        if self._stop.is_set() or self._stall.is_stalled():
            return
        if self._beat() and not self._has_new_partitions():
            return
        self._give_back()
        self._generation = NO_GENERATION

    def _beat(self) -> bool:
        """Return whether the generation continues. A member that was thrown out has lost its partitions."""
        began = time.monotonic()
        try:
            group_requests.heartbeat(
                self._coordinator_now(), self._group, self._generation, self._member_id, timeout_ms=self._session_timeout_ms
            )
        except BrokerError as error:
            code = ErrorCode.of(error.code)
            if code in _REJOIN:
                self._sure_until = began + self._session_timeout_ms / 1000
                return False
            if code in _THROWN_OUT:
                self._thrown_out(str(error))
                return False
            raise
        self._sure_until = began + self._session_timeout_ms / 1000
        return True

    def _thrown_out(self, reason: str) -> None:
        log.warning("thrown_out_of_group", group=self._group, consumer=self._consumer_id, reason=reason)
        self._sure_until = 0.0
        self._state.lose_all()
        self._owned.clear()
        self._member_id = ""

    def _step_out(self) -> None:
        """Leave the group while the application is stalled, so that others do its work."""
        self._state.lose_all()
        self._owned.clear()
        self.leave()

    def _has_new_partitions(self) -> bool:
        """Return whether the group must share out again; only its leader looks."""
        if not self._is_leader or time.monotonic() < self._recheck_at:
            return False
        self._recheck_at = time.monotonic() + self._recheck_ms / 1000
        return self._partitions() != self._known

    def _partitions(self) -> dict[str, list[int]]:
        # A Metadata request that names a topic may create it; the list of all topics does not.
        existing = set(self._cluster.topics()).intersection(self._topics)
        self._cluster.refresh(sorted(existing))
        return {topic: self._cluster.partitions(topic) for topic in sorted(existing)}

    def _give_back(self) -> None:
        """Let the application release everything, and send heartbeats meanwhile, so that it has its time."""
        if not self._owned:
            return
        partitions, done = list(self._owned), threading.Event()
        in_time: list[bool] = []

        def revoke() -> None:
            in_time.append(self._state.revoke(partitions, timeout_ms=self._handover_ms))
            done.set()

        threading.Thread(target=revoke, name=f"revoke-{self._consumer_id}", daemon=True).start()
        while not done.wait(self._beat_ms / 1000) and not self._stop.is_set():
            try:
                if not self._beat() and not self._owned:
                    break  # thrown out meanwhile: the partitions are lost already
            except ClientError as error:
                log.info("group_not_reached", group=self._group, consumer=self._consumer_id, reason=str(error))
                self._coordinator = None
        if in_time == [False]:
            log.warning("handover_timed_out", group=self._group, consumer=self._consumer_id, after_ms=self._handover_ms)
        self._owned.clear()

    def _join(self) -> None:
        coordinator = self._coordinator_now()
        began = time.monotonic()
        try:
            joined = group_requests.join(
                coordinator,
                self._group,
                self._member_id,
                self._topics,
                session_timeout_ms=self._session_timeout_ms,
                rebalance_timeout_ms=self._handover_ms + self._session_timeout_ms,
            )
            self._member_id = joined.member_id
            shares: Mapping[str, Mapping[str, Sequence[int]]] = {}
            if joined.is_leader:
                self._known = self._partitions_of(joined.members)
                shares = group_requests.assigned(joined.members, self._known)
            began = time.monotonic()
            own = group_requests.sync(coordinator, self._group, joined, shares, timeout_ms=self._session_timeout_ms * 2)
        except BrokerError as error:
            if ErrorCode.of(error.code) in _THROWN_OUT:
                self._member_id = ""
            raise
        self._is_leader = joined.is_leader
        self._recheck_at = began + self._recheck_ms / 1000
        self._adopt(own, joined.generation, began)

    def _partitions_of(self, members: Mapping[str, Sequence[str]]) -> dict[str, list[int]]:
        """Return the partitions of all that the members subscribe to; ours are those that are checked again."""
        found = self._partitions()
        others = {topic for topics in members.values() for topic in topics} - set(self._topics)
        existing = set(self._cluster.topics()) & others
        return {**found, **{topic: self._cluster.partitions(topic) for topic in sorted(existing)}}

    def _adopt(self, own: set[TopicPartition], generation: int, began: float) -> None:
        # Earlier notices first: an application that has not released its old partitions gets no new ones.
        self._state.await_quiet(self._handover_ms)
        committed = group_requests.fetch_offsets(self._coordinator_now(), self._group, sorted(own)) if own else {}
        missing = [name for name in own if name not in committed]
        starts = {**committed, **(self._starts(missing) if missing else {})}
        self._generation, self._sure_until = generation, began + self._session_timeout_ms / 1000
        self._owned = own
        if own:
            self._state.place(own)
            self._state.assign(starts, committed=committed, generation=generation)
        self.rebalance_count += 1
        log.info("rebalanced", group=self._group, consumer=self._consumer_id, generation=generation, owned=_names(own))

    def _coordinator_now(self) -> Connection:
        if self._coordinator is None:
            self._coordinator = self._cluster.coordinator(self._group, lane=self._lane)
        return self._coordinator


def _names(partitions: Collection[TopicPartition]) -> list[str]:
    return [f"{topic}-{partition}" for topic, partition in sorted(partitions)]
