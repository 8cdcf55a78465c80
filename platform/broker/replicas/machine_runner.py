"""Gives events to the replication machine of one replica, and carries out its orders in their sequence.

Lives on the loop thread. An order that waits for the disk (a note, an epoch, a new log start) holds back the orders behind it and
the next events; swaps, cuts, flushes and messages are answered later. An order that fails stops the replica: nothing that follows
from it may happen.

Where no member is trusted by its disk, nothing waits for a flush, so the machine's request for one is left out (decision 69).
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ...runtime.logs import get_logger
from ...runtime.whole_file import is_disk_full
from ...wire.batch.record_batch import BatchHeader
from ...wire.errors import ErrorCode
from ..log import Appended as BatchAppended
from ..log import DeletedSegment, LogError, PartitionLog, erase_now
from ..partitions.open_logs import log_config
from ..partitions.partition import Acknowledged, Fault
from ..partitions.replica_log import ReplicaLog
from ..partitions.replica_note import ReplicaNote
from ..partitions.replicated_partition import ReplicatedPartition
from ..replication import events, lives, orders
from ..replication.facts import BatchFacts
from ..replication.model import step
from ..replication.replica import Leading, Noted, Replica, Stopped, Waiting
from ..replication.state import State
from ..settings.topic_settings import TopicSettings
from .leadership_check import LeadershipCheck
from .messages import Key
from .outgoing import Outgoing
from .rest import Rest
from .world import World

if TYPE_CHECKING:
    from .driver import ReplicaDriver

log = get_logger(__name__)

MOST_EVENTS = 10_000
"""Events that may wait behind an order. Later ticks and messages are left out: they come again."""
HEARD_MS = 250
"""How often a leader looks which followers poll. Far below any `replica.lag.time.max.ms`."""
SHORTEST_REST_MS, LONGEST_REST_MS = 1_000, 60_000
"""How long a replica that stopped on a full disk waits before it begins again: twice as long each time."""
CALM_MS = 10 * LONGEST_REST_MS
"""After so long without a stop, the next one is the first again."""


def noted_in(note: ReplicaNote) -> Noted:
    """Return what a folder's note says, in the machine's words."""
    return Noted(version=note.version, leader_epoch=note.leader_epoch, members=note.members, went_back=note.went_back)


class MachineRunner(ABC):
    """The part of a driver that runs the machine."""

    def __init__(
        self,
        world: World,
        key: Key,
        topic: str,
        index: int,
        replica_log: ReplicaLog,
        settings: TopicSettings,
        machine: Replica,
        *,
        replica_count: int,
    ) -> None:
        """`replica_count`: how many replicas the partition has; its node corrects it."""
        self.key, self.topic, self.index = key, topic, index
        self.machine = machine
        self.is_gone = False
        self.rest = Rest()
        self.outgoing: dict[int, Outgoing] = {}
        """By follower, within one epoch: what was sent and told."""
        self._world = world
        self._log = replica_log
        self._settings = settings
        self._replica_count = replica_count
        self._partition: ReplicatedPartition | None = None
        self._check = LeadershipCheck(lambda done: world.look_at_node(self._me, done), self._is_led_here)
        self._heard_ms = 0
        self._published_epoch: int | None = None
        """The epoch in which this process leads and takes appends."""
        self._events: deque[events.Event | Callable[[], events.Event]] = deque()
        self._todo: deque[orders.Order] = deque()
        self._results: list[events.Event] = []
        self._is_log_changed = False
        self._is_busy = False
        self._is_stepping = False
        self._has_grown = False
        self._new_waiters: list[tuple[int, Acknowledged]] = []
        self._waiters: dict[int, list[tuple[int, Acknowledged]]] = {}
        """By token: the deadline of each, and whom to tell."""
        self._next_token = 0
        self._incoming: dict[int, tuple[memoryview, BatchHeader]] = {}
        self._quiet_until_ms = 0
        """While another replica is asked to lead, followers get nothing new."""
        self._has_flush_failed = False
        self._stopped_ms = 0
        self._rest_ms = 0
        self._again_ms: int | None = None
        """When this replica, which stopped on a full disk, begins again."""
        self._refusals_acted_on: tuple[tuple[int, int], int] = ((-1, -1), 0)

    @property
    def log(self) -> PartitionLog:
        return self._log.log

    @property
    @abstractmethod
    def _me(self) -> "ReplicaDriver": ...

    def _is_led_here(self, node: State) -> bool:
        """Return whether the node has this broker's own epoch: no process leads in the epoch of another one."""
        return node.leader == self._world.broker_id and node.leader_epoch == self._published_epoch

    @abstractmethod
    def _look(self) -> None:
        """All orders were carried out: show what has changed."""

    @abstractmethod
    def _withdraw(self) -> None:
        """End the leadership for clients, now."""

    @abstractmethod
    def _damage_found(self, *, force: bool = False) -> None: ...

    @abstractmethod
    def _has_news(self, to: int, out: Outgoing) -> bool: ...

    # -- the machine -------------------------------------------------------------------------------

    def feed(self, event: events.Event) -> None:
        self._put(event)

    def _feed_fresh(self, event: events.Event) -> None:
        """Feed an event that may end a leadership: the machine must know the log's last batch before it."""
        self.rest.end()
        if isinstance(self.machine.role, Leading):
            self._put(lambda: events.LogChanged(log=self._log.facts(with_crc=True)))
        self._put(event)

    def _put(self, event: events.Event | Callable[[], events.Event]) -> None:
        if self.is_gone or (len(self._events) >= MOST_EVENTS and isinstance(event, events.Tick)):
            return
        self._events.append(event)
        if not self._is_stepping and not self._is_busy:
            self._run()

    def _log_has_changed(self) -> None:
        """Tell the machine of the log as it is when its turn comes: once, however often that was while it waited for the disk."""
        self.rest.end()
        self._is_log_changed = True
        if not self._is_stepping and not self._is_busy:
            self._run()

    def _run(self) -> None:
        self._is_stepping = True
        try:
            while not self._is_busy and not self.is_gone:
                if self._todo:
                    self._carry_out(self._todo.popleft())
                elif self._is_log_changed:
                    self._is_log_changed = False
                    self._results.append(events.LogChanged(log=self._log.facts(with_crc=self._published_epoch is None)))
                elif self._results:
                    self._events.extendleft(reversed(self._results))
                    self._results.clear()
                elif self._events:
                    event = self._events.popleft()
                    self._step(event() if callable(event) else event)
                else:
                    self._look()
                    if not self._events:
                        return
        finally:
            self._is_stepping = False

    def _hear(self) -> None:
        """Tell a leader's machine who polls. At rest, a follower tells nothing of its partitions."""
        now_ms = self._world.now_ms
        if now_ms - self._heard_ms >= HEARD_MS and isinstance(self.machine.role, Leading):
            self._heard_ms = now_ms
            self.machine, _ = step(self.machine, events.FollowersHeard(broker_ids=self._world.polling(), now_ms=now_ms))

    def _step(self, event: events.Event) -> None:
        self._hear()
        self.machine, todo = step(self.machine, event)
        role = self.machine.role
        if self._published_epoch is not None and not (isinstance(role, Leading) and role.leader_epoch == self._published_epoch):
            self._withdraw()
        self._todo.extend(todo)

    # -- orders ------------------------------------------------------------------------------------

    def _carry_out(self, order: orders.Order) -> None:
        world, replica_log = self._world, self._log
        match order:
            case orders.ReadNode():
                world.read_node(self._me)
            case orders.AskSwap(swap=swap):
                world.ask_swap(self._me, swap)
            case orders.Note(version=version, leader_epoch=epoch, members=members, went_back=went_back):
                self._wait_for(lambda: replica_log.note(version, epoch, members=members, went_back=went_back))
            case orders.BeginEpoch(leader_epoch=epoch, start_offset=start):
                self._wait_for(lambda: replica_log.begin_epoch(epoch, start))
                self._is_log_changed = True
            case orders.Cut() | orders.BeginEmpty():
                self._begin_cut(order)
            case orders.Jump(to_offset=to):
                self._on_log(lambda: self.log.jump_to(to, world.wall_ms))
                self._is_log_changed = True
            case orders.AppendCopied(batch=batch, leader_epoch=epoch):
                self._append_copied(batch, epoch)
            case orders.AskFlush():
                if self._waits_for_disk() and not self.machine.is_cutting:
                    world.ask_flush(self._me, 0)
            case orders.AdvanceStart(to_offset=to):
                self._advance_start(to)
            case orders.SendFetch(to=to, fetch=fetch):
                world.send_fetch(self._me, to, fetch)
            case orders.AnswerFetch(to=to, fetch_offset=fetch_offset):
                out = self.outgoing.setdefault(to, Outgoing())
                out.asked(fetch_offset, world.now_ms)
                if self._has_news(to, out):
                    world.has_answer(self._me, to)
            case orders.RefuseFetch(to=to):
                self.outgoing.pop(to, None)
                world.refuse(self._me, to, self.machine.noted.leader_epoch)
            case orders.Acknowledge(token=token):
                self._tell(self._waiters.pop(token, ()), None)
            case orders.Refuse(token=token, reason=reason):
                fault = ErrorCode.OFFSET_OUT_OF_RANGE if "watermark" in reason else ErrorCode.NOT_LEADER_OR_FOLLOWER
                self._tell(self._waiters.pop(token, ()), (fault, f"{self.topic}-{self.index}: {reason}"))
            case orders.HandOver(to=to, leader_epoch=epoch):
                world.hand_over(self._me, to, epoch)
            case orders.CloseConnections():
                self.outgoing.clear()
                world.forget_messages(self._me)
            case orders.Alarm(reason=reason):
                log.error("replica_stopped", topic=self.topic, partition=self.index, why=reason)
            case orders.Append():
                raise AssertionError("the machine is not asked for the appends of producers")

    def _wait_for(self, job: Callable[[], Any], then: Callable[[], None] | None = None) -> None:
        """Run a job on the disk; go on with the next order when it has succeeded. When it fails, the replica is damaged."""

        def done(_: Any) -> None:
            self._is_busy = False
            if not self.is_gone:
                if then is not None:
                    then()
                self._run()

        def failed(error: Exception) -> None:
            log.error("replica_order_failed", topic=self.topic, partition=self.index, why=str(error))
            self._is_busy = False
            if not self.is_gone:
                self._give_up(str(error), disk_was_full=is_disk_full(error))

        self._is_busy = True
        if not self._world.on_disk(job, done, failed):
            failed(OSError("too much waits for the disk already"))

    def _give_up(self, why: str, *, disk_was_full: bool = False) -> None:
        """An order was not carried out, so nothing that follows from it may be.

        Where the disk was full, the replica begins again later with what is in the folder, as after a start. A swap that may
        still land stays undecided. Otherwise an operator starts the broker again.
        """
        before = self.machine
        begins_again = disk_was_full and not self._has_flush_failed
        if begins_again:
            is_first = self._world.now_ms - self._stopped_ms > CALM_MS
            self._rest_ms = SHORTEST_REST_MS if is_first or not self._rest_ms else min(LONGEST_REST_MS, 2 * self._rest_ms)
            self._stopped_ms = self._world.now_ms
            self._again_ms = self._stopped_ms + self._rest_ms
        what_to_do = "make room: it then begins again" if begins_again else "see to the disk and start the broker again"
        self.rest.end()
        self._todo.clear()
        self._results.clear()
        self._is_log_changed = False
        self._events.clear()
        self._withdraw()
        self.outgoing.clear()
        self._world.forget_messages(self._me)
        waiters, self._waiters = self._waiters, {}
        for of_token in waiters.values():
            self._tell(of_token, self._not_leader())
        self.machine = Replica(
            topic_id=self.machine.topic_id,
            broker_id=self.machine.broker_id,
            start_number=self.machine.start_number,
            lives=self.machine.lives,
            min_insync_replicas=self.machine.min_insync_replicas,
            acks_on_disk=self.machine.acks_on_disk,
            silent_ms=self.machine.silent_ms,
            log=self._log.facts(with_crc=True),
            noted=noted_in(self._log.noted),
            role=Stopped(reason=f"an order of replication failed: {why}; {what_to_do}"),
            undecided=before.undecided,
            is_cut_off=bool(before.undecided),
            given_up_epoch=before.role.leader_epoch if isinstance(before.role, Leading) else before.given_up_epoch,
            is_leaving=before.is_leaving,
            now_ms=before.now_ms,
        )
        log.error("replica_stopped", topic=self.topic, partition=self.index, why=why, what_to_do=what_to_do)

    def _begin_again(self) -> None:
        """Run the replica again that stopped on a full disk."""
        self._again_ms = None

        def opened(_: Any) -> None:
            self._is_busy = False
            if not self.is_gone:
                self.log.config = log_config(self._settings)
                self._log.look_for_damage()
                self.machine = replace(self.machine, role=Waiting(), log=self._log.facts(with_crc=True))
                log.info("replica_begins_again", topic=self.topic, partition=self.index)
                self.feed(events.Tick(now_ms=self._world.now_ms))

        def failed(error: Exception) -> None:
            self._is_busy = False
            if not self.is_gone:
                self._give_up(str(error), disk_was_full=is_disk_full(error))

        if not self._log.must_open:
            opened(None)
            return
        self._is_busy = True
        if not self._world.behind_upkeep(self._log.open_again, opened, failed):
            failed(OSError("too much waits for the disk already"))

    def _begin_cut(self, order: orders.Cut | orders.BeginEmpty) -> None:
        world, replica_log = self._world, self._log
        if self._partition is not None:
            world.table.remove(self._partition)
            self._partition = None
        world.forget_flush(self._me)

        def done(_: Any) -> None:
            if not self.is_gone:
                self.log.config = log_config(self._settings)
                log.info("replica_cut", topic=self.topic, partition=self.index, to_offset=self.log.log_end_offset)
                self.feed(events.LogChanged(log=replica_log.facts(with_crc=True)))

        def failed(error: Exception) -> None:
            if not self.is_gone:
                log.error("replica_not_cut", topic=self.topic, partition=self.index, why=str(error))
                self._give_up(str(error), disk_was_full=is_disk_full(error) and isinstance(order, orders.Cut))

        def job() -> None:
            if isinstance(order, orders.Cut):
                replica_log.cut(order.to_offset)
            else:
                replica_log.begin_empty(order.at_offset, order.epochs)

        if not world.behind_upkeep(job, done, failed):
            failed(OSError("too much waits for the disk already"))

    def _on_log(self, change: Callable[[], Any]) -> bool:
        """Change the log. When that fails (a full disk, for example), leave out what was to follow; it comes again."""
        try:
            change()
        except LogError as error:
            log.error("replica_not_written", topic=self.topic, partition=self.index, why=str(error))
            self._todo = deque(one for one in self._todo if isinstance(one, orders.SendFetch | orders.ReadNode))
            self._damage_found(force=self.log.failure is not None)
            return False
        return True

    def _append_copied(self, batch: BatchFacts, leader_epoch: int) -> None:
        data, header = self._incoming[batch.position]
        now_ms = self._world.wall_ms

        def append() -> None:
            outcome = self.log.append_at(data, self.log.log_start_offset, now_ms, header=header, leader_epoch=leader_epoch)
            if not isinstance(outcome, BatchAppended):
                raise AssertionError(f"a batch that continues the log was not appended: {outcome}")

        if self._on_log(append):
            self._is_log_changed = True
            self._log.ends_with(header.next_offset, header.crc)
            if self._partition is not None:
                self._partition.touched[self._partition] = None

    def _advance_start(self, to_offset: int) -> None:
        """Delete the records before an offset, durably. Flushes first, by the one flush that a log has under way."""
        to_offset = min(to_offset, self.log.log_end_offset)
        partition = self._partition
        if partition is None or to_offset <= self.log.log_start_offset:
            return
        is_here = True

        def flushed(why: str | None) -> None:
            self._is_busy = False
            if self.is_gone:
                return
            if why is None and partition is self._partition:
                self._move_start(partition, to_offset)
            if not is_here:
                self._run()

        self._is_busy = True
        partition.when_flushed(to_offset, flushed)
        is_here = False

    def _move_start(self, partition: ReplicatedPartition, to_offset: int) -> None:
        try:
            job = self.log.start_job(to_offset, self._world.wall_ms, erase=self._erase)
        except LogError as error:
            log.error("replica_start_not_moved", topic=self.topic, partition=self.index, why=str(error))
            return
        self._is_log_changed = True
        if job is not None:

            def then() -> None:
                job.done()
                partition.start_moved()

            self._wait_for(job.run, then)

    def _erase(self, deleted: DeletedSegment) -> None:
        self._world.on_disk(partial(erase_now, deleted), lambda _: None, lambda _: None)

    def _waits_for_disk(self) -> bool:
        """Return whether a member counts by what is on its disk."""
        machine = self.machine
        if machine.acks_on_disk:
            return True
        states = [machine.node, *(swap.wanted for swap in machine.undecided)]
        return any(lives.counts_flushed(member.life) for state in states if state is not None for member in state.members)

    # -- those that wait ---------------------------------------------------------------------------

    def _end_late_waiters(self, now_ms: int) -> None:
        for token, waiters in list(self._waiters.items()):
            late = [each for each in waiters if each[0] <= now_ms]
            if late:
                waiters[:] = [each for each in waiters if each[0] > now_ms]
                if not waiters:
                    del self._waiters[token]
                why = f"not every in-sync replica of {self.topic}-{self.index} had the records in time"
                self._tell(late, (ErrorCode.REQUEST_TIMED_OUT, why))

    def _not_leader(self) -> Fault:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker leads {self.topic}-{self.index} no more: look up its leader"

    def _tell(self, waiters: Sequence[tuple[int, Acknowledged]], fault: Fault | None) -> None:
        for _, done in waiters:
            try:
                done(fault)
            except Exception:  # a fault of ours in one callback must not keep the others waiting
                log.error("acknowledgement_failed", exc_info=True)

    def _token(self, *waiters: tuple[int, Acknowledged]) -> int:
        self._next_token += 1
        self._waiters[self._next_token] = list(waiters)
        return self._next_token
