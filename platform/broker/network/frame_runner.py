"""Answers the whole frames in what a connection has received, in order, as far as they may be answered now.

Knows one thing of APIs: Produce requests come in runs. The dispatch takes a whole run in one call, or answers a single frame.
Reads and sends nothing. Lives on the loop thread. Hot: once a read, its loop once a run or a request."""

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from ..errors import FrameRefused
from ..event_loop.deferred_response import Chunks, DeferredResponse
from ..metrics import clock_ns
from .input_gathering import InputGathering
from .peer import Peer
from .request_header import FIXED_HEADER, FIXED_HEADER_SIZE, SMALLEST_FRAME
from .response_queue import ResponseQueue
from .send_queue import SendQueue

PRODUCE = 0
TLS_HELLO = 0x1603
"""How a TLS client's first message begins; as a frame size it is above 300 MB."""
LONGEST_CARRIED = 64 * 1024
"""When a frame was cut and is longer than this, its rest is received behind its kept beginning. The beginning of a shorter frame
is copied back to the scratch buffer (1 us for 10 KB)."""
TURN_NS = 2_000_000
"""How long one connection's requests may keep the loop; Produce requests do not count. Without this bound sixty connections that
asked for all settings, thousands of times in a read, kept the loop for 70 s. A lone request does not read the clock."""
MOST_PENDING = 1_000
"""Produce responses, of single requests or whole runs, that wait for the disk on one connection."""

Template = TypeVar("Template")
"""What the dispatch keeps from one run of a connection to the next. Opaque to the connection, which holds it."""
Answer = bytes | Chunks | DeferredResponse | None


class Dispatch(Protocol[Template]):
    """Answers frames (the router)."""

    def largest(self, api_key: int) -> int:
        """Return the largest frame size accepted for this API, without the size field."""
        ...

    def take_run(
        self, template: Template | None, buffer: memoryview, start: int, end: int, peer: Peer
    ) -> tuple[Template | None, int, Sequence[Answer]]:
        """Answer the Produce requests in `buffer[start:end]` that can be handled together, perhaps none.

        Return the template for the next call, the position of the first unused byte, and whole response frames in order.
        Raises as `answer`.
        """
        ...

    def answer(
        self, frame: memoryview, api_key: int, version: int, correlation_id: int, client_id_length: int, peer: Peer
    ) -> Answer:
        """Return the whole response frame, None where none is sent. `frame` includes its size field and is valid during the call.

        A DeferredResponse is completed with the whole response frame. Raises: WireError, FrameRefused; the connection is then
        closed.
        """
        ...


class FrameRunner(Generic[Template]):
    """Answers the requests of one connection. It calls `give_way` when other connections should run before it continues."""

    __slots__ = (
        "_clock_ns",
        "_dispatch",
        "_gathering",
        "_give_way",
        "_is_stopped",
        "_output_max_bytes",
        "_peer",
        "_pending",
        "_send_queue",
        "_template",
        "is_held",
        "is_muted",
    )

    def __init__(
        self,
        dispatch: Dispatch[Template],
        pending: ResponseQueue,
        send_queue: SendQueue,
        gathering: InputGathering,
        *,
        peer: Peer,
        output_max_bytes: int,
        give_way: Callable[[], None],
        clock_ns: Callable[[], int] = clock_ns,
    ) -> None:
        self._clock_ns = clock_ns
        self._dispatch = dispatch
        self._pending = pending
        self._send_queue = send_queue
        self._gathering = gathering
        self._peer = peer
        self._output_max_bytes = output_max_bytes
        self._give_way = give_way
        self._template: Template | None = None
        self._is_stopped = False
        self.is_held = False
        """Whether the next request waits until no response is pending."""
        self.is_muted = False
        """Whether the next request waits because its client used more than its quota."""

    def stop(self) -> None:
        """Answer no more."""
        self._is_stopped = True

    def may_run(self) -> bool:
        """Return whether the next request may be answered now."""
        pending = self._pending
        return not (
            self.is_held
            or self.is_muted
            or self._is_stopped
            or self._send_queue.waiting_bytes + pending.expected_bytes > self._output_max_bytes
            or len(pending.deferreds) >= MOST_PENDING
        )

    def is_backlogged(self) -> bool:
        """Return whether too many bytes of responses wait."""
        return self._send_queue.waiting_bytes + self._pending.expected_bytes > self._output_max_bytes

    def run(self, buffer: memoryview, start: int, end: int) -> int:
        """Answer the whole frames in `buffer[start:end]` until one is pending. Return the position of the first unused byte."""
        dispatch, pending, peer = self._dispatch, self._pending, self._peer
        until_ns = 0
        while end - start >= FIXED_HEADER_SIZE:
            size, api_key, version, correlation_id, client_id_length = FIXED_HEADER.unpack_from(buffer, start)
            frame_end = start + 4 + size
            if frame_end > end or size < SMALLEST_FRAME:
                self._check_size(size, api_key)
                if size < LONGEST_CARRIED:
                    self._gathering.saw(0, 0)
                return start
            if api_key == PRODUCE:
                self._template, after, answers = dispatch.take_run(self._template, buffer, start, end, peer)
                if after > start:
                    self._gathering.saw(after - start, (after - start) // (frame_end - start))
                    start = after
                    for answer in answers:
                        pending.give(answer)
                    if not self.may_run():
                        return start
                    continue
            elif pending.deferreds:
                self.is_held = True
                return start
            may_yield = api_key != PRODUCE and end - frame_end >= FIXED_HEADER_SIZE
            if may_yield and until_ns == 0:
                until_ns = self._clock_ns() + TURN_NS
            frame = buffer[start:frame_end]
            answer = dispatch.answer(frame, api_key, version, correlation_id, client_id_length, peer)
            start = frame_end
            if pending.give(answer):
                self.is_held = api_key != PRODUCE
            if not self.may_run():
                return start
            if may_yield and self._clock_ns() > until_ns:
                self._give_way()
                return start
        if end - start >= 4:
            self._check_size(int.from_bytes(buffer[start : start + 4], "big", signed=True), None)
        return start

    def _check_size(self, size: int, api_key: int | None) -> None:
        if size < SMALLEST_FRAME:
            raise FrameRefused(f"a frame of {size} bytes: the smallest request has {SMALLEST_FRAME}", "size")
        largest = self._dispatch.largest(0 if api_key is None else api_key)
        if (guard := self._peer.guard) is not None:
            if api_key is not None and size <= largest:
                guard.check(api_key)  # before the whole request is in memory
            largest = min(largest, guard.largest_frame or largest)
        if size > largest:
            if size >> 16 == TLS_HELLO:
                raise FrameRefused(
                    "the client speaks TLS to a listener without it: connect to a listener with TLS, or set "
                    "security.protocol=PLAINTEXT in the client",
                    "tls",
                )
            raise FrameRefused(f"a frame of {size} bytes where {largest} are taken (setting socket.request.max.bytes)", "size")
