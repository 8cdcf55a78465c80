"""Which API goes to which handler: one table. It routes, and it is what ApiVersions answers.

Minima are advertised low, because librdkafka before 2.11.1 turns compression and message format 2 off when certain old
versions are missing from the advertised ranges, whether it uses them or not (facts/kafka_apis_minimal_broker.md, trap 1).
`served_from` is what is really read. What is not served gets the protocol's own error where one can be written, else its
connection is closed with a log line (`unserved`). Hot: `answer` runs once a request."""

import struct
from collections.abc import Callable, Mapping
from types import GeneratorType
from typing import NamedTuple, cast

from ..runtime.logs import get_logger
from ..wire.answer_bytes import AnswerBytes
from ..wire.errors import ErrorCode
from ..wire.headers import FIRST_FLEXIBLE, NEVER
from .handlers import (
    acls,
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl,
    sync_group,
)
from .handlers.context import Answer, Context
from .later import Chunk, Chunks, Later
from .metrics import UNKNOWN_API, ApiMetrics, clock_ns
from .produce_front import Front
from .produce_run import ProduceRuns, Taken
from .rate_limited_log import RateLimitedLog
from .request_header import body_start, client_id
from .slices import Steps
from .unserved import Unserved

log = get_logger(__name__)

CONTROL_FRAME_BYTES = 4 * 1024 * 1024
"""The longest frame of any API but Produce: nobody asks that much, and decoded it takes many times its size."""

Handler = Callable[[Context, int, memoryview, str], Answer | Steps]


class Api(NamedTuple):
    """One line of the table."""

    name: str
    lowest: int
    highest: int
    served_from: int
    handler: Handler
    below: Handler | None = None
    """Answers versions from `lowest` to `served_from`, where the protocol has an answer for them."""
    names_client: bool = False
    """Whether the handler wants `Context.client_id`."""


TABLE: Mapping[int, Api] = {
    produce.KEY: Api("Produce", 0, 9, 3, produce.handle, produce.handle_old),
    fetch.KEY: Api("Fetch", 4, 12, 4, fetch.handle),
    list_offsets.KEY: Api("ListOffsets", 0, 7, 0, list_offsets.handle),
    metadata.KEY: Api("Metadata", 0, 12, 0, metadata.handle),
    offset_commit.KEY: Api("OffsetCommit", 1, 8, 1, offset_commit.handle),
    offset_fetch.KEY: Api("OffsetFetch", 1, 8, 1, offset_fetch.handle),
    find_coordinator.KEY: Api("FindCoordinator", 0, 4, 0, find_coordinator.handle),
    join_group.KEY: Api("JoinGroup", 0, 7, 0, join_group.handle, names_client=True),
    heartbeat.KEY: Api("Heartbeat", 0, 4, 0, heartbeat.handle),
    leave_group.KEY: Api("LeaveGroup", 0, 5, 0, leave_group.handle),
    sync_group.KEY: Api("SyncGroup", 0, 5, 0, sync_group.handle),
    describe_groups.KEY: Api("DescribeGroups", 0, 5, 0, describe_groups.handle),
    list_groups.KEY: Api("ListGroups", 0, 4, 0, list_groups.handle),
    api_versions.KEY: Api("ApiVersions", 0, 3, 0, api_versions.handle),
    create_topics.KEY: Api("CreateTopics", 0, 7, 0, create_topics.handle),
    delete_topics.KEY: Api("DeleteTopics", 0, 6, 0, delete_topics.handle),
    delete_records.KEY: Api("DeleteRecords", 0, 2, 0, delete_records.handle),
    init_producer_id.KEY: Api("InitProducerId", 0, 4, 0, init_producer_id.handle),
    offset_for_leader_epoch.KEY: Api("OffsetForLeaderEpoch", 2, 4, 2, offset_for_leader_epoch.handle),
    acls.DESCRIBE_KEY: Api("DescribeAcls", 1, 3, 1, acls.describe),
    acls.CREATE_KEY: Api("CreateAcls", 1, 3, 1, acls.create),
    acls.DELETE_KEY: Api("DeleteAcls", 1, 3, 1, acls.delete),
    describe_configs.KEY: Api("DescribeConfigs", 0, 4, 0, describe_configs.handle),
    alter_configs.KEY: Api("AlterConfigs", 0, 2, 0, alter_configs.handle),
    describe_log_dirs.KEY: Api("DescribeLogDirs", 0, 4, 0, describe_log_dirs.handle),
    sasl.HANDSHAKE_KEY: Api("SaslHandshake", 0, 1, 0, sasl.handshake),
    sasl.AUTHENTICATE_KEY: Api("SaslAuthenticate", 0, 2, 0, sasl.authenticate),
    create_partitions.KEY: Api("CreatePartitions", 0, 3, 0, create_partitions.handle),
    delete_groups.KEY: Api("DeleteGroups", 0, 2, 0, delete_groups.handle),
    incremental_alter_configs.KEY: Api("IncrementalAlterConfigs", 0, 1, 0, incremental_alter_configs.handle),
    offset_delete.KEY: Api("OffsetDelete", 0, 0, 0, offset_delete.handle),
    describe_cluster.KEY: Api("DescribeCluster", 0, 1, 0, describe_cluster.handle),
}
"""API key to what is done about it. Transactions, newer group protocols: absent, so no client tries them."""

SUPPORTED: Mapping[int, tuple[int, int]] = {key: (api.lowest, api.highest) for key, api in TABLE.items()}

_HEAD = struct.Struct(">ii")
_FLEXIBLE_HEAD = struct.Struct(">iib")


class Router:
    """Turns request frames into response frames."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._request_max_bytes = context.settings.request_max_bytes
        served = {key: (api.name, api.served_from, api.highest) for key, api in TABLE.items()}
        self._unserved = Unserved(served, RateLimitedLog(log, lambda: context.loop.now_ms))
        self._flexible_from = {key: FIRST_FLEXIBLE.get(key, NEVER) for key in TABLE}
        self._counted = {key: context.metrics.api(key) for key in TABLE}
        self._runs = ProduceRuns(context.partitions, context.now_ms, context.metrics.api(produce.KEY), self)

    def _refused(
        self, frame: memoryview, api_key: int, version: int, correlation_id: int, client_id_length: int, peer: str
    ) -> bytes:
        body, flexible = self._unserved.answer(frame, api_key, version, client_id_length, peer)
        counted = self._context.metrics.api(api_key if api_key in TABLE else UNKNOWN_API)
        counted.error(ErrorCode.UNSUPPORTED_VERSION)
        return _head(correlation_id, flexible, len(body)) + body

    def take_run(self, front: Front | None, buffer: memoryview, start: int, end: int, peer: str) -> Taken:
        return self._runs.take(front, buffer, start, end, peer)

    def largest(self, api_key: int) -> int:
        return self._request_max_bytes if api_key == produce.KEY else min(CONTROL_FRAME_BYTES, self._request_max_bytes)

    def answer(
        self, frame: memoryview, api_key: int, version: int, correlation_id: int, client_id_length: int, peer: str
    ) -> bytes | Chunks | Later | None:
        begun_ns = clock_ns()
        api = TABLE.get(api_key)
        if api is None:
            return self._refused(frame, api_key, version, correlation_id, client_id_length, peer)
        flexible = version >= self._flexible_from[api_key]
        if api.served_from <= version <= api.highest:
            handler = api.handler
        elif api_key == api_versions.KEY:
            # Whatever is asked: the answer is a v0 body that says what may be asked, and its header is plain.
            handler, flexible = api.handler, False
        elif api.lowest <= version < api.served_from and api.below is not None:
            handler = api.below
        else:
            return self._refused(frame, api_key, version, correlation_id, client_id_length, peer)
        body = frame[body_start(frame, client_id_length, flexible=flexible) :]
        if api.names_client:
            self._context.client_id = client_id(frame, client_id_length)
        made = handler(self._context, version, body, peer)
        if type(made) is GeneratorType:  # an ABC's isinstance costs every fetch 0.2 us
            made = self._context.slices.answer(cast(Steps, made), len(frame))
        answer = cast(Answer, made)
        if api_key == api_versions.KEY:
            flexible = False
        counted = self._counted[api_key]
        if isinstance(answer, Later):
            answer.wrap(lambda chunks: _framed_later(correlation_id, flexible, chunks, counted, begun_ns))
            return answer
        counted.latency.add(clock_ns() - begun_ns)
        if isinstance(answer, bytes):
            if type(answer) is AnswerBytes:
                counted.errors_in(answer.errors)
            return _head(correlation_id, flexible, len(answer)) + answer
        if answer is None:
            return None
        return _framed(correlation_id, flexible, answer)


def _head(correlation_id: int, flexible: bool, body_bytes: int) -> bytes:
    if flexible:
        return _FLEXIBLE_HEAD.pack(body_bytes + 5, correlation_id, 0)
    return _HEAD.pack(body_bytes + 4, correlation_id)


def _framed_later(correlation_id: int, flexible: bool, chunks: Chunks, counted: ApiMetrics, begun_ns: int) -> list[Chunk]:
    counted.latency.add(clock_ns() - begun_ns)
    for chunk in chunks:
        if type(chunk) is AnswerBytes:
            counted.errors_in(chunk.errors)
    return _framed(correlation_id, flexible, chunks)


def _framed(correlation_id: int, flexible: bool, chunks: Chunks) -> list[Chunk]:
    head, front = _head(correlation_id, flexible, sum(map(len, chunks))), chunks[0]
    return [head + front, *chunks[1:]] if isinstance(front, bytes) else [head, *chunks]
