"""Calls the handler of each request frame's API (`api_table`) and frames the response.

A request that is not served gets the protocol's own error where it has one; else the connection is closed with a log line
(`unserved`). Hot: `answer` runs once a request."""

import struct
from types import GeneratorType
from typing import cast

from ...runtime.logs import get_logger
from ...runtime.rate_limited_log import RateLimitedLog
from ...wire.errors import ErrorCode
from ...wire.messages.answer_bytes import AnswerBytes
from ...wire.messages.headers import FIRST_FLEXIBLE, NEVER
from ..event_loop.deferred_response import Chunk, Chunks, DeferredResponse
from ..event_loop.response_generators import ResponseGenerator
from ..metrics import UNKNOWN_API, ApiMetrics, clock_ns
from ..network.peer import Peer
from ..network.request_header import body_start
from . import api_versions, produce
from .api_table import BETWEEN_BROKERS, TABLE
from .broker import Answer, Broker
from .produce_run import ProduceRuns
from .request import Request
from .throttling import throttled
from .unserved import Unserved

log = get_logger(__name__)

CONTROL_FRAME_BYTES = 4 * 1024 * 1024
"""The largest frame of any API except Produce. No client sends so much, and a decoded request takes many times its size."""

_HEAD = struct.Struct(">ii")
_FLEXIBLE_HEAD = struct.Struct(">iib")


class Router:
    """Turns request frames into response frames."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._request_max_bytes = broker.settings.request_max_bytes
        served = {key: (api.name, api.served_from, api.highest) for key, api in TABLE.items()}
        self._unserved = Unserved(served, RateLimitedLog(log, lambda: broker.loop.now_ms))
        self._served = {**TABLE, **BETWEEN_BROKERS}
        self._flexible_from = {key: FIRST_FLEXIBLE.get(key, NEVER) for key in self._served}
        self._counted = {key: broker.metrics.api(key) for key in self._served}
        self._runs = ProduceRuns(
            broker.partitions, broker.now_ms, broker.metrics.api(produce.KEY), self, broker.access, broker.quotas
        )
        self.take_run = self._runs.take
        self._quotas = broker.quotas

    def largest(self, api_key: int) -> int:
        return self._request_max_bytes if api_key == produce.KEY else min(CONTROL_FRAME_BYTES, self._request_max_bytes)

    def answer(
        self, frame: memoryview, api_key: int, version: int, correlation_id: int, client_id_length: int, peer: Peer
    ) -> bytes | Chunks | DeferredResponse | None:
        begun_ns = clock_ns()
        if peer.guard is not None:
            peer.guard.check(api_key)
        api = self._served.get(api_key)
        if api is None:
            return self._refused(frame, api_key, version, correlation_id, client_id_length, peer)
        flexible = version >= self._flexible_from[api_key]
        if api.served_from <= version <= api.highest:
            handler = api.handler
        elif api_key == api_versions.KEY:
            # For every other version the response is a v0 body with our ranges, and the request's header is plain.
            handler, flexible = api.handler, False
        elif api.lowest <= version < api.served_from and api.below is not None:
            handler = api.below
        else:
            return self._refused(frame, api_key, version, correlation_id, client_id_length, peer)
        body = frame[body_start(frame, client_id_length, flexible=flexible) :]
        request, access = Request(version, body, peer, frame, client_id_length), self._broker.access
        held = None
        if (quotas := self._quotas) is not None and quotas.is_on:
            held = throttled(self._broker, quotas, api_key, request, len(frame), is_client=api_key in TABLE)
            if held is not None:
                if (empty := held.refusal(request)) is not None:
                    return _framed(correlation_id, flexible, empty)
                request = held.limited(request)
        made = handler(self._broker, request) if access is None else access.handle(self._broker, api_key, handler, request)
        was_steps = type(made) is GeneratorType  # an ABC's isinstance costs every fetch 0.2 us
        if was_steps:
            steps = cast(ResponseGenerator, made)
            made = self._broker.generators.answer(steps if held is None else held.timed(steps), len(frame))
        answer = cast(Answer, made)
        if held is not None:
            answer = held.used(answer, was_steps=was_steps)
        if api_key == api_versions.KEY:
            flexible = False
        counted = self._counted[api_key]
        if isinstance(answer, DeferredResponse):
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

    def _refused(
        self, frame: memoryview, api_key: int, version: int, correlation_id: int, client_id_length: int, peer: Peer
    ) -> bytes:
        body, flexible = self._unserved.answer(frame, api_key, version, client_id_length, peer)
        counted = self._broker.metrics.api(api_key if api_key in TABLE else UNKNOWN_API)
        counted.error(ErrorCode.UNSUPPORTED_VERSION)
        return _head(correlation_id, flexible, len(body)) + body


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
    head, first = _head(correlation_id, flexible, sum(map(len, chunks))), chunks[0]
    return [head + first, *chunks[1:]] if isinstance(first, bytes) else [head, *chunks]
