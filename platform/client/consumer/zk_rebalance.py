"""Assigns a consumer its partitions without a master: each member reads the same sorted lists and computes its own assignment.

The steps are those of the paper's section 3.2 and Kafka 0.7.2. (1) Read the group's members and the topics' partitions. (2) Give
back each partition that is no longer assigned: stop handing out, drop queued batches, let the application commit, delete the
owner node. (3) Claim new partitions with ephemeral owner nodes. If another member still holds one, delete the nodes just made,
wait and begin again. (4) When all are claimed, begin at the registered offset or where `auto_offset_reset` says. One difference
from Kafka 0.7.2: a partition that stays with its owner is neither given back nor interrupted.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from ...coordination.assignment import assigned_to
from ...coordination.consumers import ConsumerRegistry, OffsetRegistry, OwnerRegistry
from ...coordination.errors import CoordinationError
from ...coordination.session import Session
from ...errors import HeadraceError
from ...runtime.backoff import Backoff
from ...runtime.logs import get_logger
from ..fetch.fetched import TopicPartition
from .partition_holder import PartitionHolder
from .zk_errors import RebalanceFailed
from .zk_partitions import SubscribedPartitions

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """What a member must give back and claim to reach its assignment."""

    give_back: list[TopicPartition]
    claim: list[TopicPartition]


def moves(
    held: Collection[TopicPartition],
    adopted: Collection[TopicPartition],
    own: Collection[TopicPartition],
    anew: Collection[TopicPartition] = (),
) -> Moves:
    """Return the moves, sorted. `held`: all partitions that may have this member's owner node. `adopted`: those it reads from.
    `anew`: those that it is to give back although they may remain its own.
    """
    return Moves(
        give_back=sorted((set(held) - set(own)) | (set(held) & set(anew))), claim=sorted(set(own) - (set(adopted) - set(anew)))
    )


class _Adopted(NamedTuple):
    """How a partition is read: in which stream of this member, and of which topic of its name."""

    stream: int
    topic_id: UUID | None


class Conflict(CoordinationError):
    """Another member still owns a partition."""

    retriable = True

    def __init__(self, partition: TopicPartition) -> None:
        self.topic, self.partition = partition
        super().__init__(f"{partition.topic}-{partition.partition} is still another member's")


class Rebalancer:
    """The thread that keeps one member's claims in step with its group. Anything that may change the lists calls `trigger`."""

    def __init__(
        self,
        session: Session,
        state: PartitionHolder,
        partitions: SubscribedPartitions,
        starts: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]],
        *,
        group: str,
        consumer_id: str,
        backoff: Backoff,
        patience_ms: int,
        handover_ms: int,
        recheck_ms: int,
    ) -> None:
        """`starts` returns where partitions without a registered offset begin.

        A conflict that lasts for `patience_ms` fails the stream. If the application does not return within `handover_ms`, it
        loses the partitions being taken back. The lists are read again at least every `recheck_ms`, whatever the watches report.
        """
        self._session, self._state, self._partitions, self._starts = session, state, partitions, starts
        self._consumers, self._owners, self._offsets = ConsumerRegistry(session), OwnerRegistry(session), OffsetRegistry(session)
        self._group, self._consumer_id = group, consumer_id
        self._backoff, self._patience_ms = backoff, patience_ms
        self._handover_ms, self._recheck_ms = handover_ms, recheck_ms
        self._generation = session.generation
        self._held: set[TopicPartition] = set()
        self._adopted: dict[TopicPartition, _Adopted] = {}
        self._members: dict[str, dict[str, int]] = {}
        self._read_again_at = 0.0
        self._due = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"rebalance-{consumer_id}", daemon=True)
        self.rebalance_count = 0
        """How often this member gave back or took partitions."""

    def start(self) -> None:
        self._due.set()
        self._thread.start()

    def trigger(self, _reason: object = None) -> None:
        """Read the lists again soon; several calls may lead to one reading."""
        self._due.set()

    def stop(self, timeout_ms: int = 10_000) -> None:
        """End the thread; claims remain until the session ends."""
        self._stop.set()
        self._due.set()
        if self._thread.is_alive():
            self._thread.join(timeout_ms / 1000)

    def _run(self) -> None:
        attempt, struggling_since = 0, 0.0
        while not self._stop.is_set():
            self._due.wait((self._backoff.wait_ms(attempt - 1) if attempt else self._recheck_ms) / 1000)
            self._due.clear()
            if self._stop.is_set():
                return
            try:
                self._rebalance()
                attempt = 0
            except HeadraceError as error:
                if not error.retriable:
                    self._state.fail(error)
                    return
                is_new = not attempt
                attempt += 1
                if is_new:
                    struggling_since = time.monotonic()
                    log.info("rebalance_postponed", group=self._group, consumer=self._consumer_id, reason=str(error))
                waited_ms = int((time.monotonic() - struggling_since) * 1000)
                if isinstance(error, Conflict) and waited_ms > self._patience_ms:
                    self._state.fail(RebalanceFailed(self._group, self._consumer_id, waited_ms, str(error)))
                    return
            except Exception as error:  # a fault of ours must reach the application, not end in a silent thread
                log.error("rebalance_failed", group=self._group, consumer=self._consumer_id, exc_info=True)
                self._state.fail(error)
                return

    def _rebalance(self) -> None:
        generation = self._session.generation
        if generation != self._generation:
            # Consumer and owner nodes were deleted with the session: there is nothing to give back.
            self._state.lose_all()
            self._held.clear()
            self._adopted.clear()
            self._generation = generation
        if not self._session.is_sure():
            return  # the session triggers again when it is sure
        members = self._members_now()
        existing = self._partitions.read()
        # A member that is not in the list (its registration is not renewed yet) owns nothing; the watch on the list triggers.
        placed = self._state.place({TopicPartition(*name) for name in assigned_to(self._consumer_id, members, existing)})
        now = {name: _Adopted(stream, self._partitions.topic_ids.get(name.topic)) for name, stream in placed.items()}
        self._drop_gone(existing)
        todo = moves(self._held, self._adopted, now, [name for name, was in self._adopted.items() if now.get(name) != was])
        if not todo.give_back and not todo.claim:
            return
        self._give_back(todo.give_back)
        if not self._state.await_quiet(0):
            # The application has not processed earlier notices: it gets no new partition before it asks for its next message.
            self._state.await_quiet(self._handover_ms)
            self._due.set()
            return
        self._claim({name: now[name] for name in todo.claim}, generation)
        self.rebalance_count += 1
        log.info(
            "rebalanced",
            group=self._group,
            consumer=self._consumer_id,
            members=len(members),
            given_back=_names(todo.give_back),
            taken=_names(todo.claim),
            owned=len(self._adopted),
        )

    def _members_now(self) -> dict[str, dict[str, int]]:
        """Return the group's members. Between two rechecks, only the new ones are read.

        Where a hundred join at once, each of them would read each other's registration a hundred times.
        """
        now = time.monotonic()
        is_due = now >= self._read_again_at
        self._members = self._consumers.members(self._group, None if is_due else self._members)
        if is_due:
            self._read_again_at = now + self._recheck_ms / 1000
        return self._members

    def _drop_gone(self, existing: Mapping[str, Collection[int]]) -> None:
        """Take away what is read of topics that were deleted, or deleted and made anew. Nothing of it is committed: the next
        topic of that name has other records, and they would be skipped up to there.
        """
        ids = self._partitions.topic_ids
        gone = [
            name
            for name, was in self._adopted.items()
            if name.partition not in existing.get(name.topic, ()) or was.topic_id not in (None, ids.get(name.topic))
        ]
        if gone:
            log.warning("topics_gone", group=self._group, consumer=self._consumer_id, partitions=_names(gone))
            self._state.lose(gone)
            for partition in gone:
                del self._adopted[partition]

    def _give_back(self, partitions: list[TopicPartition]) -> None:
        adopted = [name for name in partitions if name in self._adopted]
        if adopted:
            if not self._state.revoke(adopted, timeout_ms=self._handover_ms):
                log.warning("handover_timed_out", group=self._group, partitions=_names(adopted), after_ms=self._handover_ms)
            for partition in adopted:
                del self._adopted[partition]
        for partition in partitions:
            self._owners.release(self._group, *partition)
            self._held.discard(partition)

    def _claim(self, partitions: "Mapping[TopicPartition, _Adopted]", generation: int) -> None:
        if not partitions:
            return
        try:
            for partition in partitions:
                self._held.add(partition)  # before the call: if the response is lost, the node may be ours
                if not self._owners.claim(self._group, *partition, self._consumer_id):
                    self._held.discard(partition)
                    raise Conflict(partition)
            registered = {
                TopicPartition(*name): offset for name, offset in self._offsets.get_many(self._group, partitions).items()
            }
            missing = [name for name in partitions if name not in registered]
            starts = {**registered, **(self._starts(missing) if missing else {})}
            if self._session.generation != generation:
                raise Conflict(next(iter(partitions)))  # claimed in a session that is gone
        except HeadraceError:
            for partition in partitions:
                if partition in self._held:
                    self._owners.release(self._group, *partition)
                    self._held.discard(partition)
            raise
        self._adopted.update(partitions)
        self._state.assign(starts, committed=registered, generation=generation)


def _names(partitions: Collection[TopicPartition]) -> list[str]:
    return [f"{topic}-{partition}" for topic, partition in partitions]
