"""Metadata, key 3, versions 0-12: the brokers, and of each topic asked for its id, its partitions and their leaders.

Version 12 may ask for topics by id. Traps: librdkafka cannot read long responses of version 9, therefore versions with ids are
served (decision 18). A topic that does not exist is created on first use, where the settings and the request allow it. The
response waits a bounded time for that, since clients sleep after LEADER_NOT_AVAILABLE before they ask again. Of a
partition with one replica the leader epoch is -1, so that clients validate no positions by it."""

import struct
from collections.abc import Collection, Generator, Iterator, Sequence

from ...runtime.layout import is_internal
from ...wire import topic_name
from ...wire.errors import ErrorCode, MalformedFrame
from ...wire.messages import metadata
from ...wire.messages.answer_bytes import AnswerBytes
from ...wire.messages.control import MOST_ELEMENTS
from ...wire.primitives import read_count, read_name, read_string, skip_tags
from ..event_loop.deferred_response import DeferredResponse
from ..event_loop.response_generators import ResponseGenerator
from ..partitions.catalog import Catalog, TopicEntry
from ..partitions.placement import placement
from .broker import Broker
from .request import Request

KEY = 3
FIRST_ASKED_BY_ID = 12
ID_BYTES = 16

Wanted = str | bytes
"""A topic's name, or its id."""

MOST_MADE = 500
"""Topics that one request may create by first use; the client asks again for the rest. The worker's queue holds twice as many."""

PLATFORM_PREFIX = "_headrace."
"""Topics that the platform itself needs have one partition and never expire, also when a reader asks for them before their owner
has created them.
"""


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return brokers and topics. A DeferredResponse while topics are created by first use."""
    version, listener = request.version, request.peer.listener
    wanted, may_create = yield from read_request(version, bytes(request.body))
    if wanted is not None and may_create and broker.settings.auto_create_topics:
        known = broker.topics.catalog.topics
        missing = []
        for name in dict.fromkeys(wanted):
            if isinstance(name, str) and name not in known and topic_name.fault_of(name) is None:
                missing.append(name)
            yield
        if missing:
            return _create_then_answer(broker, version, listener, wanted, missing[:MOST_MADE])
    return (yield from _answer(broker, version, listener, wanted))


def read_request(version: int, body: bytes) -> Generator[None, None, tuple[list[Wanted] | None, bool]]:
    """Return the topics of the request (None: all) and whether they may be created. Pauses at each. Raises: MalformedFrame.

    A topic is named by its name, in version 12 by its id instead. One that has both goes by its id, as in Kafka.

    Read by hand, because librdkafka asks for all topics of version 9 in eight bytes where five are meant. As Kafka reads them
    there is an unknown tagged field of no length and a byte left over, which must be ignored. kio refuses it.
    """
    flexible = version >= 9
    try:
        topic_count, at = read_count(body, 0, flexible=flexible, each=2)
        if topic_count > MOST_ELEMENTS:
            raise MalformedFrame(f"{topic_count} topics in a Metadata request: at most {MOST_ELEMENTS} are taken at once")
        names: list[Wanted] = []
        for _ in range(topic_count):
            topic_id = metadata.NO_ID
            if version >= metadata.FIRST_WITH_IDS:
                topic_id, at = body[at : at + ID_BYTES], at + ID_BYTES
            if topic_id == metadata.NO_ID:
                name, at = read_name(body, at, flexible=flexible)
                names.append(name)
            elif version < FIRST_ASKED_BY_ID:
                raise MalformedFrame(f"a topic id in a Metadata v{version} request: version {FIRST_ASKED_BY_ID} may ask by id")
            else:
                _, at = read_string(body, at, flexible=flexible)
                names.append(topic_id)
            if flexible:
                at = skip_tags(memoryview(body), at) if body[at] else at + 1
            yield
        may_create = version < 4 or body[at] != 0
    except (struct.error, IndexError):
        raise MalformedFrame(f"a Metadata v{version} request of {len(body)} bytes is cut") from None
    is_all = topic_count < 0 or (version == 0 and topic_count == 0)
    return (None if is_all else names), may_create


def _create_then_answer(
    broker: Broker, version: int, listener: str, wanted: Sequence[Wanted], missing: Sequence[str]
) -> DeferredResponse:
    waiting = set(missing)

    is_answering = False

    def answer() -> None:
        nonlocal is_answering
        if not is_answering:
            is_answering = True
            broker.generators.complete(deferred, _answer(broker, version, listener, wanted, being_made=frozenset(missing)))

    deferred = DeferredResponse(deadline_ms=broker.loop.now_ms + broker.settings.topic_creation_wait_ms, at_deadline=answer)

    for name in missing:

        def done(outcome: bool | Exception, name: str = name) -> None:
            waiting.discard(name)
            if not waiting:
                answer()

        partition_count, replication_factor, config = _first_use(broker, name)
        broker.topics.create(name, partition_count, config, done, replication_factor=replication_factor)
    return deferred


def _first_use(broker: Broker, name: str) -> tuple[int, int, dict[str, str]]:
    """Return partitions, replicas and settings of a topic that is created on first use."""
    factor = broker.default_replication_factor(name)
    if name.startswith(PLATFORM_PREFIX):
        return 1, factor, {"retention.ms": "-1"}
    return broker.settings.num_partitions, factor, {}


def _answer(
    broker: Broker, version: int, listener: str, wanted: Sequence[Wanted] | None, being_made: frozenset[str] = frozenset()
) -> Generator[None, None, bytes]:
    """Return the response: the remembered one when the same request came before and nothing has changed. Otherwise it is made of
    its topics; those that have not changed are remembered too.
    """
    catalog, answers = broker.topics.catalog, broker.metadata_answers
    key = (version, listener, None if wanted is None else tuple(wanted), being_made)
    answer = answers.get(key, catalog)
    if answer is None:
        brokers = broker.brokers(listener)
        names = sorted(catalog.topics) if wanted is None else list(dict.fromkeys(wanted))
        by_id = yield from _by_id(catalog, names)
        pieces = answers.pieces(version, frozenset(brokers))
        topics, errors = [], []
        for name in names:
            yield
            entry = catalog.topics.get(name) if isinstance(name, str) else by_id.get(name)
            if entry is None:
                if not isinstance(name, str):
                    errors.append(int(ErrorCode.UNKNOWN_TOPIC_ID))
                    topics.append(metadata.topic(version, None, ErrorCode.UNKNOWN_TOPIC_ID, topic_id=name))
                    continue
                error = _error_of(name, being_made)
                errors.append(int(error))
                topics.append(metadata.topic(version, name, error, is_internal=is_internal(name)))
                continue
            piece = pieces.get(entry.name)
            if piece is None or piece[0] is not entry:
                piece = pieces[entry.name] = (entry, _known(version, entry, brokers))
            topics.append(piece[1])
        body = metadata.response(
            version,
            brokers=brokers,
            cluster_id=catalog.cluster_id,
            controller_id=broker.settings.broker_id,
            topics=topics,
        )
        answer = AnswerBytes.holding(body, errors)
        answers.put(key, catalog, answer, 0 if wanted is None else sum(map(len, wanted)) + 60 * len(wanted))
    return answer


def _known(version: int, entry: TopicEntry, alive: Collection[int]) -> bytes:
    return metadata.topic(
        version,
        entry.name,
        ErrorCode.NONE,
        _places(entry, alive),
        is_internal=is_internal(entry.name),
        topic_id=entry.topic_id.bytes,
    )


def _places(entry: TopicEntry, alive: Collection[int]) -> Iterator[metadata.Place]:
    states = entry.states
    for index, replicas in sorted(entry.partitions.items()):
        if len(replicas) <= 1 and index not in states:
            yield index, replicas[0] if replicas and replicas[0] in alive else metadata.NO_LEADER, replicas, None
        elif (placed := placement(entry, index, alive)) is not None:
            copies = (*placed.replicas, *(one for one in placed.targets if one not in placed.replicas))
            yield index, placed.leader, copies, metadata.Standing(placed.leader_epoch, placed.in_sync, placed.offline)


def _by_id(catalog: Catalog, wanted: Sequence[Wanted]) -> Generator[None, None, dict[bytes, TopicEntry]]:
    """Return the topics by their ids, where the request names one by its id."""
    found: dict[bytes, TopicEntry] = {}
    if not all(isinstance(one, str) for one in wanted):
        for entry in catalog.topics.values():
            found[entry.topic_id.bytes] = entry
            yield
    return found


def _error_of(name: str, being_made: frozenset[str]) -> ErrorCode:
    if topic_name.fault_of(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.LEADER_NOT_AVAILABLE if name in being_made else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
