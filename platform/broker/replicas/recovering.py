"""Recovery of a partition that no member may lead: none has its life, or ZooKeeper has lost the node. Asks what every replica
holds, and has one of them lead.

    holding (key 20006)    JSON: topic_id, partition
    response               JSON: null where no replica is open, it knows no node yet or it is being cut, else what `Candidate` has
    recover (key 20008)    JSON: topic_id, partition, version (of the node), start_offset, log_start_offset, and where ZooKeeper
                           lost the node base, leader_epoch and restored: version, base, replicas, targets, lost (of the node)
    response               JSON: whether the replica begins to take over

The plan is `replication.recovery`'s or `replication.restoring`'s. The chosen replica takes over by a swap on the node from which
the plan was made, so of two recoveries only one takes place. Lives on the loop thread.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from ...wire.errors import ErrorCode, MalformedFrame
from ..replication import restoring
from ..replication.events import Recover
from ..replication.facts import LogFacts
from ..replication.lives import Lives
from ..replication.recovery import Candidate, Plan, is_due, plan
from ..replication.replica import Noted
from ..replication.state import EpochStart, Member, State
from .asking import Peers
from .damage_book import DamageBook
from .driver import ReplicaDriver
from .messages import Key
from .replicas import Replicas

T = TypeVar("T")

HOLDING_KEY, RECOVER_KEY = 20_006, 20_008
ANSWER_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverOrder:
    """What the chosen replica is to do."""

    key: Key
    version: int
    start_offset: int
    log_start_offset: int
    restored: State | None = None
    """The node, if it is older than what replicas have noted. Then `base` and `leader_epoch` are those of the plan."""
    base: int = 0
    leader_epoch: int = 0

    def event(self) -> Recover:
        return Recover(
            start_offset=self.start_offset,
            log_start_offset=self.log_start_offset,
            restored=self.restored,
            base=self.base,
            leader_epoch=self.leader_epoch,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """The node of a partition, and what its brokers have answered."""

    node: State
    candidates: tuple[Candidate, ...]
    silent: Mapping[int, str]
    """Why a broker that should keep a copy has not answered with one."""

    @property
    def went_back(self) -> bool:
        """Return whether ZooKeeper has lost the node, or has an older one than a replica has noted."""
        return restoring.is_due(self.node, self.candidates)

    @property
    def plan(self) -> Plan | None:
        """None when no recovery is due, or none can be planned."""
        if self.went_back:
            final = [one for one in self.candidates if restoring.is_final(self.node, one)]
            return restoring.plan(self.node, final) if final else None
        return plan(self.node, self.candidates) if is_due(self.node, self.candidates) else None

    def why_not(self) -> tuple[ErrorCode, str]:
        """Return why no recovery is due."""
        if self.went_back:
            reasons = "; ".join(f"broker {one}: {why}" for one, why in self.silent.items())
            return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"no replica has answered: {reasons}: start the brokers"
        if not self.node.members:
            return ErrorCode.ELECTION_NOT_NEEDED, "the partition never had a leader, so nothing is lost"
        by_broker = {one.broker_id: one for one in self.candidates}
        whole = [
            one.broker_id
            for one in self.node.members
            if one.broker_id in by_broker and one.life in by_broker[one.broker_id].lives
        ]
        if whole:
            return (
                ErrorCode.ELECTION_NOT_NEEDED,
                f"in-sync replicas have what was acknowledged, so nothing is lost: broker {_ids(whole)}",
            )
        missing = [one.broker_id for one in self.node.members if one.broker_id not in by_broker]
        reasons = "; ".join(f"broker {one}: {self.silent.get(one, 'it has no copy')}" for one in missing)
        what_to_do = "start it, with an empty folder if its disk is lost"
        return (
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            f"an in-sync replica was not heard, and may be whole: {reasons}: {what_to_do}",
        )


def candidate(broker_id: int, driver: ReplicaDriver | None, book: DamageBook | None) -> Candidate | None:
    """Return what a replica that is kept here holds; None while it has no log that can be asked, or obeys no node yet.

    One that has stopped because ZooKeeper went back obeys none, and answers.
    """
    if driver is None or driver.is_gone or driver.machine.is_cutting:
        return None
    if not driver.waits_for_recovery and (driver.has_stopped or driver.node is None):
        return None
    known = [] if book is None else book.damages()
    damaged = [
        (one.from_offset, one.to_offset)
        for one in known
        if (one.topic, one.partition) == (driver.topic, driver.index) and not one.is_undecided
    ]
    machine = driver.machine
    return Candidate(
        broker_id=broker_id,
        lives=machine.lives,
        log=driver.facts(),
        damaged=tuple(damaged),
        high_watermark=machine.high_watermark,
        noted=machine.noted,
        obeys=None if driver.waits_for_recovery or driver.node is None else driver.node.version,
        min_insync_replicas=machine.min_insync_replicas,
    )


def look(replicas: Replicas, peers: Peers, key: Key, done: Callable[[Prospect | None], None]) -> None:
    """Ask every broker that has or had a copy. `done` gets None when the partition has no node, or it cannot be read now."""

    def read(node: State | None) -> None:
        if node is None:
            done(None)
            return
        waiting = {*node.copies, *(member.broker_id for member in node.members)}
        found: list[Candidate] = []
        silent: dict[int, str] = {}

        def ended(broker_id: int) -> None:
            waiting.discard(broker_id)
            if not waiting:
                by_id = sorted(found, key=lambda one: one.broker_id)
                if restoring.is_due(node, by_id):
                    behind = [one.broker_id for one in by_id if not restoring.is_final(node, one)]
                    silent.update(dict.fromkeys(behind, "it does not know yet that ZooKeeper went back: ask again"))
                done(Prospect(node=node, candidates=tuple(by_id), silent=silent))

        def answered(broker_id: int, body: bytes) -> None:
            try:
                one = decode_candidate(body)
            except MalformedFrame as error:
                failed(broker_id, error)
                return
            if one is None:
                silent[broker_id] = "its replica is not open yet, or is being cut"
            else:
                found.append(one)
            ended(broker_id)

        def failed(broker_id: int, error: Exception) -> None:
            silent[broker_id] = str(error)
            ended(broker_id)

        body = encode_key(key)
        for one in sorted(waiting):
            peers.ask(one, HOLDING_KEY, body, partial(answered, one), partial(failed, one), deadline_ms=ANSWER_MS)

    replicas.read_state(key, read)


def order(peers: Peers, key: Key, prospect: Prospect, chosen: Plan, done: Callable[[str | None], None]) -> None:
    """Have the chosen replica take over. `done` gets None when it has begun, else why not."""

    def answered(body: bytes) -> None:
        done(None if body == b"true" else f"broker {chosen.chosen} is busy, or the partition has changed: ask again")

    def failed(error: Exception) -> None:
        done(str(error))

    wanted = RecoverOrder(
        key=key,
        version=prospect.node.version,
        start_offset=chosen.start_offset,
        log_start_offset=chosen.log_start_offset,
        restored=prospect.node if chosen.base else None,
        base=chosen.base,
        leader_epoch=chosen.leader_epoch,
    )
    peers.ask(chosen.chosen, RECOVER_KEY, encode_order(wanted), answered, failed, deadline_ms=ANSWER_MS)


# -- messages --------------------------------------------------------------------------------------


def encode_key(key: Key) -> bytes:
    return json.dumps({"topic_id": str(key[0]), "partition": key[1]}).encode()


def decode_key(body: bytes) -> Key:
    """Raises MalformedFrame."""
    return _read(body, _key_of)


def encode_candidate(one: Candidate | None) -> bytes:
    return json.dumps(None if one is None else asdict(one)).encode()


def decode_candidate(body: bytes) -> Candidate | None:
    """Raises MalformedFrame."""
    return _read(body, lambda words: None if words is None else _candidate_of(words))


def encode_order(wanted: RecoverOrder) -> bytes:
    numbers = {name: getattr(wanted, name) for name in ("version", "start_offset", "log_start_offset", "base", "leader_epoch")}
    node = wanted.restored
    restored = (
        None if node is None else {name: getattr(node, name) for name in ("version", "base", "replicas", "targets", "lost")}
    )
    return json.dumps({"topic_id": str(wanted.key[0]), "partition": wanted.key[1], "restored": restored, **numbers}).encode()


def decode_order(body: bytes) -> RecoverOrder:
    """Raises MalformedFrame."""
    return _read(
        body,
        lambda words: RecoverOrder(
            key=_key_of(words),
            version=int(words["version"]),
            start_offset=int(words["start_offset"]),
            log_start_offset=int(words["log_start_offset"]),
            restored=_restored_of(words.get("restored")),
            base=int(words.get("base", 0)),
            leader_epoch=int(words.get("leader_epoch", 0)),
        ),
    )


def _restored_of(words: Any) -> State | None:
    if words is None:
        return None
    return State(
        version=int(words["version"]),
        base=int(words["base"]),
        replicas=tuple(int(one) for one in words["replicas"]),
        targets=tuple(int(one) for one in words["targets"]),
        lost=tuple((int(begin), int(end)) for begin, end in words["lost"]),
    )


def _read(body: bytes, of: Callable[[Any], T]) -> T:
    try:
        return of(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise MalformedFrame(f"a message about a recovery of {len(body)} bytes cannot be read") from None


def _key_of(words: Any) -> Key:
    return UUID(words["topic_id"]), int(words["partition"])


def _candidate_of(words: Any) -> Candidate:
    log = dict(words["log"])
    epochs = tuple(
        EpochStart(leader_epoch=int(one["leader_epoch"]), start_offset=int(one["start_offset"])) for one in log.pop("epochs")
    )
    return Candidate(
        broker_id=int(words["broker_id"]),
        lives=Lives(memory=str(words["lives"]["memory"]), disk=str(words["lives"]["disk"])),
        log=LogFacts(epochs=epochs, is_damaged=bool(log.pop("is_damaged")), **{name: int(value) for name, value in log.items()}),
        damaged=tuple((int(begin), int(end)) for begin, end in words["damaged"]),
        high_watermark=int(words["high_watermark"]),
        noted=_noted_of(words.get("noted")),
        obeys=None if words.get("obeys") is None else int(words["obeys"]),
        min_insync_replicas=int(words.get("min_insync_replicas", 1)),
    )


def _noted_of(words: Any) -> Noted:
    """Brokers of an earlier release do not say what they have noted."""
    if words is None:
        return Noted()
    return Noted(
        version=int(words["version"]),
        leader_epoch=int(words["leader_epoch"]),
        members=tuple(Member(broker_id=int(one["broker_id"]), life=str(one["life"])) for one in words["members"]),
        went_back=bool(words["went_back"]),
    )


def _ids(ids: list[int]) -> str:
    return ", ".join(map(str, ids))
