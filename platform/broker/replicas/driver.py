"""The driver of one replica: what handlers, upkeep and other brokers ask and tell, and the partition that clients see.

Lives on the loop thread. Appends of producers do not wait for the machine: they are allowed as long as this process leads, and
are told to the machine at the end of the loop's turn, all of a turn together. `machine_runner` gives the events.
"""

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial

from ...runtime.logs import get_logger
from ...wire.batch.record_batch import BatchHeader, crc_matches, iter_batches
from ...wire.errors import CorruptBatch, ErrorCode
from ..log import PartitionLog
from ..partitions.flush_scheduler import Flushable
from ..partitions.open_logs import log_config
from ..partitions.partition import Acknowledged, Fault
from ..partitions.replicated_partition import ReplicatedPartition
from ..replication import events
from ..replication.facts import BatchFacts, FetchAnswer, LogFacts, ReplicaFetch
from ..replication.replica import Following, Leading, Stopped, visible_end
from ..replication.set_changes import may_be_without
from ..replication.state import NO_LEADER, State
from ..replication.suspicion import Signs
from ..replication.swaps import Answer as SwapAnswer
from ..replication.swaps import Swap
from ..settings.topic_settings import TopicSettings, min_insync
from .machine_runner import MOST_EVENTS, MachineRunner
from .messages import Answer
from .outgoing import Outgoing

log = get_logger(__name__)

MOST_WAITERS = 10_000
"""Acknowledgements that may wait for one replica. Each is of all that one turn of the loop appended or of one DeleteRecords."""


class ReplicaDriver(MachineRunner):
    """One replica. `start` gives the first event. As a `Flushable` it takes the flushes of its log."""

    @property
    def _me(self) -> "ReplicaDriver":
        return self

    # -- what others ask ---------------------------------------------------------------------------

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

    @property
    def waits_for_recovery(self) -> bool:
        """Return whether it has stopped because ZooKeeper went back. It obeys again when the partition has been recovered."""
        role = self.machine.role
        return isinstance(role, Stopped) and role.went_back

    @property
    def why_stopped(self) -> str | None:
        role = self.machine.role
        return role.reason if isinstance(role, Stopped) else None

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
            count = self._heard_members(node) if least > 1 else len(node.members)
            if count < least:
                return (
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    f"{count} replicas of {self.topic}-{self.index} are in sync, min.insync.replicas is {least}",
                )
            if len(self._waiters) + len(self.machine.producers) >= MOST_WAITERS:
                return ErrorCode.NOT_ENOUGH_REPLICAS, f"{MOST_WAITERS} acknowledgements wait for the followers already"
        return None

    def _heard_members(self, node: State) -> int:
        """Return how many members can acknowledge now: the set is never made smaller than min.insync.replicas."""
        self._hear()
        role = self.machine.role
        if not isinstance(role, Leading):
            return 0
        since_ms = self._world.now_ms - self.machine.silent_ms
        count = 0
        for member in node.members:
            progress = role.progress.get(member.broker_id)
            heard_ms = role.began_ms if progress is None else max(role.began_ms, progress.heard_ms)
            count += member.broker_id == self.machine.broker_id or heard_ms > since_ms
        return count

    def when_acknowledged(self, timeout_ms: int, done: Acknowledged) -> None:
        self._new_waiters.append((self._world.now_ms + max(1, timeout_ms), done))
        self.log_changed()

    def delete_records(self, offset: int, timeout_ms: int, done: Acknowledged) -> None:
        self.rest.end()
        token = self._token((self._world.now_ms + max(1, timeout_ms), done))
        self.feed(events.DeleteRecords(token=token, offset=offset))

    def when_sure(self, done: Callable[[bool], None]) -> None:
        if self._published_epoch is None:
            done(False)
        else:
            self._check.when_sure(done)

    def log_changed(self) -> None:
        self.rest.end()
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
            self._log_has_changed()

    def _growth(self, token: int) -> events.Event:
        if isinstance(self.machine.role, Leading):
            return events.Appended(token=token, log=self._log.facts(with_crc=False))
        self._tell(self._waiters.pop(token, ()), self._not_leader())
        return events.LogChanged(log=self._log.facts(with_crc=True))

    # -- damage ------------------------------------------------------------------------------------

    @property
    def comparable_log(self) -> PartitionLog | None:
        """Return the log, None while it is being cut, or is not used any more."""
        return None if self.is_gone or self.machine.is_cutting or self.has_stopped else self.log

    def is_log(self, log: PartitionLog) -> bool:
        """Return whether this is still the replica's log. From any thread."""
        return not self.is_gone and self._log.log is log

    @property
    def is_damaged(self) -> bool:
        return self._log.is_damaged

    def undamaged_members(self) -> list[int]:
        """Return the other members of the set that were heard lately and have no damage: those that may lead."""
        role, node = self.machine.role, self.machine.node
        if not isinstance(role, Leading) or node is None:
            return []
        since_ms = self._world.now_ms - self.machine.silent_ms
        heard = [one for one, progress in role.progress.items() if progress.heard_ms > since_ms and not progress.is_damaged]
        return [
            member.broker_id
            for member in node.members
            if member.broker_id in heard and member.broker_id != self.machine.broker_id
        ]

    def damage_noted(self) -> None:
        """A range of the log is newly known to be damaged."""
        self.rest.end()
        self._damage_found()

    def damage_repaired(self) -> None:
        """A damaged range is whole again. When it was the last one, this replica follows, and may lead, again."""
        if self.machine.is_cutting:
            return
        self.rest.end()
        self._log.look_for_damage()
        self.feed(events.LogChanged(log=self._log.facts(with_crc=not self.leads)))

    # -- flushes -----------------------------------------------------------------------------------

    def flushed(self) -> None:
        if self.is_gone or self.machine.is_cutting:
            return
        if self._partition is not None:
            self._partition.flushed()
        flushed = self.log.flushed_offset
        self.feed(events.FlushDone(incarnation=self._log.incarnation, flushed_offset=flushed))

    def flush_failed(self, why: str) -> None:
        self._has_flush_failed = True
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
                what_to_do="it is repaired from the other replicas; `headrace cluster status` shows what is not repaired yet",
            )
            node = self.machine.node
            if self.leads and self.log.failure is not None and node is not None and len(node.members) > 1:
                self._give_up(str(self.log.failure))  # it can append nothing any more: another member is to lead
                return
            self.feed(events.LogChanged(log=self._log.facts(with_crc=not self.leads)))

    # -- events ------------------------------------------------------------------------------------

    def start(self) -> None:
        self._look()
        self.feed(events.Tick(now_ms=self._world.now_ms))

    def tick(self) -> None:
        now_ms = self._world.now_ms
        self._end_late_waiters(now_ms)
        if self._again_ms is not None and now_ms >= self._again_ms:
            self._begin_again()
            return
        if not self.machine.is_cutting:
            self._damage_found()
            if self.machine.log.is_damaged and not self._log.is_damaged:  # what was damaged is deleted
                self.feed(events.LogChanged(log=self._log.facts(with_crc=not self.leads)))
        self.feed(events.Tick(now_ms=now_ms))
        self.rest.after_tick(self._facts_at_rest())

    def _facts_at_rest(self) -> Hashable:
        """Return what shows whether something has changed; None while something is under way."""
        machine, own = self.machine, self.log
        role, node, end = machine.role, machine.node, own.log_end_offset
        if node is None or machine.undecided or machine.is_cutting or self._log.is_damaged:
            return None
        if machine.is_leaving or node.targets:
            return None
        if self._is_busy or self._events or self._todo or self._waiters or self._new_waiters:
            return None
        if self._waits_for_disk() and own.flushed_offset < end:
            return None
        match role:
            case Following(leader=leader, leader_epoch=epoch) if leader not in (NO_LEADER, machine.broker_id):
                return leader, epoch, node.version, end, own.log_start_offset
            case Leading(leader_epoch=epoch, progress=progress) if (
                self._published_epoch == epoch and machine.high_watermark == end
            ):
                for member in node.members:
                    one = progress.get(member.broker_id)
                    if member.broker_id != machine.broker_id and (one is None or one.written_offset < end):
                        return None
                return machine.broker_id, epoch, node.version, end, own.log_start_offset
            case _:
                return None

    def node_read(self, state: State | None) -> None:
        self._feed_fresh(events.NodeRead(state=state, is_synced=True))

    def swap_answered(self, swap: Swap, answer: SwapAnswer) -> None:
        self._feed_fresh(events.SwapAnswered(swap=swap, answer=answer))

    def configure(self, settings: TopicSettings) -> None:
        if settings is self._settings:
            return
        self.rest.end()
        self._settings = settings
        if not self.machine.is_cutting:
            self.log.config = log_config(settings)
        if self._partition is not None:
            self._partition.configure(settings)
        self._feed_settings(self._replica_count)

    def _feed_settings(self, replica_count: int) -> None:
        self._replica_count = replica_count
        least = min_insync(self._settings.min_insync_replicas, replica_count)
        self.feed(events.Configured(min_insync_replicas=least, acks_on_disk=self._settings.acks_on_disk))

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

    def take_over(self, leader_epoch: int, *, leader_stops: bool = False) -> bool:
        """Begin to lead, asked by the leader of this epoch or by an operator. Return whether that has begun."""
        if self.following is None or self._is_busy:
            return False
        self.feed(events.HandedOver(leader_epoch=leader_epoch, leader_stops=leader_stops))
        if self.following is None:
            log.info("replica_takes_over", topic=self.topic, partition=self.index, leader_epoch=leader_epoch, is_asked=True)
        return self.following is None

    def facts(self) -> LogFacts:
        """Return what the log holds now. Not while it is being cut."""
        return self._log.facts(with_crc=False)

    def recover(self, version: int, event: events.Recover) -> bool:
        """Begin to lead although no replica may, because an operator has decided. Return whether that has begun.
        `version`: of the node from which the operator's plan was made. Where ZooKeeper went back, no replica obeys that node: the
        swap proves that it is still there.
        """
        node = self.machine.node
        obeys_it = self.following is not None and node is not None and node.version == version
        if self._is_busy or not (obeys_it or (event.restored is not None and self.waits_for_recovery)):
            return False
        if event.restored is not None:
            if self.machine.is_cutting or self.log.log_end_offset > event.start_offset:
                return False
            self.feed(events.LogChanged(log=self._log.facts(with_crc=True)))
        self.rest.end()
        self.feed(event)
        log.warning("replica_recovers", topic=self.topic, partition=self.index, start_offset=event.start_offset)
        return self.following is None and not self.has_stopped

    def begin_hand_over(self, to: int, within_ms: int) -> bool:
        """Send followers nothing new, and return whether `to` has what any of them was sent.

        Otherwise the next leader would begin its epoch before the end of another follower, which would have to cut its log: that
        takes longer than the change of leader. After `within_ms` without another leader, followers get everything again.
        """
        now_ms, role = self._world.now_ms, self.machine.role
        if self._quiet_until_ms <= now_ms:
            self._quiet_until_ms = now_ms + within_ms
        one = role.progress.get(to) if isinstance(role, Leading) else None
        return one is not None and all(one.written_offset >= out.position for out in self.outgoing.values())

    def end_hand_over(self) -> None:
        """The member does not take over: send everything again."""
        self._quiet_until_ms = 0
        self._look()

    def leave(self) -> bool:
        """Leave the set, because this process stops. Return whether the leader no longer waits for it, or must."""
        if not self.machine.is_leaving:
            self.feed(events.Leave())
        machine = self.machine
        if not isinstance(machine.role, Following) or machine.node is None or machine.entry() is None:
            return True
        return not may_be_without(machine.node.members, machine.min_insync_replicas)

    def take_fetch(self, fetch: ReplicaFetch) -> None:
        """Give a follower's fetch to the machine, with what this log holds there. One too many is lost, and repeated."""
        if len(self._events) >= MOST_EVENTS:
            return

        def event() -> events.Event:
            known = (None, None) if self.machine.is_cutting else self._log.batch_before(fetch.written_offset)
            return events.FetchReceived(fetch=fetch, own_epoch=known[0], own_crc=known[1], now_ms=self._world.now_ms)

        self._put(event)

    def follower_lost(self, broker_id: int) -> None:
        if self.leads:
            self.rest.end()
            self.feed(events.FollowerLost(broker_id=broker_id))

    def take_refusal(self, leader_epoch: int) -> None:
        self.rest.end()
        self.feed(events.FetchRefused(leader_epoch=leader_epoch))

    def take_answer(self, answer: Answer) -> None:
        """Give a leader's answer to the machine. Its bytes are used until this returns, or later if the machine is busy."""
        if self.machine.is_cutting or len(self._events) >= MOST_EVENTS:
            return
        if answer.batches or answer.gaps:
            self.rest.end()
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
        self._check.end()
        waiters, self._waiters = self._waiters, {}
        for of_token in (*waiters.values(), self._new_waiters):
            self._tell(of_token, self._not_leader())
        self._new_waiters = []

    def _look(self) -> None:
        """After all orders were carried out: show what has changed."""
        role, node = self.machine.role, self.machine.node
        if node is not None and node.replicas and len(node.replicas) != self._replica_count:
            self._feed_settings(len(node.replicas))
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

    # -- what followers get ------------------------------------------------------------------------

    def _has_news(self, to: int, out: Outgoing) -> bool:
        role = self.machine.role
        if not isinstance(role, Leading) or self._world.now_ms < self._quiet_until_ms:
            return False
        one = role.progress.get(to)
        written = 0 if one is None else one.written_offset
        return out.has_news(self.log.log_end_offset, written, self.log.log_start_offset)

    def answer_for(self, to: int, most_bytes: int) -> tuple[Answer, bool] | None:
        """Return the next answer to a follower and whether more follows, None when there is none."""
        out, role = self.outgoing.get(to), self.machine.role
        if (
            out is None
            or self._world.now_ms < self._quiet_until_ms
            or not isinstance(role, Leading)
            or self._published_epoch is None
            or self.is_gone
        ):
            return None
        begin = out.position
        batches, first, end = out.read(self.log, most_bytes)
        gaps: tuple[tuple[int, int], ...] = ()
        if first != begin:
            gaps = tuple(gap for gap in self.log.gaps if gap[1] > begin)
            if not batches:
                end = next((gap[1] for gap in gaps if gap[0] <= begin), begin)
        out.sent(begin, end, self._world.now_ms, self.log.log_start_offset, self.log.log_end_offset)
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
