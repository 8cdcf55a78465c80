"""Tells a client that came to the wrong broker who leads, with its address, so that it need not ask for metadata (KIP-951)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ...wire.errors import ErrorCode
from ...wire.messages import fetch, produce
from ..partitions.placement import NO_LEADER, placement
from .broker import Broker

WRONG_LEADER = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class _Answer(Protocol):
    @property
    def error_code(self) -> int: ...


def produce_response(
    broker: Broker, version: int, listener: str, topics: Sequence[produce.ProduceResponseTopic]
) -> produce.ProduceResponse:
    """Return the response to a client that came by `listener`. Partitions with one replica have no epoch, so that clients would
    not take the hint: they get none.
    """
    if version < produce.FIRST_WITH_LEADERS or not _is_misdirected(answer for _, answers in topics for answer in answers):
        return produce.ProduceResponse(topics)
    known = broker.brokers(listener)
    leaders: set[int] = set()
    shown = []
    for name, partitions in topics:
        answers = []
        for answer in partitions:
            leader = _leader(broker, known, name, answer.index, answer.error_code)
            if leader is not None:
                leaders.add(leader[0])
                answer = answer._replace(current_leader=leader)
            answers.append(answer)
        shown.append(produce.ProduceResponseTopic(name, answers))
    return produce.ProduceResponse(shown, endpoints={one: known[one] for one in leaders})


def fetch_response(broker: Broker, version: int, listener: str, response: fetch.FetchResponse) -> fetch.FetchResponse:
    """Return the response with the leaders, for a client that came by `listener`."""
    if version < fetch.FIRST_WITH_LEADERS or not _is_misdirected(one for _, answers in response.topics for one in answers):
        return response
    known = broker.brokers(listener)
    leaders: set[int] = set()
    shown = []
    for topic, partitions in response.topics:
        name = broker.topic_to_read(topic)
        answers = []
        for answer in partitions:
            leader = None if name is None else _leader(broker, known, name, answer.index, answer.error_code)
            if leader is not None:
                leaders.add(leader[0])
                answer = answer._replace(current_leader=leader)
            answers.append(answer)
        shown.append(fetch.FetchResponseTopic(topic, answers))
    return response._replace(topics=shown, endpoints={one: known[one] for one in leaders})


def _leader(
    broker: Broker, known: Mapping[int, tuple[str, int]], topic: str, index: int, error_code: int
) -> tuple[int, int] | None:
    """Return broker and epoch of another leader. A broker that has just answered that it does not lead is none, whatever it has
    read before.
    """
    entry = broker.topics.catalog.topics.get(topic)
    if entry is None or error_code not in WRONG_LEADER or index not in entry.states:
        return None
    placed = placement(entry, index, known)
    if placed is None or placed.leader in (NO_LEADER, broker.settings.broker_id):
        return None
    return placed.leader, placed.leader_epoch


def _is_misdirected(answers: Iterable[_Answer]) -> bool:
    return any(answer.error_code in WRONG_LEADER for answer in answers)
