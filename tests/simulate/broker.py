"""One broker with one replica: it carries out the machine's orders on a log, and dies between any two of them when it must."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.replication import events, lives, orders, replica
from headrace.broker.replication.facts import NO_CRC, BatchFacts, FetchAnswer, ReplicaFetch
from headrace.broker.replication.lives import FolderNote
from headrace.broker.replication.model import step
from headrace.broker.replication.replica import Following, Noted, Replica
from headrace.broker.replication.state import NO_LEADER, end_epoch
from headrace.broker.replication.suspicion import Signs

from .logs import FlushRun, Record, SimulatedLog

if TYPE_CHECKING:
    from .world import World

BATCHES_AN_ANSWER = 3


class Answered(NamedTuple):
    """A fetch's answer on its way, with the records themselves."""

    answer: FetchAnswer
    records: tuple[Record, ...]


class SimulatedBroker:
    """`replica` is the running process, None while there is none. All else is the folder."""

    def __init__(self, world: "World", broker_id: int) -> None:
        self.world = world
        self.broker_id = broker_id
        self.log: SimulatedLog = world.make_log(broker_id)
        self.folder_topic_id = world.topic_id
        self.note: FolderNote | None = None
        self.noted = Noted()
        self.boots = 0
        self.has_lost_memory = False
        """Whether the power was cut, and no process has found it out yet."""
        self.replica: Replica | None = None
        self.flushes: list[FlushRun] = []
        self.pending_cut: orders.Cut | orders.BeginEmpty | None = None
        self.incoming: dict[int, Record] = {}
        self.refusals: dict[tuple[int, int], int] = {}
        """Refused connections that were acted on, by leader and start number."""
        self.dies_after: int | None = None
        """How many more orders are carried out before the process is killed."""

    # -- processes ---------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self.replica is not None

    def has_life(self, life: str) -> bool:
        """Return whether the folder holds what a member with this life had acknowledged. The truth, for the checks."""
        return self.note is not None and (
            life == self.note.lives.disk or (life == self.note.lives.memory and not self.has_lost_memory)
        )

    @property
    def disk_life(self) -> str | None:
        return None if self.note is None else self.note.lives.disk

    def start(self) -> None:
        self.has_lost_memory = False
        world, zookeeper = self.world, self.world.zookeeper
        if not lives.belongs(self.folder_topic_id, world.topic_id):
            self._new_folder()
        known = zookeeper.starts.get(self.broker_id, 0)
        start_number = zookeeper.start(self.broker_id)
        at_start = lives.at_start(
            self.note,
            boot_id=f"boot {self.boots}",
            start_number=start_number,
            known_start_number=known,
            token=f"{self.broker_id}.{start_number}.{self.boots}{'.lost' * zookeeper.losses}",
        )
        self.note = FolderNote(lives=at_start, boot_id=f"boot {self.boots}", start_number=start_number, was_stopped_cleanly=False)
        self.replica = Replica(
            topic_id=world.topic_id,
            broker_id=self.broker_id,
            start_number=start_number,
            lives=at_start,
            min_insync_replicas=world.min_insync_replicas,
            acks_on_disk=world.acks_on_disk,
            log=self.log.facts(),
            noted=self.noted,
            now_ms=world.now_ms,
        )
        self.feed(events.Tick(now_ms=world.now_ms))

    def see_topic(self) -> None:
        """Learn that the topic was deleted and made anew."""
        if self.replica is not None and self.replica.topic_id != self.world.topic_id:
            self.replica = replace(
                self.replica, topic_id=self.world.topic_id, role=replica.Waiting(), node=None, undecided=(), high_watermark=0,
                noted=Noted(), producers=(), deleters=(), is_cutting=False,
            )  # fmt: skip
            self._new_folder()
            self.replica = replace(self.replica, log=self.log.facts())

    def _new_folder(self) -> None:
        self.log = self.world.make_log(self.broker_id)
        self.folder_topic_id = self.world.topic_id
        self.noted = Noted()
        self.flushes, self.pending_cut = [], None

    def wipe(self) -> None:
        """Give the broker an empty folder."""
        self.kill()
        self._new_folder()
        self.note = None

    def kill(self) -> None:
        if self.replica is not None:
            self._end()
            self.log.kill()

    def stop(self) -> None:
        if self.replica is not None and self.note is not None:
            self._end()
            self.log.stop()
            self.note = replace(self.note, was_stopped_cleanly=True)
            self.world.zookeeper.registered.pop(self.broker_id, None)

    def cut_power(self, chance: random.Random) -> None:
        if self.replica is not None:
            self._end()
            self.boots += 1
            self.has_lost_memory = True
            self.log.cut_power(chance)
            if self.log.has_lost_trust:
                self.note = None

    def _end(self) -> None:
        self.world.connections_lost(self.broker_id)
        self.replica, self.pending_cut, self.dies_after = None, None, None
        self.flushes.clear()
        self.incoming.clear()

    # -- the machine -------------------------------------------------------------------------------

    def feed(self, event: events.Event) -> None:
        if self.replica is None:
            return
        before = self.replica
        self.replica, todo = step(before, event)
        self.world.checks.stepped(self, before, event)
        self._carry_out(todo)
        self.world.checks.look(self)

    def _carry_out(self, todo: Sequence[orders.Order]) -> None:
        results: list[events.Event] = []
        is_log_changed = False
        for order in todo:
            if self.dies_after is not None:
                self.dies_after -= 1
                if self.dies_after < 0:
                    self.kill()
                    return
            result = self._carry_out_one(order)
            if result is not None:
                results.append(result)
            is_log_changed |= isinstance(order, orders.BeginEpoch | orders.Jump | orders.AppendCopied | orders.AdvanceStart)
        if is_log_changed:
            results.append(events.LogChanged(log=self.log.facts()))
        for result in results:
            self.feed(result)

    def _carry_out_one(self, order: orders.Order) -> events.Event | None:
        world, log, replica = self.world, self.log, self.replica
        assert replica is not None
        match order:
            case orders.ReadNode():
                return events.NodeRead(state=world.zookeeper.node(replica.topic_id), is_synced=True)
            case orders.AskSwap(swap=swap):
                return world.ask_swap(self, swap)
            case orders.Note(version=version, leader_epoch=epoch, members=members, went_back=went_back):
                self.noted = Noted(version=version, leader_epoch=epoch, members=members, went_back=went_back)
            case orders.Cut() | orders.BeginEmpty():
                self.pending_cut = order
            case orders.BeginEpoch(leader_epoch=epoch, start_offset=start):
                log.begin_epoch(epoch, start)
            case orders.Jump(to_offset=to):
                log.jump(to)
            case orders.Append(token=token, leader_epoch=epoch):
                record = log.append(world.values[token], epoch)
                world.checks.written(self, epoch, record)
                return events.Appended(token=token, log=log.facts())
            case orders.AppendCopied(batch=batch, leader_epoch=epoch):
                record = self.incoming[batch.position]
                log.append_copied(record, epoch)
                world.checks.copied(self, epoch, record)
            case orders.AskFlush():
                if not self.flushes or self.flushes[-1].end_offset < log.facts().end_offset:
                    self.flushes.append(log.begin_flush())
            case orders.AdvanceStart(to_offset=to):
                world.checks.deletes(self, to)
                log.advance_start(to)
            case orders.SendFetch(to=to, fetch=fetch):
                world.send(self, to, fetch)
            case orders.AnswerFetch(to=to):
                world.send(self, to, self._answer(replica, order))
            case orders.RefuseFetch(to=to):
                world.send(self, to, events.FetchRefused(leader_epoch=replica.noted.leader_epoch))
            case orders.Acknowledge(token=token):
                world.acknowledged(self, token)
            case orders.Refuse(token=token):
                world.refused(token)
            case orders.HandOver(to=to, leader_epoch=epoch):
                world.send(self, to, events.HandedOver(leader_epoch=epoch))
            case orders.CloseConnections() | orders.Alarm():
                pass
        return None

    def _answer(self, replica: Replica, order: orders.AnswerFetch) -> Answered:
        log = self.log
        facts = log.facts()
        records = tuple(log.records(order.fetch_offset)[:BATCHES_AN_ANSWER])
        answer = FetchAnswer(
            topic_id=replica.topic_id,
            leader=self.broker_id,
            leader_epoch=order.leader_epoch,
            fetch_offset=order.fetch_offset,
            batches=(),
            epochs=facts.epochs,
            gaps=log.gaps(),
            high_watermark=order.high_watermark,
            log_start_offset=order.log_start_offset,
        )
        return Answered(answer, records)

    def take_fetch(self, fetch: ReplicaFetch) -> None:
        """Give a follower's fetch that has arrived to the machine, with what this log holds there."""
        end, facts = fetch.written_offset, self.log.facts()
        last = self.log.ending_at(end)
        is_in_gap = any(begin < end <= gap_end for begin, gap_end in self.log.gaps())
        crc = last.crc if last is not None else NO_CRC if is_in_gap else None
        epoch = None if crc is None else end_epoch(facts.epochs, end)
        self.feed(events.FetchReceived(fetch=fetch, own_epoch=epoch, own_crc=crc, now_ms=self.world.now_ms))

    def take(self, answered: Answered) -> None:
        """Give an answer that has arrived to the machine."""
        batches = tuple(
            BatchFacts(
                position=record.position,
                next_offset=record.next_offset,
                crc=record.crc,
                is_sound=self.log.crc_of(record.value) == record.crc,
            )
            for record in answered.records
        )
        self.incoming = {record.position: record for record in answered.records}
        self.feed(events.AnswerReceived(answer=replace(answered.answer, batches=batches)))

    # -- what takes time ---------------------------------------------------------------------------

    def end_flush(self, which: int) -> None:
        if self.flushes:
            run = self.flushes.pop(which % len(self.flushes))
            self.log.end_flush(run)
            self.feed(events.FlushDone(incarnation=run.incarnation, flushed_offset=run.end_offset))

    def end_cut(self) -> None:
        cut, self.pending_cut = self.pending_cut, None
        if cut is not None:
            if isinstance(cut, orders.Cut):
                self.log.cut(cut.to_offset)
            else:
                self.log.begin_empty(cut.at_offset)
                for each in cut.epochs:
                    self.log.begin_epoch(each.leader_epoch, each.start_offset)
            self.feed(events.LogChanged(log=self.log.facts()))

    def suspect(self) -> None:
        """Meet a leader that does not answer."""
        current = self.replica
        if current is None or current.node is None or not isinstance(current.role, Following):
            return
        node, zookeeper = current.node, self.world.zookeeper
        leader = self.world.brokers.get(node.leader)
        signs = Signs(
            answers_fetches=False,
            is_port_refusing=node.leader != NO_LEADER and (leader is None or not leader.is_running),
            is_registered=node.leader != NO_LEADER and zookeeper.registered.get(node.leader) == node.start_number,
            refusals_acted_on=self.refusals.get((node.leader, node.start_number), 0),
        )
        dead = frozenset(each for each in node.copies if each not in zookeeper.registered)
        self.feed(events.LeaderSilent(signs=signs, dead=dead))
        if self.replica is not None and not isinstance(self.replica.role, Following):
            key = node.leader, node.start_number
            self.refusals[key] = self.refusals.get(key, 0) + 1
