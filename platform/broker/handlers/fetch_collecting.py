"""What a fetch finds: the answer for each partition that it asks for, or for those of its session that may have news.

Reads the logs and changes nothing that a client was told. `fetch` decides when to answer.

An offset behind the log's end is OFFSET_OUT_OF_RANGE, and clients then begin elsewhere. A leader that was frozen while another
one took over does not know the records that were committed meanwhile. So a replicated partition gives that error only when its
broker has been found to lead after the request came (`Collected.unsure`, `is_sure`), else NOT_LEADER_OR_FOLLOWER."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from ...wire.errors import ErrorCode
from ...wire.messages import fetch
from ...wire.messages.single_partition_fetch import SinglePartitionFetch
from ..log import DamageAhead, FolderFault
from ..network.peer import Peer
from ..partitions.partition import Partition
from ..rights.rule import Operation
from .access.control import AccessControl
from .broker import Broker
from .fetch_sessions import FetchSession, SessionPartition
from .offset_for_leader_epoch import fault_of

KEY = fetch.API_KEY

NOTHING: frozenset[fetch.TopicKey] = frozenset()


class InSession(NamedTuple):
    session: FetchSession
    epoch: int
    """The session's, after this request."""
    request: fetch.FetchRequest


class Repeated(NamedTuple):
    """A cached request with its offset."""

    known: SinglePartitionFetch
    offset: int


Asked = fetch.FetchRequest | Repeated | InSession


class Collected(NamedTuple):
    topics: list[fetch.FetchResponseTopic]
    size_bytes: int
    must_go: bool
    """Whether an error is in it. Waiting would only hide the error."""
    taken_from: list[tuple[Partition, int]]
    """Each partition that has records in the response, with their size in bytes."""
    seen: Sequence[tuple[SessionPartition, fetch.FetchResponsePartition]] = ()
    """In a session: all that was looked at."""
    unsure: Sequence[Partition] = ()
    """The answer for these depends on whether this broker leads them."""


def request_of(asked: Asked) -> fetch.FetchRequest:
    if isinstance(asked, fetch.FetchRequest):
        return asked
    return asked.request if isinstance(asked, InSession) else asked.known.at(asked.offset)


def to_read(broker: Broker, asked: Asked) -> Iterator[tuple[Partition | None, fetch.FetchPartition]]:
    find = broker.partition_to_read
    if isinstance(asked, InSession):
        for one in asked.session.active:
            yield one.partition or find(one.topic, one.wanted.index), one.wanted
        return
    for name, partitions in request_of(asked).topics:
        for wanted in partitions:
            yield find(name, wanted.index), wanted


def may_read(broker: Broker, peer: Peer, known: SinglePartitionFetch) -> bool:
    """Return whether the client may have what a repeated request asks for. A no is not in the trail: `collect` says it. Hot where
    there are access rules.
    """
    access = broker.access
    if access is None:
        return True
    if known.request.replica_id >= 0:
        return access.could_follow(peer)
    name = broker.topic_to_read(known.topic)
    return name is None or access.could(peer, Operation.READ, name)


def _denied(broker: Broker, access: AccessControl, peer: Peer, asked: Asked) -> frozenset[fetch.TopicKey]:
    """Return the topics, as the request names them, that the client may not read now. Denials go into the trail."""
    if isinstance(asked, Repeated):
        names: set[fetch.TopicKey] = {asked.known.topic}
        replica_id = asked.known.request.replica_id
    elif isinstance(asked, InSession):
        names, replica_id = {one.topic for one in asked.session.active}, asked.request.replica_id
    else:
        names, replica_id = {topic.name for topic in asked.topics}, asked.replica_id
    # An id that no topic has is in no answer but its own: UNKNOWN_TOPIC_ID, whatever the client may read.
    by_name = {name: one for one in names if (name := broker.topic_to_read(one)) is not None}
    return frozenset(by_name[one] for one in access.unreadable(peer, by_name, of_replica=replica_id >= 0))


def collect(broker: Broker, asked: Asked, peer: Peer, sure: Collection[Partition] = ()) -> Collected:
    """Return what there is now. `sure`: partitions that this broker was found to lead after the request came."""
    forbidden = NOTHING if (access := broker.access) is None else _denied(broker, access, peer, asked)
    if isinstance(asked, InSession):
        return _collect_news(broker, asked, forbidden, sure)
    request = request_of(asked)
    left = min(request.max_bytes, broker.settings.fetch_max_bytes)
    size_bytes, must_go = 0, False
    taken_from = []
    unsure = []
    topics = []
    for name, partitions in request.topics:
        answers = []
        for wanted in partitions:
            partition = broker.partition_to_read(name, wanted.index)
            if name in forbidden:
                answer = _no_right(wanted)
            elif partition is None:
                answer = _refusal(broker, name, wanted)
            else:
                answer = _read(partition, wanted, left, size_bytes == 0, partition in sure)
                if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    unsure.append(partition)
            if answer.error_code:
                must_go = True
            elif partition is not None and answer.records is not None and (length := len(answer.records)) > 0:
                taken_from.append((partition, length))
                size_bytes += length
                left -= length
            answers.append(answer)
        topics.append(fetch.FetchResponseTopic(name, answers))
    return Collected(topics, size_bytes, must_go, taken_from, unsure=unsure)


def _collect_news(
    broker: Broker, asked: InSession, forbidden: frozenset[fetch.TopicKey], sure: Collection[Partition]
) -> Collected:
    """Look at a session's active partitions. Changes nothing that the client was told."""
    request = asked.request
    left = min(request.max_bytes, broker.settings.fetch_max_bytes)
    size_bytes, must_go = 0, False
    taken_from = []
    unsure = []
    seen = []
    topics: dict[fetch.TopicKey, list[fetch.FetchResponsePartition]] = {}
    for one in asked.session.active:
        wanted, partition = one.wanted, one.partition
        if partition is None:
            partition = one.partition = broker.partition_to_read(one.topic, wanted.index)
        if one.topic in forbidden:
            answer = _no_right(wanted)
        elif partition is None:
            answer = _refusal(broker, one.topic, wanted)
        else:
            answer = _read(partition, wanted, left, size_bytes == 0, partition in sure)
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                unsure.append(partition)
        seen.append((one, answer))
        is_news = answer.high_watermark != one.sent_high_watermark or answer.log_start_offset != one.sent_log_start
        if answer.error_code:
            must_go = is_news = True
        elif partition is not None and answer.records is not None and (length := len(answer.records)) > 0:
            taken_from.append((partition, length))
            size_bytes += length
            left -= length
            is_news = True
        if is_news:
            topics.setdefault(one.topic, []).append(answer)
    named = [fetch.FetchResponseTopic(name, answers) for name, answers in topics.items()]
    return Collected(named, size_bytes, must_go, taken_from, seen, unsure)


def _read(
    partition: Partition, wanted: fetch.FetchPartition, left: int, is_first: bool, is_sure: bool
) -> fetch.FetchResponsePartition:
    fault = fault_of(wanted.current_leader_epoch, partition.leader_epoch)
    if fault is not None:
        return fetch.FetchResponsePartition(wanted.index, fault, -1)
    log = partition.log
    high_watermark = partition.high_watermark
    offset = wanted.fetch_offset
    log_start = log.log_start_offset
    if offset > log.log_end_offset and partition.is_replicated and not is_sure:
        return fetch.FetchResponsePartition(wanted.index, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    if offset < log_start or offset > log.log_end_offset:
        return fetch.FetchResponsePartition(
            wanted.index, ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark, high_watermark, log_start
        )
    if left <= 0 and not is_first and offset < high_watermark:
        return fetch.FetchResponsePartition(wanted.index, 0, high_watermark, high_watermark, log_start)
    try:
        records = log.read(offset, max(0, min(wanted.partition_max_bytes, left)), high_watermark)
    except (FolderFault, DamageAhead):
        # A replica's reader waits until the damage is repaired: the client asks again.
        return fetch.FetchResponsePartition(wanted.index, ErrorCode.KAFKA_STORAGE_ERROR, -1)
    if records is None:
        end = min(offset, high_watermark)  # Below the high watermark: everything from here to there is damaged.
        return fetch.FetchResponsePartition(wanted.index, 0, end, end, log_start)
    if not is_first and len(records) > left:
        return fetch.FetchResponsePartition(wanted.index, 0, high_watermark, high_watermark, log_start)
    return fetch.FetchResponsePartition(wanted.index, 0, high_watermark, high_watermark, log_start, records)


def _refusal(broker: Broker, topic: fetch.TopicKey, wanted: fetch.FetchPartition) -> fetch.FetchResponsePartition:
    return fetch.FetchResponsePartition(wanted.index, broker.not_readable_here(topic, wanted.index), -1)


def _no_right(wanted: fetch.FetchPartition) -> fetch.FetchResponsePartition:
    return fetch.FetchResponsePartition(wanted.index, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)
