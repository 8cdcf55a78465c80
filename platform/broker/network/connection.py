"""One client's connection: frames in, responses out in the order of the requests. Lives on the loop thread.

It owns the socket: it reads, hands whole frames to the `frame_runner`, keeps what is unfinished, and sends. While a response is
pending (a parked fetch, a ZooKeeper call), it takes no further request. One exception: behind Produce requests that wait for the
disk it takes further Produce requests, so that one flush serves many. Pending responses are bounded in number; together with
those that the peer leaves unread they are bounded in bytes. Hot: everything here runs once a read or once a request."""

import os
from collections.abc import Sequence
from select import EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP
from typing import Any, Generic, Protocol

from ...runtime.rate_limited_log import RateLimitedLog
from ...wire.errors import WireError
from ..errors import FrameRefused
from ..event_loop.loop import Loop
from .frame_runner import LONGEST_CARRIED, Dispatch, FrameRunner, Template
from .input_gathering import InputGathering
from .peer import Peer
from .receive_buffer import ReceiveBuffer
from .request_header import frame_bytes
from .response_queue import ResponseQueue
from .send_queue import FileEnded, Sendfile, SendQueue, Sends

_READING = EPOLLIN | EPOLLRDHUP


class Stream(Sends, Protocol):
    """A connected socket that does not block, or what looks like one (TLS)."""

    def recv_into(self, buffer: memoryview, /) -> int: ...

    def recvmsg_into(self, buffers: Sequence[memoryview], /) -> tuple[int, *tuple[Any, ...]]: ...

    def close(self) -> None: ...


class Shared(Protocol[Template]):
    """What all connections of a server share (the server)."""

    loop: Loop
    dispatch: Dispatch[Template]
    scratch: memoryview
    output_max_bytes: int
    rejections: RateLimitedLog

    def new_receive_buffer(self) -> ReceiveBuffer: ...

    def closed(self, connection: "Connection[Template]") -> None: ...

    def input_grew(self, connection: "Connection[Template]") -> None:
        """An unfinished frame takes more memory. Keep the total within bounds."""
        ...

    def output_held(self, connection: "Connection[Template]", held_bytes: int) -> None:
        """Responses that the peer does not read take so much memory (0: none). Keep the total within bounds."""
        ...


class Connection(Generic[Template]):
    """Owns its socket."""

    __slots__ = (
        "_frames",
        "_goes_on",
        "_is_ended",
        "_mask",
        "_muted_until_ms",
        "_pending",
        "_receive_buffer",
        "_saw_end",
        "_send_queue",
        "_shared",
        "_socket",
        "fd",
        "is_closed",
        "last_active_ms",
        "peer",
        "unfinished_since_ms",
    )

    def __init__(self, connected: Stream, peer: Peer, shared: Shared[Template], *, sendfile: Sendfile = os.sendfile) -> None:
        self._socket = connected
        self._shared = shared
        self._receive_buffer = shared.new_receive_buffer()
        self._send_queue = SendQueue(sendfile)
        self._pending = ResponseQueue(shared.loop, self._send_queue, self._deliver)
        self._is_ended = False
        """Whether the last byte has been read."""
        self._goes_on = False
        """Whether `_go_on` will be called, at the end of this turn or in the next."""
        self._mask = _READING
        self._saw_end = False
        self.fd = connected.fileno()
        self._frames = FrameRunner(
            shared.dispatch,
            self._pending,
            self._send_queue,
            InputGathering(shared.loop, self.fd),
            peer=peer,
            output_max_bytes=shared.output_max_bytes,
            give_way=self._go_on_next_turn,
            clock_ns=shared.loop.clock_ns,
        )
        self.peer = peer
        self._muted_until_ms = 0
        self.is_closed = False
        self.last_active_ms = shared.loop.now_ms
        self.unfinished_since_ms: int | None = None
        """When the first incomplete frame began to arrive; None when no frame is incomplete."""

    def start(self) -> None:
        self.peer.mute = self._mute
        self._shared.loop.register(self.fd, self._mask, self._on_event)

    @property
    def is_waiting(self) -> bool:
        """Whether a response of this connection is pending or not fully sent."""
        return bool(self._pending.deferreds) or bool(self._send_queue)

    @property
    def is_muted(self) -> bool:
        """Whether its requests wait because its client used more than its quota."""
        return self._frames.is_muted

    @property
    def unfinished_bytes(self) -> int:
        return len(self._receive_buffer)

    @property
    def unsent_bytes(self) -> int:
        return self._send_queue.waiting_bytes

    def close(self) -> None:
        """Close now. Unsent responses are lost, pending ones cancelled."""
        if self.is_closed:
            return
        self.is_closed = True
        self.peer.guard = None  # it refers to the peer
        self.peer.mute = None
        self._frames.stop()
        self._shared.loop.unregister(self.fd)
        self._socket.close()
        self._send_queue.drop()
        self._receive_buffer.drop()
        self._pending.cancel()
        self._shared.closed(self)

    def finish(self) -> bool:
        """Read no more and finish pending responses now. Return whether all are sent; the connection is then closed."""
        self._saw_end = True
        self._pending.finish_now()
        if not self.is_closed and not self.is_waiting:
            self.close()
        return self.is_closed

    def refuse(self, event: str, why: str, **reason: str) -> None:
        """Close, and log why. `reason` is the name it is counted under, where that is not the event's."""
        self._shared.rejections.warning(event, peer=self.peer.address, why=why, **reason)
        self.close()

    def _mute(self, for_ms: int) -> None:
        """Answer no further request for so long. What comes meanwhile stays in the socket; responses go out."""
        loop = self._shared.loop
        self._muted_until_ms = max(self._muted_until_ms, loop.now_ms + for_ms)
        if not self._frames.is_muted:
            self._frames.is_muted = True
            loop.call_at(self._muted_until_ms, self._unmute)

    def _unmute(self) -> None:
        loop = self._shared.loop
        if self.is_closed:
            return
        if loop.now_ms < self._muted_until_ms:
            loop.call_at(self._muted_until_ms, self._unmute)
            return
        self._frames.is_muted = False
        self._go_on()

    def _on_event(self, mask: int) -> None:
        self.last_active_ms = self._shared.loop.now_ms
        try:
            if mask == EPOLLIN:
                self._read()
                return
            if mask & (EPOLLHUP | EPOLLERR):
                self.close()
                return
            if mask & EPOLLOUT:
                self._send()
            if mask & EPOLLRDHUP and not self.is_closed:
                self._peer_has_finished()
            if mask & EPOLLIN and not self.is_closed:
                self._read()
        except Exception as error:
            if not self._is_dealt_with(error):
                raise

    def _is_dealt_with(self, error: Exception) -> bool:
        """Close the connection for its own error and return True. Return False for a fault of ours, which the loop logs."""
        match error:
            case BlockingIOError():
                pass  # the event was stale by the time it was handled
            case OSError():
                self.close()
            case FileEnded():
                self.refuse("answer_cut", str(error))
            case FrameRefused():
                self.refuse("frame_refused", str(error), reason=error.reason)
            case WireError():
                self.refuse("frame_refused", str(error), reason="malformed")
            case _:
                self.close()
                return False
        return True

    def _read(self) -> None:
        if not self._frames.may_run():
            self._watch(self._mask & ~EPOLLIN)  # the peer's end (EPOLLRDHUP) is still watched
            return
        receive_buffer, scratch = self._receive_buffer, self._shared.scratch
        held = receive_buffer.end - receive_buffer.start
        if held:
            length = frame_bytes(receive_buffer.view, receive_buffer.start, receive_buffer.end)
            if length is not None:
                if held >= length:
                    if not self._goes_on:
                        self._go_on()  # kept back while the peer left its responses unread
                    return
                if length > LONGEST_CARRIED:
                    self._read_long(length)
                    return
            # Put the kept bytes before those that come now, so that a cut frame makes one run with the frames behind it.
            scratch[:held] = receive_buffer.view[receive_buffer.start : receive_buffer.end]
            received = self._socket.recv_into(scratch[held:])
            receive_buffer.start = receive_buffer.end = 0
        else:
            received = self._socket.recv_into(scratch)
        if received == 0:
            self._end()
            return
        end = held + received
        self._keep_rest(self._frames.run(scratch, 0, end), end)

    def _read_long(self, length: int) -> None:
        """Receive the rest of a long frame behind its beginning, and what follows it."""
        receive_buffer, scratch = self._receive_buffer, self._shared.scratch
        room = receive_buffer.room(length)
        fills = len(receive_buffer) + len(room) == length
        # When the next frame may be as long as this one, take only its beginning here: its rest is then received in place.
        behind = scratch if length <= len(scratch) else scratch[:LONGEST_CARRIED]
        received = self._socket.recvmsg_into([room, behind] if fills else [room])[0]
        if received == 0:
            self._end()
            return
        in_room = min(received, len(room))
        room.release()
        receive_buffer.end += in_room
        used = self._frames.run(receive_buffer.view, receive_buffer.start, receive_buffer.end)
        if used > receive_buffer.start:
            self.unfinished_since_ms = None  # the next frame starts its own time
        receive_buffer.used(used)
        rest, used = received - in_room, 0
        if rest and not receive_buffer and self._frames.may_run():
            used = self._frames.run(scratch, 0, rest)
        self._keep_rest(used, rest)

    def _keep_rest(self, used: int, received: int) -> None:
        """Keep the unused part of the scratch buffer; send the responses."""
        if self.is_closed:
            return
        if used:
            # A peer that sends without a pause never ends a read with a whole frame, and is not slow.
            self.unfinished_since_ms = None
        if used < received:
            rest = self._shared.scratch[used:received]
            self._receive_buffer.put(rest, frame_bytes(rest, 0, received - used))
        elif self._receive_buffer.start == self._receive_buffer.end:
            self._receive_buffer.drop()
        self._after_input()

    def _end(self) -> None:
        """The peer has closed its side. Pending and unsent responses still go out, then the connection closes."""
        self._is_ended = True
        if self.is_waiting:
            self._watch(self._mask & ~EPOLLIN)
        else:
            self.close()

    def _after_input(self) -> None:
        """Note whether a frame is unfinished; send the responses."""
        if self._receive_buffer.end > self._receive_buffer.start:
            if self.unfinished_since_ms is None:
                self.unfinished_since_ms = self._shared.loop.now_ms
            self._shared.input_grew(self)
        else:
            self.unfinished_since_ms = None
        if self._send_queue.waiting_bytes:
            self._send()

    def _go_on_at_turn_end(self) -> None:
        self._goes_on = True
        self._shared.loop.at_turn_end(self._go_on)

    def _go_on_next_turn(self) -> None:
        if not self._goes_on:
            self._goes_on = True
            self._shared.loop.post(self._go_on)

    def _deliver(self) -> None:
        for answer in self._pending.ready():
            self._send_queue.put(answer)
        if self._frames.is_held and not self._pending.deferreds:
            self._frames.is_held = False
            self._go_on()
        elif not self._goes_on:
            self._go_on_at_turn_end()  # one flush completes many responses: they leave in one send

    def _go_on(self) -> None:
        """Answer the requests received meanwhile, send, and read on."""
        self._goes_on = False
        if self.is_closed:
            return
        self.last_active_ms = self._shared.loop.now_ms
        self.unfinished_since_ms = None
        try:
            while self._receive_buffer and self._frames.may_run():
                before = self._receive_buffer.start
                after = self._frames.run(self._receive_buffer.view, before, self._receive_buffer.end)
                self._receive_buffer.used(after)
                if after == before or self._goes_on:
                    break
            self._after_input()
            if self._is_ended:
                if not self.is_waiting:
                    self.close()
            elif self._frames.may_run():
                self._watch(self._mask | (EPOLLIN if self._saw_end else _READING))
        except Exception as error:
            if not self._is_dealt_with(error):
                raise

    def _send(self) -> None:
        was_backlogged = self._frames.is_backlogged()
        if self._send_queue.send(self._socket):
            if self._is_ended and not self._pending.deferreds:
                self.close()
            if self._mask & EPOLLOUT:
                self._shared.output_held(self, 0)
                self._watch(self._mask & ~EPOLLOUT)
        else:
            self._watch(self._mask | EPOLLOUT)
            self._shared.output_held(self, self._send_queue.held_bytes)
        if was_backlogged and self._frames.may_run():
            # Not from here: answering more may fill the backlog and send again, which would recurse.
            self._shared.loop.post(self._go_on)

    def _peer_has_finished(self) -> None:
        """The peer sends no more. Its requests are still answered, a parked fetch now."""
        self._saw_end = True
        self._watch(self._mask & ~EPOLLRDHUP)
        self._pending.finish_now()

    def _watch(self, mask: int) -> None:
        if mask != self._mask and not self.is_closed:
            self._mask = mask
            self._shared.loop.modify(self.fd, mask)
