"""Holds clients to their quotas: counts what a request and its response use, writes `throttle_time_ms` into the response, and
mutes the connection for that time. As Kafka does since KIP-219: the response goes out at once, the next request waits.

Clients without a quota do not come here. Trap: in most responses `throttle_time_ms` is the first field, in Produce's the last."""

import struct
from collections.abc import Generator
from dataclasses import fields
from functools import cache

from ...wire.errors import UnsupportedVersion
from ...wire.messages import fetch, produce
from ...wire.messages.answer_bytes import AnswerBytes
from ...wire.messages.headers import FIRST_FLEXIBLE
from ...wire.messages.message_types import message_type
from ..event_loop.deferred_response import Chunks, DeferredResponse
from ..event_loop.response_generators import ResponseGenerator
from ..metrics import clock_ns
from ..quotas.quotas import Allowance, Quotas
from .broker import Answer, Broker
from .request import Request

PRODUCE, FETCH = produce.API_KEY, fetch.API_KEY
EXEMPT = frozenset({17, 18, 36})
"""SaslHandshake, ApiVersions, SaslAuthenticate. What brokers send each other is exempt, too."""
LONGEST_FOR_REQUESTS_MS = 1_000
"""A client that used too much of the loop's time pauses at most so long after each request, as in Kafka. Its debt stays."""

_INT = struct.Struct(">i")
_SIZES = struct.Struct(">iiii")
"""Of a Fetch request: replica id, max wait, min bytes, max bytes."""
_SESSION = struct.Struct(">i")
_SESSION_AT = 17
_NO_THROTTLE = bytes(5)


class Throttled:
    """One request of a client with a quota."""

    __slots__ = ("_allowance", "_api_key", "_begun_ns", "_broker", "_bytes", "_peer", "_spent_ns", "_version")

    def __init__(self, broker: Broker, allowance: Allowance, api_key: int, request: Request, request_bytes: int) -> None:
        self._broker = broker
        self._allowance = allowance
        self._api_key = api_key
        self._version = request.version
        self._peer = request.peer
        self._bytes = request_bytes
        self._spent_ns = 0
        self._begun_ns = clock_ns()

    def limited(self, request: Request) -> Request:
        """Return a Fetch for as much as a second of the quota, or as the request wants; any other request as it is."""
        meter = self._allowance.fetch
        if self._api_key != FETCH or meter is None or len(request.body) < _SIZES.size:
            return request
        replica_id, wait_ms, min_bytes, max_bytes = _SIZES.unpack_from(request.body)
        most = max(1, int(meter.rate))
        if max_bytes <= most and min_bytes <= most:
            return request
        body = _SIZES.pack(replica_id, wait_ms, min(min_bytes, most), min(max_bytes, most)) + bytes(request.body[_SIZES.size :])
        return request.with_body(request.version, memoryview(body))

    def refusal(self, request: Request) -> Chunks | None:
        """Return an empty response for a Fetch of a client that owes time, through another connection maybe; None for others."""
        meter = self._allowance.fetch
        if self._api_key != FETCH or meter is None or not (owed_ms := meter.owed_ms(self._broker.loop.now_ms)):
            return None
        if self._version >= 7 and len(request.body) >= _SESSION_AT + _SESSION.size:
            # The client forgets its session with this response, which has none.
            self._broker.fetch_sessions.close(_SESSION.unpack_from(request.body, _SESSION_AT)[0])
        self._mute(owed_ms)
        empty = fetch.FetchResponse((), throttle_time_ms=owed_ms)
        return fetch.encode_response(self._version, empty)  # type: ignore[return-value]  # bytes only

    def timed(self, steps: ResponseGenerator) -> ResponseGenerator:
        """Return the generator, with its time counted."""

        def counted() -> Generator[None, None, bytes | DeferredResponse]:
            while True:
                begun_ns = clock_ns()
                try:
                    next(steps)
                except StopIteration as end:
                    made: bytes | DeferredResponse = end.value
                    return made
                finally:
                    self._spent_ns += clock_ns() - begun_ns
                yield

        return counted()

    def used(self, answer: Answer, *, was_steps: bool) -> Answer:
        """Count what was used, and return the response with the time that the client is to pause."""
        if not was_steps:
            self._spent_ns = clock_ns() - self._begun_ns
        if isinstance(answer, DeferredResponse):
            if self._api_key == PRODUCE and (meter := self._allowance.produce) is not None:
                # Now: further requests may come before the response, which waits for the disk.
                self._mute(meter.use(self._bytes, self._broker.loop.now_ms))
                self._bytes = 0
            answer.wrap(self._completed)
            return answer
        if answer is None or isinstance(answer, bytes):
            pause_ms = self._pause_ms(0 if answer is None else len(answer))
            return answer if answer is None or not pause_ms else _patched(self._api_key, self._version, answer, pause_ms)
        return self._completed(answer)

    def _completed(self, chunks: Chunks) -> Chunks:
        pause_ms = self._pause_ms(sum(map(len, chunks)))
        first = chunks[0]
        if not pause_ms or not isinstance(first, bytes):
            return chunks
        return [_patched(self._api_key, self._version, first, pause_ms), *chunks[1:]]

    def _pause_ms(self, response_bytes: int) -> int:
        allowance, now_ms = self._allowance, self._broker.loop.now_ms
        pause_ms = 0
        if self._api_key == PRODUCE and allowance.produce is not None:
            pause_ms = allowance.produce.use(self._bytes, now_ms)
        elif self._api_key == FETCH and allowance.fetch is not None:
            pause_ms = allowance.fetch.use(response_bytes, now_ms)
        if allowance.requests is not None:
            pause_ms = max(pause_ms, min(LONGEST_FOR_REQUESTS_MS, allowance.requests.use(self._spent_ns / 1e6, now_ms)))
        self._mute(pause_ms)
        return pause_ms

    def _mute(self, pause_ms: int) -> None:
        if pause_ms and (mute := self._peer.mute) is not None:
            self._broker.metrics.throttles += 1
            mute(pause_ms)


def throttled(
    broker: Broker, quotas: Quotas, api_key: int, request: Request, request_bytes: int, *, is_client: bool
) -> Throttled | None:
    """Return what holds a request to its client's quotas; None where it has none."""
    if not is_client or api_key in EXEMPT:
        return None
    allowance = quotas.of(request.peer.principal.name, request.client_id)
    return None if allowance is None else Throttled(broker, allowance, api_key, request, request_bytes)


def _patched(api_key: int, version: int, body: bytes, pause_ms: int) -> bytes:
    """Return the body with `throttle_time_ms` in its place, where its version has one."""
    at = len(body) + _from_end(body, version) if api_key == PRODUCE else place_of(api_key, version)
    if at is None or at == len(body):
        return body
    patched = body[:at] + _INT.pack(pause_ms) + body[at + _INT.size :]
    return AnswerBytes.holding(patched, body.errors) if type(body) is AnswerBytes else patched


def _from_end(body: bytes, version: int) -> int:
    """Return where Produce's field begins, as a negative number. 0: behind it are addresses of leaders (KIP-951), of a response
    with errors; no such addresses end with five zeros.
    """
    if version < FIRST_FLEXIBLE[PRODUCE]:
        return -_INT.size
    return -len(_NO_THROTTLE) if body.endswith(_NO_THROTTLE) else 0


@cache
def place_of(api_key: int, version: int) -> int | None:
    """Return where `throttle_time_ms` is in a response's body, None where there is none."""
    if api_key == FETCH:
        return 0
    try:
        names = [field.name for field in fields(message_type("response", api_key, version))]
    except UnsupportedVersion:
        return None
    match names:
        case ["throttle_time", *_]:
            return 0
        case ["error_code", "throttle_time", *_]:
            return 2
    return None
