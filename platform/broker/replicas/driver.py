"""Runs the replication machine of one replica: gives it events, and carries out its orders in their sequence.

Lives on the loop thread. An order that waits for the disk (a note, an epoch, a new log start) holds back the orders behind it and
the next events; swaps, cuts, flushes and messages are answered later. Appends of producers do not wait: they are allowed as long
as this process leads, and are told to the machine at the end of the loop's turn, all of a turn together.

Where no member is trusted by its disk, nothing waits for a flush, so the machine's request for one is left out (decision 69).
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from ...runtime.logs import get_logger
from ...wire.batch.record_batch import BatchHeader, crc_matches, iter_batches
from ...wire.errors import CorruptBatch, ErrorCode
from ..log import Appended as BatchAppended
from ..log import DeletedSegment, LogError, PartitionLog, erase_now
from ..partitions.flush_scheduler import Flushable
from ..partitions.open_logs import log_config
from ..partitions.partition import Acknowledged, AskFlush, Fault, PartitionTable
from ..partitions.replica_log import ReplicaLog
from ..partitions.replicated_partition import ReplicatedPartition
from ..replication import events, lives, orders
from ..replication.facts import BatchFacts, FetchAnswer, ReplicaFetch
from ..replication.model import step
from ..replication.replica import Following, Leading, Noted, Replica, Stopped, visible_end
from ..replication.state import State
from ..replication.suspicion import Signs
from ..replication.swaps import Answer as SwapAnswer
from ..replication.swaps import Swap
from ..settings.topic_settings import TopicSettings, min_insync
from .messages import Answer, Key
from .outgoing import Outgoing

log = get_logger(__name__)

MOST_WAITERS = 10_000
"""Acknowledgements that may wait for one replica. Each is of all that one turn of the loop appended or of one DeleteRecords."""
MOST_EVENTS = 10_000
"""Events that may wait behind an order. Later ticks and messages are left out: they come again."""

Done = Callable[[Any], None]
Failed = Callable[[Exception], None]


class World(Protocol):
    """What a driver needs of its broker (`replicas.Replicas`)."""

    broker_id: int
    table: PartitionTable
    ask_flush: AskFlush

    @property
    def now_ms(self) -> int:
        """Monotonic."""
        ...

    @property
    def wall_ms(self) -> int: ...

    def at_turn_end(self, function: Callable[[], None]) -> None: ...

    def on_disk(self, job: Callable[[], Any], done: Done, failed: Failed) -> bool:
        """Run a short job that waits for the disk. False: too much waits."""
        ...

    def behind_upkeep(self, job: Callable[[], Any], done: Done, failed: Failed) -> bool:
        """Run a job when no upkeep of this log is under way."""
        ...

    def forget_flush(self, target: Flushable) -> None: ...

    def flush_has_failed(self) -> None:
        """Note durably that the folder's lives end with this process."""
        ...

    def read_node(self, driver: "ReplicaDriver") -> None: ...

    def ask_swap(self, driver: "ReplicaDriver", swap: Swap) -> None: ...

    def send_fetch(self, driver: "ReplicaDriver", to: int, fetch: ReplicaFetch) -> None: ...

    def has_answer(self, driver: "ReplicaDriver", to: int) -> None:
        """There is something to send to a follower."""
        ...

    def refuse(self, driver: "ReplicaDriver", to: int, leader_epoch: int) -> None: ...

    def forget_messages(self, driver: "ReplicaDriver") -> None:
        """Send nothing any more that waits to be sent for this replica."""
        ...


class ReplicaDriver:
    """One replica. `start` gives the first event. As a `Flushable` it takes the flushes of its log."""

    def __init__(
        self,
        world: World,
        key: Key,
        topic: str,
        index: int,
        replica_log: ReplicaLog,
        settings: TopicSettings,
        machine: Replica,
    ) -> None:
        self.key, self.topic, self.index = key, topic, index
        self.machine = machine
        self.is_gone = False
        self.outgoing: dict[int, Outgoing] = {}
        """By follower, within one epoch: what was sent and told."""
        self._world = world
        self._log = replica_log
        self._settings = settings
        self._partition: ReplicatedPartition | None = None
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
        self._refusals_acted_on: tuple[tuple[int, int], int] = ((-1, -1), 0)

    # -- what others ask ---------------------------------------------------------------------------

    @property
    def log(self) -> PartitionLog:
        return self._log.log

    @property
    def acks_on_disk(self) -> bool:
        return self._settings.acks_on_disk

    @property
    def flush_target(self) -> Flushable:
        return self

    @property
    def node(self) -> State | None:
        return self.machine.node

    @property
    def following(self) -> Following | None:
        role = self.machine.role
        return role if isinstance(role, Following) else None

    @property
    def leads(self) -> bool:
        return self._published_epoch is not None

    @property
    def has_stopped(self) -> bool:
        return isinstance(self.machine.role, Stopped)

    def lags(self) -> dict[int, int]:
        role = self.machine.role
        if not isinstance(role, Leading):
            return {}
        end = self.log.log_end_offset
        return {broker_id: max(0, end - one.written_offset) for broker_id, one in role.progress.items()}

    def why_no_append(self, acks: int) -> Fault | None:
        node = self.machine.node
        if self._published_epoch is None or node is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {self.topic}-{self.index}: look up its leader"
        if acks == -1:
            least = self.machine.min_insync_replicas
            if len(node.members) < least:
                return (
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    f"{len(node.members)} replicas of {self.topic}-{self.index} are in sync, min.insync.replicas is {least}",
                )
            if len(self._waiters) + len(self.machine.producers) >= MOST_WAITERS:
                return ErrorCode.NOT_ENOUGH_REPLICAS, f"{MOST_WAITERS} acknowledgements wait for the followers already"
        return None

    def when_acknowledged(self, timeout_ms: int, done: Acknowledged) -> None:
        self._new_waiters.append((self._world.now_ms + max(1, timeout_ms), done))
        self.log_changed()

    def delete_records(self, offset: int, timeout_ms: int, done: Acknowledged) -> None:
        token = self._token((self._world.now_ms + max(1, timeout_ms), done))
        self.feed(events.DeleteRecords(token=token, offset=offset))

    def log_changed(self) -> None:
        if not self._has_grown:
            self._has_grown = True
            self._world.at_turn_end(self._tell_growth)

    def _tell_growth(self) -> None:
        self._has_grown = False
        waiters, self._new_waiters = self._new_waiters, []
        if self.is_gone or self._published_epoch is None:
            self._tell(waiters, self._not_leader())
            return
        if waiters:
            self._put(partial(self._growth, self._token(*waiters)))
        else:
            self._put(lambda: events.LogChanged(log=self._log.facts(with_crc=not self.leads)))

    def _growth(self, token: int) -> events.Event:
        if isinstance(self.machine.role, Leading):
            return events.Appended(token=token, log=self._log.facts(with_crc=False))
        self._tell(self._waiters.pop(token, ()), self._not_leader())
        return events.LogChanged(log=self._log.facts(with_crc=True))

    def _token(self, *waiters: tuple[int, Acknowledged]) -> int:
        self._next_token += 1
        self._waiters[self._next_token] = list(waiters)
        return self._next_token

    # -- flushes -----------------------------------------------------------------------------------

    def flushed(self) -> None:
        if self.is_gone or self.machine.is_cutting:
            return
        if self._partition is not None:
            self._partition.flushed()
        flushed = self.log.flushed_offset
        self.feed(events.FlushDone(incarnation=self._log.incarnation, flushed_offset=flushed))

    def flush_failed(self, why: str) -> None:
        self._world.flush_has_failed()
        if self.is_gone:
            return
        if self._partition is not None:
            self._partition.flush_failed(why)
        self._damage_found(force=True)

    def _damage_found(self, *, force: bool = False) -> None:
        if not self.machine.is_cutting and (self._log.look_for_damage() or force):
            self._log.is_damaged = True
            log.error(
                "replica_damaged",
                topic=self.topic,
                partition=self.index,
                what_to_do="while other replicas are in sync: stop this broker, move the partition's folder away, start it",
            )
            self.feed(events.LogChanged(log=self._log.facts(with_crc=not self.leads)))

    # -- events ------------------------------------------------------------------------------------

    def start(self) -> None:
        self._look()
        self.feed(events.Tick(now_ms=self._world.now_ms))

    def tick(self) -> None:
        now_ms = self._world.now_ms
        self._end_late_waiters(now_ms)
        if not self.machine.is_cutting:
            self._damage_found()
        self.feed(events.Tick(now_ms=now_ms))

    def node_read(self, state: State | None) -> None:
        self._feed_fresh(events.NodeRead(state=state, is_synced=True))

    def swap_answered(self, swap: Swap, answer: SwapAnswer) -> None:
        self._feed_fresh(events.SwapAnswered(swap=swap, answer=answer))

    def configure(self, settings: TopicSettings, replica_count: int) -> None:
        if settings is self._settings:
            return
        self._settings = settings
        if not self.machine.is_cutting:
            self.log.config = log_config(settings)
        if self._partition is not None:
            self._partition.configure(settings)
        least = min_insync(settings.min_insync_replicas, replica_count)
        self.feed(events.Configured(min_insync_replicas=least, acks_on_disk=settings.acks_on_disk))

    def suspect(self, signs: Signs, dead: frozenset[int]) -> None:
        """Tell the machine that the leader does not answer."""
        role, node = self.machine.role, self.machine.node
        if not isinstance(role, Following) or node is None or self._is_busy:
            return
        registration = (node.leader, node.start_number)
        acted = self._refusals_acted_on[1] if self._refusals_acted_on[0] == registration else 0
        self.feed(events.LeaderSilent(signs=replace(signs, refusals_acted_on=acted), dead=dead))
        if not isinstance(self.machine.role, Following):
            self._refusals_acted_on = registration, acted + 1
            log.info(
                "replica_takes_over",
                topic=self.topic,
                partition=self.index,
                leader=node.leader,
                leader_epoch=node.leader_epoch,
                port_refuses=signs.is_port_refusing,
                registered=signs.is_registered,
            )

    def take_fetch(self, fetch: ReplicaFetch) -> None:
        """Give a follower's fetch to the machine, with what this log holds there."""

        def event() -> events.Event:
            known = (None, None) if self.machine.is_cutting else self._log.batch_before(fetch.written_offset)
            return events.FetchReceived(fetch=fetch, own_epoch=known[0], own_crc=known[1], now_ms=self._world.now_ms)

        self._put(event)

    def take_refusal(self, leader_epoch: int) -> None:
        self.feed(events.FetchRefused(leader_epoch=leader_epoch))

    def take_answer(self, answer: Answer) -> None:
        """Give a leader's answer to the machine. Its bytes are used until this returns, or later if the machine is busy."""
        if self.machine.is_cutting or len(self._events) >= MOST_EVENTS:
            return
        facts: list[BatchFacts] = []
        incoming: dict[int, tuple[memoryview, BatchHeader]] = {}
        try:
            for header, batch in iter_batches(answer.batches):
                is_sound = header.is_dense and crc_matches(batch, 0, header.size_bytes)
                facts.append(
                    BatchFacts(position=header.position, next_offset=header.next_offset, crc=header.crc, is_sound=is_sound)
                )
                incoming[header.position] = (memoryview(batch), header)
        except CorruptBatch:
            pass  # What is before it may be taken. The rest is asked for again.
        event = events.AnswerReceived(
            answer=FetchAnswer(
                topic_id=self.machine.topic_id,
                leader=answer.leader,
                leader_epoch=answer.leader_epoch,
                fetch_offset=answer.fetch_offset,
                batches=tuple(facts),
                epochs=answer.epochs,
                gaps=answer.gaps,
                high_watermark=answer.high_watermark,
                log_start_offset=answer.log_start_offset,
            )
        )

        def take() -> events.Event:
            self._incoming = incoming
            return event

        self._put(take)

    def end(self) -> None:
        """The topic is gone, or the broker stops: nothing is done any more."""
        if self.is_gone:
            return
        self.is_gone = True
        self._world.forget_messages(self)
        self._world.forget_flush(self)
        self._events.clear()
        self._todo.clear()
        self._withdraw()
        if self._partition is not None:
            self._world.table.remove(self._partition)
            self._partition = None
        waiters, self._waiters = self._waiters, {}
        for of_token in (*waiters.values(), self._new_waiters):
            self._tell(of_token, self._not_leader())
        self._new_waiters = []

    # -- the machine -------------------------------------------------------------------------------

    def feed(self, event: events.Event) -> None:
        self._put(event)

    def _feed_fresh(self, event: events.Event) -> None:
        """Feed an event that may end a leadership: the machine must know the log's last batch before it."""
        if isinstance(self.machine.role, Leading):
            self._put(lambda: events.LogChanged(log=self._log.facts(with_crc=True)))
        self._put(event)

    def _put(self, event: events.Event | Callable[[], events.Event]) -> None:
        if self.is_gone or (len(self._events) >= MOST_EVENTS and isinstance(event, events.Tick)):
            return
        self._events.append(event)
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
                    self._results.append(events.LogChanged(log=self._log.facts(with_crc=not self.leads)))
                elif self._results:
                    self._events.extendleft(reversed(self._results))
                    self._results.clear()
                elif self._events:
                    event = self._events.popleft()
                    self._step(event() if callable(event) else event)
                else:
                    self._look()
                    return
        finally:
            self._is_stepping = False

    def _step(self, event: events.Event) -> None:
        self.machine, todo = step(self.machine, event)
        role = self.machine.role
        if self._published_epoch is not None and not (isinstance(role, Leading) and role.leader_epoch == self._published_epoch):
            self._withdraw()
        self._todo.extend(todo)

    def _look(self) -> None:
        """After all orders were carried out: show what has changed."""
        role = self.machine.role
        if isinstance(role, Leading):
            if self._published_epoch is None and not self.machine.is_cutting:
                self._publish(role)
            partition = self._partition
            if partition is not None:
                partition.show(visible_end(self.machine))
            for to, out in self.outgoing.items():
                if self._has_news(to, out):
                    self._world.has_answer(self, to)
        elif self._partition is None and not self.machine.is_cutting:
            self._keep()

    # -- the partition -----------------------------------------------------------------------------

    def _publish(self, role: Leading) -> None:
        if self._partition is not None:
            self._world.table.remove(self._partition)
        self._published_epoch = role.leader_epoch
        self._partition = ReplicatedPartition(
            self.topic,
            self.index,
            self.log,
            self._settings,
            self._world.ask_flush,
            self,
            leader_epoch=role.leader_epoch,
            visible=self.machine.high_watermark,
        )
        self._world.table.add(self._partition)
        log.info(
            "replica_leads",
            topic=self.topic,
            partition=self.index,
            leader_epoch=role.leader_epoch,
            start_offset=role.start_offset,
            high_watermark=self.machine.high_watermark,
        )

    def _withdraw(self) -> None:
        """End the leadership for clients, now."""
        if self._published_epoch is None:
            return
        log.info("replica_leads_no_more", topic=self.topic, partition=self.index, leader_epoch=self._published_epoch)
        self._published_epoch = None
        if self._partition is not None:
            self._world.table.remove(self._partition)
            self._partition = None
        waiters, self._new_waiters = self._new_waiters, []
        self._tell(waiters, self._not_leader())

    def _keep(self) -> None:
        """Let upkeep know the log while another broker leads."""
        self._partition = ReplicatedPartition(
            self.topic, self.index, self.log, self._settings, self._world.ask_flush, self, visible=self.machine.high_watermark
        )
        self._world.table.add(self._partition, leads=False)

    # -- orders ------------------------------------------------------------------------------------

    def _carry_out(self, order: orders.Order) -> None:
        world, replica_log = self._world, self._log
        match order:
            case orders.ReadNode():
                world.read_node(self)
            case orders.AskSwap(swap=swap):
                world.ask_swap(self, swap)
            case orders.Note(version=version, leader_epoch=epoch, went_back=went_back):
                self._wait_for(lambda: replica_log.note(version, epoch, went_back=went_back))
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
                    world.ask_flush(self, 0)
            case orders.AdvanceStart(to_offset=to):
                self._advance_start(to)
            case orders.SendFetch(to=to, fetch=fetch):
                world.send_fetch(self, to, fetch)
            case orders.AnswerFetch(to=to, fetch_offset=fetch_offset):
                out = self.outgoing.setdefault(to, Outgoing())
                out.asked(fetch_offset, world.now_ms)
                if self._has_news(to, out):
                    world.has_answer(self, to)
            case orders.RefuseFetch(to=to):
                self.outgoing.pop(to, None)
                world.refuse(self, to, self.machine.noted.leader_epoch)
            case orders.Acknowledge(token=token):
                self._tell(self._waiters.pop(token, ()), None)
            case orders.Refuse(token=token, reason=reason):
                fault = ErrorCode.OFFSET_OUT_OF_RANGE if "watermark" in reason else ErrorCode.NOT_LEADER_OR_FOLLOWER
                self._tell(self._waiters.pop(token, ()), (fault, f"{self.topic}-{self.index}: {reason}"))
            case orders.CloseConnections():
                self.outgoing.clear()
                world.forget_messages(self)
            case orders.Alarm(reason=reason):
                log.error("replica_stopped", topic=self.topic, partition=self.index, why=reason)
            case orders.Append():
                raise AssertionError("appends of producers are told when they are done")

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
                self._give_up(str(error))

        self._is_busy = True
        if not self._world.on_disk(job, done, failed):
            failed(OSError("too much waits for the disk already"))

    def _give_up(self, why: str) -> None:
        """An order was not carried out, so nothing that follows from it may be. Begin again with what is in the folder."""
        self._todo.clear()
        self._results.clear()
        self._is_log_changed = False
        self._events.clear()
        self._withdraw()
        self.outgoing.clear()
        self._world.forget_messages(self)
        waiters, self._waiters = self._waiters, {}
        for of_token in waiters.values():
            self._tell(of_token, self._not_leader())
        noted = self._log.noted
        self.machine = Replica(
            topic_id=self.machine.topic_id,
            broker_id=self.machine.broker_id,
            start_number=self.machine.start_number,
            lives=self.machine.lives,
            min_insync_replicas=self.machine.min_insync_replicas,
            acks_on_disk=self.machine.acks_on_disk,
            silent_ms=self.machine.silent_ms,
            log=self._log.facts(with_crc=True),
            noted=Noted(version=noted.version, leader_epoch=noted.leader_epoch, went_back=noted.went_back),
            role=Stopped(reason=f"an order of replication failed: {why}; see to the disk and start the broker again"),
        )
        log.error("replica_stopped", topic=self.topic, partition=self.index, why=why)

    def _begin_cut(self, order: orders.Cut | orders.BeginEmpty) -> None:
        world, replica_log = self._world, self._log
        if self._partition is not None:
            world.table.remove(self._partition)
            self._partition = None
        world.forget_flush(self)

        def done(_: Any) -> None:
            if not self.is_gone:
                self.log.config = log_config(self._settings)
                log.info("replica_cut", topic=self.topic, partition=self.index, to_offset=self.log.log_end_offset)
                self.feed(events.LogChanged(log=replica_log.facts(with_crc=True)))

        def failed(error: Exception) -> None:
            if not self.is_gone:
                log.error("replica_not_cut", topic=self.topic, partition=self.index, why=str(error))
                self._give_up(str(error))

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
                self._partition.touched.add(self._partition)

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

    # -- what followers get ------------------------------------------------------------------------

    def _has_news(self, to: int, out: Outgoing) -> bool:
        role = self.machine.role
        if not isinstance(role, Leading):
            return False
        one = role.progress.get(to)
        written = 0 if one is None else one.written_offset
        return out.has_news(self.log.log_end_offset, written, self.log.log_start_offset)

    def answer_for(self, to: int, most_bytes: int) -> tuple[Answer, bool] | None:
        """Return the next answer to a follower and whether more follows, None when there is none."""
        out, role = self.outgoing.get(to), self.machine.role
        if out is None or not isinstance(role, Leading) or self._published_epoch is None or self.is_gone:
            return None
        begin = out.position
        batches, first, end = out.read(self.log, most_bytes)
        gaps: tuple[tuple[int, int], ...] = ()
        if first != begin:
            gaps = tuple(gap for gap in self.log.gaps if gap[1] > begin)
            if not batches:
                end = next((gap[1] for gap in gaps if gap[0] <= begin), begin)
        out.sent(begin, end, self._world.now_ms, self.log.log_start_offset)
        epochs = self._log.epochs
        known = [at for at, each in enumerate(epochs) if each.start_offset <= begin]
        answer = Answer(
            key=self.key,
            leader=self._world.broker_id,
            leader_epoch=role.leader_epoch,
            fetch_offset=begin,
            high_watermark=self.machine.high_watermark,
            log_start_offset=self.log.log_start_offset,
            epochs=epochs[known[-1] if known else 0 :],
            gaps=gaps,
            batches=memoryview(batches),
        )
        return answer, self._has_news(to, out)

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
