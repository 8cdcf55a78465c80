"""Assigns a consumer its partitions without a master: each member reads the same sorted lists and computes its own assignment.

The steps are those of the paper's section 3.2 and Kafka 0.7.2. (1) Read the group's members and the topics' partitions. (2) Give
back each partition that is no longer assigned: stop handing out, drop queued batches, let the application commit, delete the
owner node. (3) Claim new partitions with ephemeral owner nodes. (4) Begin at the registered offset or where `auto_offset_reset`
says.

Differences from Kafka 0.7.2: a partition that stays with its owner is neither given back nor interrupted. Where another member
still holds some, the free ones are kept and read, and the owners' nodes are watched. Nobody waits for anybody in a circle: to
give back never waits for a claim. Joins in quick succession are acted on together (`JoinBurst`).
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from ...coordination.assignment import assigned_to
from ...coordination.consumers import ConsumerRegistry, OffsetRegistry, OwnerRegistry, Roll
from ...coordination.errors import CoordinationError
from ...coordination.join_burst import JoinBurst, rest_ms
from ...coordination.session import Session
from ...errors import HeadraceError
from ...runtime.backoff import Backoff
from ...runtime.logs import get_logger
from ..fetch.fetched import TopicPartition
from .partition_holder import PartitionHolder
from .stalled_application import StalledApplication
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
    `again`: those that it is to give back although they may remain its own.
    """
    return Moves(
        give_back=sorted((set(held) - set(own)) | (set(held) & set(anew))), claim=sorted(set(own) - (set(adopted) - set(anew)))
    )


class _Adopted(NamedTuple):
    """How a partition is read: in which stream of this member, and of which topic of its name."""

    stream: int
    topic_id: UUID | None


GATHER_MS = 20
"""A member gives back several partitions at once: so long after the first, what became free is claimed together."""
ASK_AGAIN_MS = 200
"""How often a member looks whether it may share, before it has its first partition."""


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
        may_share: Callable[[Collection[str]], bool] = lambda _members: True,
        stall: StalledApplication | None = None,
        withdraw: Callable[[], None] = lambda: None,
        register: Callable[[], None] = lambda: None,
    ) -> None:
        """`starts` returns where partitions without a registered offset begin.

        A partition that another member holds for `patience_ms` fails the stream. If the application does not return within
        `handover_ms`, it loses the partitions being taken back. The lists are read again at least every `recheck_ms`, whatever
        the watches report. While the application is stalled, the member is withdrawn from its group.
        """
        self._session, self._state, self._partitions, self._starts = session, state, partitions, starts
        self._consumers, self._owners, self._offsets = ConsumerRegistry(session), OwnerRegistry(session), OffsetRegistry(session)
        self._group, self._consumer_id = group, consumer_id
        self._backoff, self._patience_ms = backoff, patience_ms
        self._handover_ms, self._recheck_ms, self._may_share = handover_ms, recheck_ms, may_share
        self._stall, self._withdraw, self._register = stall or StalledApplication(None), withdraw, register
        self.is_out = False
        """The application is stalled: this member owns nothing, whatever is still on its way. Any thread."""
        self._has_left = False
        self._generation = session.generation
        self._held: set[TopicPartition] = set()
        self._adopted: dict[TopicPartition, _Adopted] = {}
        self._waits_for: dict[TopicPartition, tuple[_Adopted, float]] = {}  # its own, since when others hold them
        self._roll: Roll | None = None
        self._joins = JoinBurst()
        self._act_at = float("inf")
        self._lists_due = True
        self._topics: dict[str, list[int]] | None = None
        self._read_topics_at = 0.0
        self._woken = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"rebalance-{consumer_id}", daemon=True)
        self.rebalance_count = 0
        """How often this member set out to give back or take partitions."""

    def start(self) -> None:
        self._woken.set()
        self._thread.start()

    def trigger(self, _reason: object = None) -> None:
        """Read the lists again soon; several calls may lead to one reading."""
        self._lists_due = True
        self._woken.set()

    def topics_changed(self) -> None:
        """Read the topics again, too."""
        self._topics = None
        self.trigger()

    def rest_ms(self) -> int:
        """Return how long changes of the group's list may be collected before they are reported."""
        return rest_ms(0 if self._roll is None else len(self._roll.members))

    def stop(self, timeout_ms: int = 10_000) -> None:
        """End the thread; claims remain until the session ends."""
        self._stop.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(timeout_ms / 1000)

    def _freed(self, _event: object) -> None:
        """Claim again what others held. Called on kazoo's thread."""
        self._woken.set()

    def _run(self) -> None:
        attempt = 0
        while not self._stop.is_set():
            is_woken = self._woken.wait(self._wait_s(attempt))
            self._woken.clear()
            if self._stop.is_set():
                return
            try:
                if self._stall.is_stalled():
                    self._step_out()
                    continue
                if self._has_left:
                    self._come_back()
                if is_woken and not self._lists_due and not attempt:
                    self._claim_freed()
                else:
                    self._lists_due = False
                    self._rebalance()
                attempt = 0
                self._check_patience()
            except HeadraceError as error:
                if not error.retriable:
                    self._state.fail(error)
                    return
                attempt += 1
                if attempt == 1:
                    log.info("rebalance_postponed", group=self._group, consumer=self._consumer_id, reason=str(error))
            except Exception as error:  # a fault of ours must reach the application, not end in a silent thread
                log.error("rebalance_failed", group=self._group, consumer=self._consumer_id, exc_info=True)
                self._state.fail(error)
                return

    def _wait_s(self, attempt: int) -> float:
        if attempt:
            return self._backoff.wait_ms(attempt - 1) / 1000
        now = time.monotonic()
        patience_ends = (since + self._patience_ms / 1000 for _, since in self._waits_for.values())
        ends = [self._act_at, now + self._stall.look_every_ms / 1000, *patience_ends]
        return max(0.0, min(self._recheck_ms / 1000, min(ends) - now))

    def _step_out(self) -> None:
        """Leave the group while the application is stalled, so that others do its work."""
        self.is_out = True
        if self._has_left:
            return
        self._state.lose_all()
        self._adopted.clear()
        self._waits_for.clear()
        self._give_back(sorted(self._held))
        self._withdraw()
        self._has_left = True

    def _come_back(self) -> None:
        self._register()
        self._has_left = self.is_out = False
        self._lists_due = True

    def _rebalance(self) -> None:
        generation = self._session.generation
        if generation != self._generation:
            # Consumer and owner nodes were deleted with the session. What is held stays noted: a claim that was on its way may
            # have been made in the new session.
            self._state.lose_all()
            self._adopted.clear()
            self._generation = generation
        self._act_at = float("inf")
        if not self._session.is_sure():
            self._waits_for.clear()
            return  # the session triggers again when it is sure
        self._roll = self._consumers.roll(self._group, self._roll)
        members = self._roll.members
        existing = self._topics_now()
        # A member that is not in the list (its registration is not renewed yet) owns nothing; the watch on the list triggers.
        placed = self._state.place({TopicPartition(*name) for name in assigned_to(self._consumer_id, members, existing)})
        now = {name: _Adopted(stream, self._partitions.topic_ids.get(name.topic)) for name, stream in placed.items()}
        self._drop_gone(existing)
        todo = moves(self._held, self._adopted, now, [name for name, was in self._adopted.items() if now.get(name) != was])
        self._waits_for = {name: waits for name, waits in self._waits_for.items() if now.get(name) == waits[0]}
        if not self._is_time(members, len(todo.give_back) + len(todo.claim)):
            return
        if not todo.give_back and not todo.claim:
            return
        if not self._may_share(members):
            self._act_at = time.monotonic() + ASK_AGAIN_MS / 1000
            return
        self._give_back(todo.give_back)
        if not self._state.await_quiet(0):
            # The application has not processed earlier notices: it gets no new partition before it asks for its next message.
            self._state.await_quiet(self._handover_ms)
            self.trigger()
            return
        self._claim({name: now[name] for name in todo.claim})
        self.rebalance_count += 1
        log.info(
            "rebalanced",
            group=self._group,
            consumer=self._consumer_id,
            members=len(members),
            given_back=_names(todo.give_back),
            taken=_names([name for name in todo.claim if name in self._adopted]),
            waits_for=_names(self._waits_for),
            owned=len(self._adopted),
        )

    def _topics_now(self) -> dict[str, list[int]]:
        """Return the topics' partitions. They are read when they may have changed, and every `recheck_ms`: a large topic is tens
        of kilobytes, and a group's list changes more often.
        """
        now, found = time.monotonic(), self._topics
        if found is None or now >= self._read_topics_at:
            self._topics = found = {}  # before it is read: a change that is reported meanwhile has it read again
            try:
                found.update(self._partitions.read())
            except BaseException:
                self._topics = None
                raise
            self._read_topics_at = now + self._recheck_ms / 1000
        return found

    def _is_time(self, members: Collection[str], moving: int) -> bool:
        """Return whether to act now; else `_act_at` says when the lists are read again."""
        now_ms = time.monotonic_ns() // 1_000_000
        due_ms = self._joins.act_at_ms(members, moving, now_ms)
        self._act_at = due_ms / 1000 if due_ms > now_ms else float("inf")
        return due_ms <= now_ms

    def _check_patience(self) -> None:
        """Raise RebalanceFailed if others hold this member's partitions for too long. Then it gives back what it has."""
        now = time.monotonic()
        waited = {name: int((now - since) * 1000) for name, (_, since) in self._waits_for.items()}
        longest = max(waited, key=waited.__getitem__, default=None)
        if longest is None or waited[longest] < self._patience_ms:
            return
        with suppress(CoordinationError):
            self._give_back(sorted(self._held))
        why = f"{longest.topic}-{longest.partition} is still another member's"
        raise RebalanceFailed(self._group, self._consumer_id, waited[longest], why)

    def _drop_gone(self, existing: Mapping[str, Collection[int]]) -> None:
        """Take away what is read of topics that were deleted, or deleted and created again. Nothing of it is committed: the next
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
            self._owners.release_many(self._group, adopted, claimed_in=self._generation)
            self._held.difference_update(adopted)
        if others := [name for name in partitions if name in self._held]:
            self._owners.release_many(self._group, others)
            self._held.difference_update(others)

    def _claim_freed(self) -> None:
        if self._waits_for and not self._stop.wait(GATHER_MS / 1000):
            self._claim({name: wanted for name, (wanted, _) in self._waits_for.items()})

    def _claim(self, wanted: "Mapping[TopicPartition, _Adopted]") -> None:
        """Claim partitions and read those that are free; the others are waited for. After an error they are claimed again."""
        if not wanted:
            return
        self._held.update(wanted)  # before the calls: if a response is lost, the node may be ours
        owned = self._owners.claim_many(self._group, wanted, self._consumer_id, self._freed)
        mine = {name: adopted for name, adopted in wanted.items() if name in owned}
        self._held.difference_update(wanted.keys() - mine.keys())
        if mine:
            self._begin_reading(mine)
        now = time.monotonic()
        self._waits_for = {
            name: (adopted, self._waits_for.get(name, (adopted, now))[1]) for name, adopted in wanted.items() if name not in mine
        }

    def _begin_reading(self, mine: "Mapping[TopicPartition, _Adopted]") -> None:
        registered = {TopicPartition(*name): offset for name, offset in self._offsets.get_many(self._group, mine).items()}
        missing = [name for name in mine if name not in registered]
        starts = {**registered, **(self._starts(missing) if missing else {})}
        if self._session.generation != self._generation:
            self.trigger()  # claimed in a session that is gone: claim them again
            return
        self._adopted.update(mine)
        self._state.assign(starts, committed=registered, generation=self._generation)


def _names(partitions: Collection[TopicPartition]) -> list[str]:
    return [f"{topic}-{partition}" for topic, partition in partitions]
