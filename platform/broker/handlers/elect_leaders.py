"""ElectLeaders, key 43, versions 0-2: lets the preferred replica of a partition lead it.

A replica takes over by itself when the leader is gone. The preferred one, when it is back, leads again only when it is asked to:
by this request, which any broker passes on to the preferred one. Asked about all partitions, the answer names those that need an
election, as Apache Kafka does.

An unclean election takes place only for a partition that the request names, and only when every in-sync replica was heard and
none has what it had acknowledged, or when ZooKeeper has lost the partition's node (`replicas.recovering`). Type 2 is ours: an
unclean election that is refused if anything acknowledged may be lost."""

from collections.abc import Callable, Generator, Mapping
from enum import IntEnum
from functools import partial
from typing import Any

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from ..partitions.placement import NO_LEADER, Placement, placement
from ..replicas import recovering
from ..replicas.recovering import Prospect
from ..replicas.replicas import Replicas
from .broker import Broker, required
from .describe_recovery import NOT_READ
from .fan_in import STILL_UNDER_WAY, FanIn
from .request import Request

KEY, ASKED_VERSION = 43, 2
LONGEST_MS = 5_000
"""For the preferred replica to take over."""
RECOVERY_MS = 20_000
"""For a recovery's replica to take over."""
LOOK_EVERY_MS = 100

Partition = tuple[str, int]
Outcome = tuple[ErrorCode | None, str | None]

_ELECTION_NEEDED = None


class Election(IntEnum):
    """The protocol's numbers, and one of ours."""

    PREFERRED = 0
    UNCLEAN = 1
    LOSSLESS = 2


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the outcome for each partition of the request, once the elections that it needs are over."""
    version = request.version
    decoded = yield from control.decode_in_steps(KEY, version, request.body)
    kind = int(getattr(decoded, "election_type", Election.PREFERRED))
    live = broker.broker_ids
    if decoded.topic_partitions is None:
        results = yield from _needing(broker, kind, live)
    else:
        results = {}
        for topic in decoded.topic_partitions:
            yield
            for index in required(topic.partitions):
                partition = (str(topic.topic), int(index))
                placed = _placed(broker, partition, live)
                is_asked = kind != Election.PREFERRED and placed is not None and len(placed.replicas) > 1
                results[partition] = (_ELECTION_NEEDED, None) if is_asked else outcome(placed, kind)
    wanted = [partition for partition, (error, _) in results.items() if error is _ELECTION_NEEDED]
    if not wanted:
        return (yield from _answer(version, results))
    fan_in = FanIn[Partition, Outcome](
        broker,
        wanted,
        timeout_ms=control.milliseconds(decoded.timeout),
        overdue=lambda _: (ErrorCode.REQUEST_TIMED_OUT, STILL_UNDER_WAY),
        answer=lambda elected: _answer(version, {**results, **elected}),
    )
    elect = _elect if kind == Election.PREFERRED else partial(_recover, may_lose=kind != Election.LOSSLESS)
    return fan_in.start(lambda partition: elect(broker, partition, lambda refusal: fan_in.put(partition, refusal)))


def _recover(broker: Broker, partition: Partition, done: Callable[[Outcome], None], *, may_lose: bool) -> None:
    """Have the best replica lead, if no in-sync replica can, and wait until it leads."""
    entry, replicas, peers = broker.topics.catalog.topics.get(partition[0]), broker.replicas, broker.peers
    if entry is None or replicas is None or peers is None:
        done(outcome(_placed(broker, partition, broker.broker_ids), Election.UNCLEAN))
        return
    key = (entry.topic_id, partition[1])

    def found(prospect: Prospect | None) -> None:
        if prospect is None:
            done((ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, NOT_READ))
            return
        plan = prospect.plan
        if plan is None:
            done(prospect.why_not())
            return
        if plan.doubt is not None and not may_lose:
            why = f"{plan.doubt}: `headrace partition recover {partition[0]} {partition[1]}` shows what would be given up"
            done((ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, why))
            return
        until_ms, before = broker.loop.now_ms + RECOVERY_MS, prospect.node.leader_epoch

        def ordered(why_not: str | None) -> None:
            if why_not is None:
                _await_leader(broker, partition, plan.chosen, before, until_ms, done)
            else:
                done((ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, why_not))

        recovering.order(peers, key, prospect, plan, ordered)

    recovering.look(replicas, peers, key, found)


def _await_leader(
    broker: Broker, partition: Partition, wanted: int, before: int, until_ms: int, done: Callable[[Outcome], None]
) -> None:
    """Look until a broker leads in a later epoch than `before`."""
    placed = _placed(broker, partition, broker.broker_ids)
    if placed is not None and placed.leader == wanted and placed.leader_epoch > before:
        done((ErrorCode.NONE, None))
    elif placed is None or broker.loop.now_ms >= until_ms:
        done((ErrorCode.REQUEST_TIMED_OUT, STILL_UNDER_WAY))
    else:
        again = partial(_await_leader, broker, partition, wanted, before, until_ms, done)
        broker.loop.call_at(broker.loop.now_ms + LOOK_EVERY_MS, again)


def _elect(broker: Broker, partition: Partition, done: Callable[[Outcome], None]) -> None:
    """Let the preferred replica take over: this broker, or another one, which is asked."""
    topic, index = partition
    entry, placed = broker.topics.catalog.topics.get(topic), _placed(broker, partition, broker.broker_ids)
    if entry is None or placed is None:
        done((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition"))
        return
    preferred = placed.replicas[0]
    if preferred == broker.settings.broker_id and broker.replicas is not None:
        _take_over(broker, broker.replicas, partition, broker.loop.now_ms + LONGEST_MS, done)
        return

    def failed(error: Exception) -> None:
        done((ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"broker {preferred} is preferred and does not answer: {error}"))

    def answered(answer: Any) -> None:
        found = [one for of_topic in answer.replica_election_results for one in of_topic.partition_result]
        if len(found) == 1:
            done((ErrorCode(int(found[0].error_code)), found[0].error_message))
        else:
            failed(ConnectionError(f"its answer names {len(found)} partitions, error {answer.error_code}"))

    asked = {"election_type": int(Election.PREFERRED), "timeout_ms": LONGEST_MS}
    topics = [{"topic": topic, "partitions": [index]}]
    if broker.others is None:
        failed(ConnectionError("this broker is alone"))
        return
    broker.others.ask(preferred, KEY, ASKED_VERSION, {**asked, "topic_partitions": topics}, answered, failed)


def _take_over(broker: Broker, replicas: Replicas, partition: Partition, until_ms: int, done: Callable[[Outcome], None]) -> None:
    """Take over, and look until this broker leads. The replica may learn only now that it is in the set, so it is asked again."""
    wanted = broker.settings.broker_id
    entry, placed = broker.topics.catalog.topics.get(partition[0]), _placed(broker, partition, broker.broker_ids)
    if placed is not None and placed.leader == wanted:
        done((ErrorCode.NONE, None))
    elif entry is None or broker.loop.now_ms >= until_ms:
        done((ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"broker {wanted} has not taken over within {LONGEST_MS} ms: ask again"))
    else:
        replicas.take_over((entry.topic_id, partition[1]))
        again = partial(_take_over, broker, replicas, partition, until_ms, done)
        broker.loop.call_at(broker.loop.now_ms + LOOK_EVERY_MS, again)


def outcome(placed: Placement | None, kind: int) -> Outcome:
    """Return why a partition gets no election, `_ELECTION_NEEDED` where it gets one. None: there is no such partition. Pure."""
    if placed is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition"
    if kind != Election.PREFERRED:
        if placed.leader != NO_LEADER:
            return ErrorCode.ELECTION_NOT_NEEDED, f"broker {placed.leader} leads this partition"
        why = "an election that gives records up wants the partition by name: `headrace partition recover` shows what is given up"
        return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, why
    preferred = placed.replicas[0]
    if placed.leader == preferred:
        return ErrorCode.ELECTION_NOT_NEEDED, f"broker {preferred}, the preferred one, leads this partition"
    if preferred in placed.offline:
        has = "has its only replica" if len(placed.replicas) == 1 else "is preferred as leader"
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"broker {preferred} {has} and is not there: start it"
    if preferred not in placed.in_sync:
        why = f"broker {preferred} is preferred as leader and has not caught up yet: ask again when it is in sync"
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, why
    return _ELECTION_NEEDED, None


def _placed(broker: Broker, partition: Partition, live: set[int]) -> Placement | None:
    entry = broker.topics.catalog.topics.get(partition[0])
    return None if entry is None else placement(entry, partition[1], live)


def _needing(broker: Broker, kind: int, live: set[int]) -> Generator[None, None, dict[Partition, Outcome]]:
    """Return the outcomes of the partitions that need an election."""
    found: dict[Partition, Outcome] = {}
    for name, entry in broker.topics.catalog.topics.items():
        yield
        for index in entry.states:
            result = outcome(placement(entry, index, live), kind)
            if result[0] != ErrorCode.ELECTION_NOT_NEEDED:
                found[name, index] = result
    return found


def _answer(version: int, results: Mapping[Partition, Outcome]) -> Generator[None, None, bytes]:
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for (topic, index), (error, why) in results.items():
        by_topic.setdefault(topic, []).append({"partition_id": index, "error_code": error, "error_message": why})
    topics = [{"topic": topic, "partition_result": partitions} for topic, partitions in by_topic.items()]
    message = {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "replica_election_results": topics}
    return (yield from control.encode_in_steps(KEY, version, message))
