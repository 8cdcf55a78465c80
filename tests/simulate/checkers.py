"""What must hold at every moment, counted from what the brokers' logs hold and what clients were told.

Nothing here uses the model's arithmetic: no set, no watermark and no epoch list is computed the way the machine does it.
"""

from typing import TYPE_CHECKING

from headrace.broker.replication import events
from headrace.broker.replication.replica import Leading, Replica, Stopped, TakingOver
from headrace.broker.replication.state import NO_LEADER, State

from .logs import Record

if TYPE_CHECKING:
    from .broker import SimulatedBroker
    from .world import World


class Wrong(AssertionError):
    """A promise was broken."""


class Checks:
    """The books of one run."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.is_restored = False
        self.takeovers = 0
        self.acknowledgements = 0
        self.first_value = 0
        """Smaller values are of a deleted topic."""
        self._new_topic()

    def _new_topic(self) -> None:
        self.acked: dict[int, int] = {}
        """Position to value."""
        self.acknowledged_values: set[int] = set()
        self.seen: dict[int, int] = {}
        """Position to value, of what consumers could read."""
        self.seen_to: dict[int, int] = {}
        """By leader epoch, how far consumers could read."""
        self.first_seen_to: dict[int, int] = {}
        self.writers: dict[int, tuple[int, int]] = {}
        self.wrote: dict[tuple[int, int], int] = {}
        self.deleted_to = 0
        self.delete_epoch = 0
        self.given_up: list[tuple[int, int]] = []
        self.landed_count = 0
        self.looked_to: dict[tuple[int, int], int] = {}

    def topic_recreated(self) -> None:
        acknowledged = self.acknowledged_values
        self._new_topic()
        self.acknowledged_values = acknowledged
        self.landed_count = len(self.world.zookeeper.landed)
        self.first_value = self.world.next_value

    def zookeeper_restored(self) -> None:
        self.is_restored = True

    # -- while it runs -----------------------------------------------------------------------------

    def stepped(self, broker: "SimulatedBroker", before: Replica, event: events.Event) -> None:
        """Check a takeover against the truth about the leader."""
        after = broker.replica
        assert after is not None
        if isinstance(event, events.LeaderSilent) and isinstance(after.role, TakingOver):
            node = before.node
            assert node is not None
            self.takeovers += 1
            if broker.log.facts().is_damaged:
                raise Wrong(f"broker {broker.broker_id} takes over with a damaged log")
            leader = self.world.brokers.get(node.leader)
            is_alive = leader is not None and leader.replica is not None and leader.replica.start_number == node.start_number
            is_registered = self.world.zookeeper.registered.get(node.leader) == node.start_number
            if is_alive and is_registered and node.leader != NO_LEADER:
                raise Wrong(f"broker {broker.broker_id} takes over from {node.leader}, which runs and is registered")
        self.changes_landed()

    def changes_landed(self) -> None:
        """Check every change of the node against the truth about brokers and logs."""
        landed = self.world.zookeeper.landed
        for topic_id, old, new in landed[self.landed_count :]:
            if topic_id == self.world.topic_id:
                self._change_landed(old, new)
        self.landed_count = len(landed)

    def _change_landed(self, old: State, new: State) -> None:
        is_recovery = len(new.lost) > len(old.lost) or new.base > old.base
        if (new.leader, new.start_number) != (old.leader, old.start_number):
            if new.leader_epoch <= old.leader_epoch:
                raise Wrong(f"the leader epoch goes from {old.leader_epoch} to {new.leader_epoch} with another leader")
            if self.world.zookeeper.starts[new.leader] != new.start_number:
                raise Wrong(f"start {new.start_number} of broker {new.leader} leads, which was started again since")
        least = min(len(old.members), self.world.min_insync_replicas, len(new.replicas))
        if len(new.members) < least and not is_recovery:
            raise Wrong(f"the set goes from {old.members} to {new.members}, below min.insync.replicas")
        kept = [at for at in self.acked if not any(begin <= at < to for begin, to in (*self.given_up, *new.lost))]
        for member in new.members if kept else ():
            broker = self.world.brokers[member.broker_id]
            facts = broker.log.facts()
            if not broker.has_life(member.life) or facts.is_damaged or self.is_restored:
                continue
            has = broker.log.physically_flushed() if member.life == broker.disk_life else facts.end_offset
            if has <= max(kept):
                raise Wrong(f"{member} is in the set, and has up to {has}; {max(kept)} was acknowledged")

    def written(self, broker: "SimulatedBroker", epoch: int, record: Record) -> None:
        """A leader has appended."""
        assert broker.replica is not None
        if broker.replica.topic_id != self.world.topic_id:
            return
        writer = (broker.broker_id, broker.replica.start_number)
        if self.writers.setdefault(epoch, writer) != writer:
            raise Wrong(f"epoch {epoch} has two writers: {self.writers[epoch]} and {writer}")
        if self.wrote.setdefault((epoch, record.position), record.value) != record.value:
            raise Wrong(f"offset {record.position} of epoch {epoch} was written twice")

    def copied(self, broker: "SimulatedBroker", epoch: int, record: Record) -> None:
        """A follower has appended: the same as the leader of that epoch wrote there."""
        assert broker.replica is not None
        if broker.replica.topic_id == self.world.topic_id and self.wrote.get((epoch, record.position)) != record.value:
            raise Wrong(f"broker {broker.broker_id} has copied {record}, which the leader of epoch {epoch} never wrote")

    def acknowledged(self, broker: "SimulatedBroker", value: int) -> None:
        """A producer was told that its record is safe: each member of the set has it, with its life."""
        assert broker.replica is not None
        if broker.replica.topic_id != self.world.topic_id:
            return
        self.acknowledgements += 1
        there = [each for each in broker.log.records() if each.value == value]
        if not there:
            if any(each.value == value for each in self._all(broker)) or broker.log.facts().is_damaged:
                return  # deleted or damaged meanwhile
            raise Wrong(f"broker {broker.broker_id} acknowledges {value}, and does not have it")
        record = there[0]
        if self.acked.setdefault(record.position, value) != value:
            raise Wrong(f"offset {record.position} was acknowledged for {self.acked[record.position]} and for {value}")
        self.acknowledged_values.add(value)
        node = self.world.zookeeper.node(self.world.topic_id)
        for member in () if node is None else node.members:
            other = self.world.brokers[member.broker_id]
            if not other.has_life(member.life):
                continue
            facts = other.log.facts()
            has = [each.value for each in other.log.records(record.position) if each.position == record.position]
            if has != [value] and not facts.is_damaged and record.position >= facts.log_start_offset:
                raise Wrong(f"{value} at {record.position} is acknowledged, and member {member} holds {has or 'nothing'} there")
            if self.world.acks_on_disk and other.log.physically_flushed() < record.next_offset and broker.replica.acks_on_disk:
                raise Wrong(f"{value} at {record.position} is acknowledged, and is not on the disk of {member}")

    def _all(self, broker: "SimulatedBroker") -> list[Record]:
        return broker.log.records()

    def deletes(self, broker: "SimulatedBroker", to_offset: int) -> None:
        """A log's start is about to move: no member that may lead has less than that."""
        node = self.world.zookeeper.node(self.world.topic_id)
        replica = broker.replica
        if node is None or replica is None or not isinstance(replica.role, Leading) or replica.topic_id != self.world.topic_id:
            return
        for member in node.members if replica.role.leader_epoch == node.leader_epoch else ():
            other = self.world.brokers[member.broker_id]
            if other.has_life(member.life) and other.log.facts().end_offset < to_offset:
                raise Wrong(f"records up to {to_offset} are deleted, and member {member} has not got so far")

    def deletion_acknowledged(self, broker: "SimulatedBroker", offset: int) -> None:
        assert broker.replica is not None
        if broker.replica.topic_id == self.world.topic_id and isinstance(broker.replica.role, Leading):
            self.deleted_to = max(self.deleted_to, offset)
            self.delete_epoch = max(self.delete_epoch, broker.replica.role.leader_epoch)

    def look(self, broker: "SimulatedBroker") -> None:
        """Read as a consumer what the broker shows, if it leads."""
        replica = broker.replica
        if replica is None or not isinstance(replica.role, Leading) or replica.topic_id != self.world.topic_id:
            return
        end = self.world.visible(broker)
        epoch = replica.role.leader_epoch
        key = (epoch, replica.start_number)
        if end is None or self.looked_to.get(key) == end:
            return
        is_first = key not in self.looked_to
        begin = 0 if is_first else self.looked_to[key]
        self.looked_to[key] = end
        if end < self.seen_to.get(epoch, 0):
            raise Wrong(f"the high watermark of epoch {epoch} goes back to {end}")
        self.seen_to[epoch] = end
        self.first_seen_to.setdefault(epoch, end)
        for other, to in self.seen_to.items():
            if other < epoch and to > self.first_seen_to[epoch]:
                raise Wrong(f"consumers read to {to} in epoch {other}, and to {self.first_seen_to[epoch]} in epoch {epoch}")
            if other > epoch and end > self.first_seen_to[other]:
                raise Wrong(f"epoch {epoch} shows {end} to consumers after epoch {other} began with {self.first_seen_to[other]}")
        facts = broker.log.facts()
        if epoch >= self.delete_epoch and facts.log_start_offset < self.deleted_to:
            raise Wrong(f"records before {self.deleted_to} were deleted, and are back in epoch {epoch}")
        shown = {each.position: each for each in broker.log.records(begin) if each.next_offset <= end}
        for record in shown.values():
            if self.seen.setdefault(record.position, record.value) != record.value:
                raise Wrong(f"offset {record.position} was {self.seen[record.position]} and is {record.value} in epoch {epoch}")
            if record.value < self.first_value:
                raise Wrong(f"a record of the deleted topic is at {record.position}")
        is_superseded = any(other > epoch for other in self.seen_to)  # a leader that does not know it yet may show an older end
        if is_first and not facts.is_damaged and not is_superseded:
            self._holds_all(broker, epoch, {position: each.value for position, each in shown.items()}, end)

    def _holds_all(self, broker: "SimulatedBroker", epoch: int, shown: dict[int, int], end: int) -> None:
        start = max(broker.log.facts().log_start_offset, 0)
        for name, promised in (("acknowledged", self.acked), ("read", self.seen)):
            for position, value in promised.items():
                is_given_up = any(begin <= position < to for begin, to in self._given_up())
                if position >= start and shown.get(position) != value and not is_given_up:
                    raise Wrong(f"{value} at {position} was {name}, and is lost in epoch {epoch} of broker {broker.broker_id}")

    def _given_up(self) -> list[tuple[int, int]]:
        return [*self.given_up, *self.world.node().lost]

    def removes_folder(self, broker: "SimulatedBroker") -> None:
        """A folder goes: it is no member's."""
        assert broker.replica is not None
        node = self.world.zookeeper.node(broker.replica.topic_id)
        if node is not None and node.member(broker.broker_id) is not None and not self.is_restored:
            raise Wrong(f"the folder of broker {broker.broker_id} is deleted, and it is a member of {node.members}")

    # -- recovery and the end ------------------------------------------------------------------------

    def recovers(self, chosen: int) -> None:
        """A recovery is right only when no member has its life. What only lost replicas had deleted comes back."""
        for member in self.world.node().members:
            other = self.world.brokers[member.broker_id]
            if other.has_life(member.life):
                raise Wrong(f"a recovery, and member {member} has its life")
        heard = [one for one in self.world.brokers.values() if one.replica is not None]
        self.deleted_to = min(self.deleted_to, max(one.log.facts().log_start_offset for one in heard))

    def is_at_rest(self) -> bool:
        return self._why_not_at_rest() is None

    def _why_not_at_rest(self) -> str | None:
        world = self.world
        node = world.node()
        leaders = world.leaders()
        if [each.broker_id for each in leaders] != [node.leader]:
            return f"the node names {node.leader}, and {[each.broker_id for each in leaders]} lead"
        leader = leaders[0]
        end = leader.log.facts().end_offset
        if {each.broker_id for each in node.members} != set(world.brokers):
            return f"the set is {node.members}"
        if node.targets or node.replicas != tuple(world.brokers):
            return f"the replicas are {node.replicas}, and {node.targets or 'no targets'} are wanted"
        if world.visible(leader) != end:
            return f"consumers may read to {world.visible(leader)} of {end}"
        start = max(each.log.facts().log_start_offset for each in world.brokers.values())
        rows = [(each.position, each.value) for each in leader.log.records(start)]
        for broker in world.brokers.values():
            if [(each.position, each.value) for each in broker.log.records(start)] != rows:
                return f"broker {broker.broker_id} does not hold what the leader holds"
        return None

    def at_the_end(self) -> None:
        """After all faults have ended: one leader, three equal logs, everything acknowledged there, once."""
        if self.is_restored:
            return  # What stopped must wait for an operator.
        why_not = self._why_not_at_rest()
        if why_not is not None:
            roles = {each.broker_id: each.replica and each.replica.role for each in self.world.brokers.values()}
            raise Wrong(f"the replicas do not come to rest: {why_not}. {roles}")
        leader = self.world.leaders()[0]
        records = leader.log.records()
        self._holds_all(leader, self.world.node().leader_epoch, {each.position: each.value for each in records}, 0)
        values = [each.value for each in records]
        if len(values) != len(set(values)):
            raise Wrong(f"a record is there twice: {values}")
        stopped = [
            each.broker_id for each in self.world.brokers.values() if each.replica and isinstance(each.replica.role, Stopped)
        ]
        if stopped:
            raise Wrong(f"brokers {stopped} have stopped")
        if self.world.open_tokens:
            raise Wrong(f"requests {sorted(self.world.open_tokens)} were never answered")
