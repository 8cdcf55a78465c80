"""Which API goes to which handler: one table. It routes, and it is what ApiVersions answers.

Minima are advertised low, because librdkafka before 2.11.1 turns compression and message format 2 off when certain old
versions are missing from the advertised ranges, whether it uses them or not (facts/kafka_apis_minimal_broker.md, trap 1).
`served_from` is what is really read: a request below it gets the protocol's own error where one can be written, else its
connection is closed with a log line. Hot: `answer` runs once a request."""

import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..wire.headers import FIRST_FLEXIBLE, NEVER
from .handlers import (
    api_versions,
    create_topics,
    delete_topics,
    describe_configs,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
)
from .handlers.context import Answer, Context
from .later import Chunk, Chunks, Later
from .refusal import FrameRefused
from .request_header import body_start

CONTROL_FRAME_BYTES = 4 * 1024 * 1024
"""The longest frame of any API but Produce: nobody asks that much, and decoded it takes many times its size."""

Handler = Callable[[Context, int, memoryview, str], Answer]


class Api(NamedTuple):
    """One line of the table."""

    name: str
    lowest: int
    highest: int
    served_from: int
    handler: Handler
    below: Handler | None = None
    """Answers versions from `lowest` to `served_from`, where the protocol has an answer for them."""


TABLE: Mapping[int, Api] = {
    produce.KEY: Api("Produce", 0, 9, 3, produce.handle, produce.handle_old),
    fetch.KEY: Api("Fetch", 4, 12, 4, fetch.handle),
    list_offsets.KEY: Api("ListOffsets", 1, 7, 1, list_offsets.handle),
    metadata.KEY: Api("Metadata", 0, 9, 0, metadata.handle),
    offset_commit.KEY: Api("OffsetCommit", 1, 8, 2, offset_commit.handle),
    offset_fetch.KEY: Api("OffsetFetch", 1, 8, 1, offset_fetch.handle),
    find_coordinator.KEY: Api("FindCoordinator", 0, 4, 0, find_coordinator.handle),
    api_versions.KEY: Api("ApiVersions", 0, 3, 0, api_versions.handle),
    create_topics.KEY: Api("CreateTopics", 0, 7, 2, create_topics.handle),
    delete_topics.KEY: Api("DeleteTopics", 0, 5, 1, delete_topics.handle),
    init_producer_id.KEY: Api("InitProducerId", 0, 4, 0, init_producer_id.handle),
    describe_configs.KEY: Api("DescribeConfigs", 0, 4, 1, describe_configs.handle),
}
"""API key to what is done about it. Group APIs, transactions, topic ids: absent, so no client tries them."""

SUPPORTED: Mapping[int, tuple[int, int]] = {key: (api.lowest, api.highest) for key, api in TABLE.items()}

_HEAD = struct.Struct(">ii")
_FLEXIBLE_HEAD = struct.Struct(">iib")


class Router:
    """Turns request frames into response frames."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._request_max_bytes = context.settings.request_max_bytes
        self._flexible_from = {key: FIRST_FLEXIBLE.get(key, NEVER) for key in TABLE}

    def largest(self, api_key: int) -> int:
        return self._request_max_bytes if api_key == produce.KEY else min(CONTROL_FRAME_BYTES, self._request_max_bytes)

    def answer(
        self, frame: memoryview, api_key: int, version: int, correlation_id: int, client_id_length: int, peer: str
    ) -> bytes | Chunks | Later | None:
        api = TABLE.get(api_key)
        if api is None:
            raise FrameRefused(f"API key {api_key} (version {version}) is not served: ApiVersions tells which are")
        flexible = version >= self._flexible_from[api_key]
        if api.served_from <= version <= api.highest:
            handler = api.handler
        elif api_key == api_versions.KEY:
            # Whatever is asked: the answer is a v0 body that says what may be asked, and its header is plain.
            handler, flexible = api.handler, False
        elif api.lowest <= version < api.served_from and api.below is not None:
            handler = api.below
        else:
            raise FrameRefused(f"{api.name} version {version} is not served, {api.served_from} to {api.highest} are")
        body = frame[body_start(frame, client_id_length, flexible=flexible) :]
        answer = handler(self._context, version, body, peer)
        if api_key == api_versions.KEY:
            flexible = False
        if isinstance(answer, bytes):
            return _head(correlation_id, flexible, len(answer)) + answer
        if answer is None:
            return None
        if isinstance(answer, Later):
            answer.wrap(lambda chunks: _framed(correlation_id, flexible, chunks))
            return answer
        return _framed(correlation_id, flexible, answer)


def _head(correlation_id: int, flexible: bool, body_bytes: int) -> bytes:
    if flexible:
        return _FLEXIBLE_HEAD.pack(body_bytes + 5, correlation_id, 0)
    return _HEAD.pack(body_bytes + 4, correlation_id)


def _framed(correlation_id: int, flexible: bool, chunks: Chunks) -> list[Chunk]:
    return [_head(correlation_id, flexible, sum(map(len, chunks))), *chunks]
