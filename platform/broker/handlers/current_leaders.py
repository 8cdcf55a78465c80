"""Tells a client that wrote to the wrong broker who leads, with its address, so that it need not ask for metadata (KIP-951)."""

from collections.abc import Sequence

from ...wire.errors import ErrorCode
from ...wire.messages import produce
from ..partitions.placement import NO_LEADER, placement
from .broker import Broker

WRONG_LEADER = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def produce_response(
    broker: Broker, version: int, listener: str, topics: Sequence[produce.ProduceResponseTopic]
) -> produce.ProduceResponse:
    """Return the response to a client that came by `listener`. Partitions with one replica have no epoch, so that clients would
    not take the hint: they get none.
    """
    if version < produce.FIRST_WITH_LEADERS or not _is_misdirected(topics):
        return produce.ProduceResponse(topics)
    known = broker.brokers(listener)
    leaders: set[int] = set()
    shown = []
    for name, partitions in topics:
        entry = broker.topics.catalog.topics.get(name)
        answers = []
        for answer in partitions:
            placed = None
            if entry is not None and answer.error_code in WRONG_LEADER and answer.index in entry.states:
                placed = placement(entry, answer.index, known)
            if placed is not None and placed.leader != NO_LEADER:
                leaders.add(placed.leader)
                answer = answer._replace(current_leader=(placed.leader, placed.leader_epoch))
            answers.append(answer)
        shown.append(produce.ProduceResponseTopic(name, answers))
    return produce.ProduceResponse(shown, endpoints={one: known[one] for one in leaders})


def _is_misdirected(topics: Sequence[produce.ProduceResponseTopic]) -> bool:
    return any(answer.error_code in WRONG_LEADER for _, partitions in topics for answer in partitions)
