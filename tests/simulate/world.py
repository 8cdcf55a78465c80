"""Three brokers, their ZooKeeper, messages in flight, and producers: what a scenario or a search does to them."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from headrace.broker.replication import events, reassignment, recovery
from headrace.broker.replication.facts import ReplicaFetch
from headrace.broker.replication.replica import Leading, Stopped, visible_end
from headrace.broker.replication.state import State
from headrace.broker.replication.swaps import Answer, Swap

from .broker import Answered, SimulatedBroker
from .checkers import Checks
from .logs import ListLog, SimulatedLog
from .zookeeper import DictionaryZooKeeper

BROKERS = (1, 2, 3)
TICK_MS = 1_000
SILENT_MS = 10_000
ROUNDS_OF_HEALING = 60
NOW, ANSWER_LATE, LOST_LANDED, LOST_LATE, LOST_NEVER = "now", "answer late", "lost, landed", "lost, lands late", "lost"
SWAP_MODES = (NOW, ANSWER_LATE, LOST_LANDED, LOST_LATE, LOST_NEVER)

Payload = ReplicaFetch | Answered | events.FetchRefused | events.SwapAnswered | events.HandedOver


class Message(NamedTuple):
    """On its way to one process of a broker. It is lost when that process ends."""

    to: int
    to_start: int
    payload: Payload


@dataclass(slots=True)
class LateSwap:
    broker_id: int
    topic_id: str
    swap: Swap


class World:
    """`make_log` returns a new empty log for a broker."""

    def __init__(
        self,
        *,
        make_log: Callable[[int], SimulatedLog] = lambda _: ListLog(),
        min_insync_replicas: int = 2,
        acks_on_disk: bool = False,
    ) -> None:
        self.make_log = make_log
        self.min_insync_replicas = min_insync_replicas
        self.acks_on_disk = acks_on_disk
        self.topic_number = 0
        self.topic_id = "topic 0"
        self.now_ms = 0
        self.zookeeper = DictionaryZooKeeper()
        self.zookeeper.history[self.topic_id] = [State(replicas=BROKERS)]
        self.messages: list[Message] = []
        self.late_swaps: list[LateSwap] = []
        self.swap_modes: list[str] = []
        """How ZooKeeper treats the next swaps; `NOW` when the list is empty."""
        self.values: list[int] = []
        """By token: what each producer's request carries."""
        self.deletions: dict[int, int] = {}
        """By token: the offset of a DeleteRecords."""
        self.open_tokens: dict[int, int] = {}
        """The requests that wait for an answer, and the broker that each was sent to."""
        self.next_value = 0
        self.checks = Checks(self)
        self.brokers: dict[int, SimulatedBroker] = {}
        for broker_id in BROKERS:
            self.brokers[broker_id] = SimulatedBroker(self, broker_id)

    def start_all(self) -> None:
        for broker in self.brokers.values():
            broker.start()

    def node(self) -> State:
        node = self.zookeeper.node(self.topic_id)
        assert node is not None
        return node

    def leaders(self) -> list[SimulatedBroker]:
        """Return the brokers that believe that they lead."""
        return [each for each in self.brokers.values() if each.replica is not None and isinstance(each.replica.role, Leading)]

    def leader(self) -> SimulatedBroker:
        """Return the leader that the node names."""
        return self.brokers[self.node().leader]

    # -- messages ----------------------------------------------------------------------------------

    def send(self, sender: SimulatedBroker, to: int, payload: Payload) -> None:
        target = self.brokers.get(to)
        if target is not None and target.replica is not None and sender.replica is not None:
            self.messages.append(Message(to, target.replica.start_number, payload))

    def deliver(self, which: int = 0) -> None:
        if not self.messages:
            return
        message = self.messages.pop(which % len(self.messages))
        broker = self.brokers[message.to]
        if broker.replica is None or broker.replica.start_number != message.to_start:
            return
        match message.payload:
            case ReplicaFetch() as fetch:
                broker.take_fetch(fetch)
            case Answered() as answered:
                broker.take(answered)
            case event:
                broker.feed(event)

    def deliver_all(self) -> None:
        for _ in range(200):
            if not self.messages:
                return
            self.deliver()
        raise AssertionError("messages without end")

    def lose(self, which: int) -> None:
        """Lose a message between brokers. ZooKeeper's client always reports something."""
        between = [at for at, each in enumerate(self.messages) if not isinstance(each.payload, events.SwapAnswered)]
        if between:
            self.messages.pop(between[which % len(between)])

    def corrupt(self, which: int) -> None:
        """Change a record on its way."""
        at = [n for n, each in enumerate(self.messages) if isinstance(each.payload, Answered) and each.payload.records]
        if at:
            message = self.messages[at[which % len(at)]]
            assert isinstance(message.payload, Answered)
            first, *rest = message.payload.records
            payload = message.payload._replace(records=(first._replace(value=first.value ^ 0x40_0000), *rest))
            self.messages[at[which % len(at)]] = message._replace(payload=payload)

    # -- ZooKeeper ---------------------------------------------------------------------------------

    def ask_swap(self, broker: SimulatedBroker, swap: Swap) -> events.Event | None:
        assert broker.replica is not None
        topic_id = broker.replica.topic_id
        mode = self.swap_modes.pop(0) if self.swap_modes else NOW
        if mode in (NOW, ANSWER_LATE, LOST_LANDED):
            answer = self.zookeeper.swap(topic_id, swap)
            self.checks.changes_landed()
            if mode == NOW:
                return events.SwapAnswered(swap=swap, answer=answer)
            if mode == LOST_LANDED:
                answer = Answer.LOST
            self.send(broker, broker.broker_id, events.SwapAnswered(swap=swap, answer=answer))
            return None
        if mode == LOST_LATE:
            self.late_swaps.append(LateSwap(broker.broker_id, topic_id, swap))
        self.send(broker, broker.broker_id, events.SwapAnswered(swap=swap, answer=Answer.LOST))
        return None

    def land_late(self, which: int = 0) -> None:
        if self.late_swaps:
            late = self.late_swaps.pop(which % len(self.late_swaps))
            self.zookeeper.swap(late.topic_id, late.swap)
            self.checks.changes_landed()

    def read_node(self, broker_id: int, *, back: int = 0) -> None:
        """Let a broker read the node, from a server that lags this many versions behind."""
        broker = self.brokers[broker_id]
        if broker.replica is not None:
            versions = self.zookeeper.history.get(broker.replica.topic_id, [])
            state = versions[max(0, len(versions) - 1 - back)] if versions else None
            broker.feed(events.NodeRead(state=state, is_synced=not back))

    def restore_zookeeper(self, back: int) -> None:
        """Put an older copy of the node in place of the node, after every process has read the node. Each reads it again when it
        connects again.
        """
        for broker_id in BROKERS:
            self.read_node(broker_id)
        versions = self.zookeeper.history[self.topic_id]
        del versions[max(1, len(versions) - back) :]
        self.checks.zookeeper_restored()
        self.late_swaps.clear()
        for broker_id in BROKERS:
            self.read_node(broker_id)

    def reassign(self, wanted: tuple[int, ...] | None) -> None:
        """What AlterPartitionReassignments does: swap the targets of the node, or end the move (None)."""
        node = self.node()
        new = reassignment.requested(node, wanted)
        if new is not None:
            swap = Swap(version=node.version, wanted=replace(new, version=node.version + 1), fence=None)
            assert self.zookeeper.swap(self.topic_id, swap) is Answer.LANDED
            self.checks.changes_landed()

    def remove_folder(self, broker_id: int) -> None:
        """Delete the folder of a replica that was moved away, if its broker may. It returns with an empty one."""
        broker = self.brokers[broker_id]
        if broker.replica is not None and reassignment.may_remove_folder(broker.replica):
            self.checks.removes_folder(broker)
            broker.wipe()
            broker.start()

    def recreate_topic(self) -> None:
        """Delete the topic and make one of the same name. Running brokers see it at once."""
        self.topic_number += 1
        self.zookeeper.history.pop(self.topic_id)
        self.topic_id = f"topic {self.topic_number}"
        self.zookeeper.history[self.topic_id] = [State(replicas=BROKERS)]
        self.checks.topic_recreated()
        self.open_tokens.clear()
        for broker in self.brokers.values():
            broker.see_topic()

    # -- clients -----------------------------------------------------------------------------------

    def produce(self, broker_id: int, value: int | None = None) -> int:
        """Send a record to a broker, a new one or one that was not acknowledged; return the token of the request."""
        if value is None:
            value = self.next_value
            self.next_value += 1
        token = len(self.values)
        self.values.append(value)
        broker = self.brokers[broker_id]
        if broker.is_running:
            self.open_tokens[token] = broker_id
        broker.feed(events.Produce(token=token, duplicate_end=broker.log.end_of(value)))
        return token

    def retry(self, broker_id: int, which: int) -> None:
        """Send a record again whose request was not acknowledged, as an idempotent producer does."""
        missing = [
            value for value in self.values if value >= self.checks.first_value and value not in self.checks.acknowledged_values
        ]
        if missing:
            self.produce(broker_id, missing[which % len(missing)])

    def delete_records(self, broker_id: int, offset: int) -> int:
        token = len(self.values)
        self.values.append(-1)
        self.deletions[token] = offset
        if self.brokers[broker_id].is_running:
            self.open_tokens[token] = broker_id
        self.brokers[broker_id].feed(events.DeleteRecords(token=token, offset=offset))
        return token

    def acknowledged(self, broker: SimulatedBroker, token: int) -> None:
        self.open_tokens.pop(token, None)
        if token in self.deletions:
            self.checks.deletion_acknowledged(broker, self.deletions[token])
        else:
            self.checks.acknowledged(broker, self.values[token])

    def refused(self, token: int) -> None:
        self.open_tokens.pop(token, None)

    def connections_lost(self, broker_id: int) -> None:
        """A process has ended: its clients get no answer."""
        self.open_tokens = {token: to for token, to in self.open_tokens.items() if to != broker_id}

    # -- time --------------------------------------------------------------------------------------

    def tick(self, broker_id: int) -> None:
        self.now_ms += TICK_MS
        self.brokers[broker_id].feed(events.Tick(now_ms=self.now_ms))

    def settle(self, rounds: int = 4) -> None:
        """Let everything that is under way finish, without new faults."""
        for _ in range(rounds):
            for broker in self.brokers.values():
                broker.feed(events.Tick(now_ms=self.now_ms))
                self.deliver_all()
                broker.end_cut()
                while broker.flushes:
                    broker.end_flush(0)
            self.deliver_all()

    def elect(self, broker_id: int) -> None:
        """Let a broker take the leadership over, everything going well, and let the others follow."""
        self.brokers[broker_id].suspect()
        self.brokers[broker_id].end_cut()
        for other in BROKERS:
            self.read_node(other)
        self.settle()

    def heal(self) -> None:
        """End all faults, and let the brokers come to rest. The checks say then what must hold."""
        if self.checks.is_restored:
            return  # What stopped waits for an operator, who decides with every folder as it is.
        self.swap_modes.clear()
        random.Random(0).shuffle(self.late_swaps)
        while self.late_swaps:
            self.land_late()
        for broker in self.brokers.values():
            broker.dies_after = None
            if broker.log.facts().is_damaged or (broker.replica is not None and broker.replica.is_leaving):
                broker.kill()
        for number in range(ROUNDS_OF_HEALING):
            for broker in self.brokers.values():
                if not broker.is_running and not broker.log.facts().is_damaged:
                    broker.start()
                if broker.replica is not None:
                    self.zookeeper.registered[broker.broker_id] = broker.replica.start_number
                self.read_node(broker.broker_id)
            self.now_ms += TICK_MS
            self.settle(2)
            node = self.node()
            if node.copies != BROKERS and not node.targets:
                self.reassign(BROKERS)
            if number > 3 and not self._is_led(node):
                for broker in self.brokers.values():
                    broker.suspect()
                    self.settle(1)
            if number == 8:
                for broker in self.brokers.values():
                    if broker.log.facts().is_damaged:
                        broker.wipe()
            if number > 10 and number % 5 == 0 and not self._is_led(node):
                self.recover()
            if self._is_led(node) and self.checks.is_at_rest():
                return

    def _is_led(self, node: State) -> bool:
        return any(each.broker_id == node.leader for each in self.leaders())

    def recover(self) -> None:
        """What an operator does when no member has its life: the plan is carried out."""
        node = self.node()
        running = [
            each
            for each in self.brokers.values()
            if each.replica is not None and not isinstance(each.replica.role, Stopped) and node.must_keep(each.broker_id)
        ]
        candidates = [
            recovery.Candidate(
                broker_id=each.broker_id,
                lives=each.replica.lives,
                log=each.log.facts(),
                high_watermark=each.replica.high_watermark,
            )
            for each in running
            if each.replica is not None
        ]
        if recovery.is_due(node, candidates):
            plan = recovery.plan(node, candidates)
            self.checks.recovers(plan.chosen)
            self.brokers[plan.chosen].feed(events.Recover(start_offset=plan.start_offset, log_start_offset=plan.log_start_offset))
            self.brokers[plan.chosen].end_cut()

    def configure(self, *, acks_on_disk: bool) -> None:
        self.acks_on_disk = acks_on_disk
        for broker in self.brokers.values():
            broker.feed(events.Configured(min_insync_replicas=self.min_insync_replicas, acks_on_disk=acks_on_disk))

    def visible(self, broker: SimulatedBroker) -> int | None:
        return None if broker.replica is None else visible_end(broker.replica)

    def stranger(self, broker_id: int, offset: int) -> None:
        """Send a fetch that pretends to be of replica 2."""
        broker, real = self.brokers[broker_id], self.brokers[2].replica
        if broker.replica is None or real is None:
            return
        fetch = ReplicaFetch(
            topic_id=self.topic_id,
            broker_id=2,
            leader_epoch=broker.replica.noted.leader_epoch,
            lives=real.lives,
            fetch_offset=offset,
            written_offset=offset,
            flushed_offset=offset,
            log_start_offset=offset if offset > 10**14 else 0,
            last_epoch=0,
            last_crc=0,
        )
        self.messages.append(Message(broker_id, broker.replica.start_number, fetch))

    def expire_registration(self, broker_id: int) -> None:
        """ZooKeeper's session of a running broker has ended; the process comes back with the next `heal` or start."""
        self.zookeeper.registered.pop(broker_id, None)
