"""One client's connection: frames in, answers out in the order of the requests. Lives on the loop thread.

Knows of APIs only that Produce requests come in runs: `Dispatch` takes a run at once, or answers a single frame. While an answer
is pending (a parked fetch, a ZooKeeper call) no further request of this connection is taken, but for one case: behind Produce
requests that wait for the disk further ones are, or each would have a flush of its own. Pending answers are bounded in number
and, with those that the peer leaves unread, in bytes. Hot: everything here runs once a request or once a read."""

import socket
from collections import deque
from select import EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP
from types import TracebackType
from typing import Protocol

from ..wire.errors import WireError
from .intake import Intake
from .later import Chunks, Later
from .loop import Loop
from .outbox import FileEnded, Outbox
from .produce_front import Front
from .produce_run import Taken
from .rate_limited_log import RateLimitedLog
from .refusal import FrameRefused
from .request_header import FRONT, FRONT_SIZE, SMALLEST_FRAME

_READING = EPOLLIN | EPOLLRDHUP
PRODUCE = 0
MOST_PENDING = 1_000
"""Produce answers, of single requests or whole runs, that wait for the disk on one connection."""


class Dispatch(Protocol):
    """Answers frames (the router)."""

    def largest(self, api_key: int) -> int:
        """Return the longest frame taken for this API, its size field not counted."""
        ...

    def take_run(self, front: Front | None, buffer: memoryview, start: int, end: int, peer: str) -> Taken:
        """Answer the Produce requests in `buffer[start:end]` that can be taken together, perhaps none: whole response frames, in
        order. `front` is what the last call for the connection returned first. Raises as `answer`.
        """
        ...

    def answer(
        self, frame: memoryview, api_key: int, version: int, correlation_id: int, client_id_length: int, peer: str
    ) -> bytes | Chunks | Later | None:
        """Return the whole response frame, or None where none is sent. `frame` holds the size field too and is valid during
        the call only.

        A Later is completed with the whole response frame. Raises: WireError, FrameRefused; the connection is then closed.
        """
        ...


class Shared(Protocol):
    """What all connections of a server share (the server)."""

    loop: Loop
    dispatch: Dispatch
    scratch: memoryview
    output_max_bytes: int
    rejections: RateLimitedLog

    def new_intake(self) -> Intake: ...

    def closed(self, connection: "Connection") -> None: ...

    def input_grew(self, connection: "Connection") -> None:
        """An unfinished frame takes memory: see whether the total is still within bounds."""
        ...

    def output_held(self, connection: "Connection", held_bytes: int) -> None:
        """Answers that the peer does not read take memory, or (0) no longer: see whether the total is still within bounds."""
        ...


class _Guarded:
    """What happens to a connection when something goes wrong on it: it is closed, others go on. One a connection, as it is
    entered on every event.
    """

    __slots__ = ("_connection",)

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool:
        if error is None:
            return False
        if isinstance(error, BlockingIOError):
            pass  # an event that was stale by the time it was handled
        elif isinstance(error, OSError):
            self._connection.close()
        elif isinstance(error, FileEnded):
            self._connection.refuse("answer_cut", str(error))
        elif isinstance(error, FrameRefused):
            self._connection.refuse("frame_refused", str(error), reason=error.reason)
        elif isinstance(error, WireError):
            self._connection.refuse("frame_refused", str(error), reason="malformed")
        else:
            # A fault of ours in one request costs its connection; the loop logs it.
            self._connection.close()
            return False
        return True


class Connection:
    """Owns its socket."""

    __slots__ = (
        "_front",
        "_goes_on",
        "_guarded",
        "_intake",
        "_is_ended",
        "_is_held",
        "_mask",
        "_outbox",
        "_pending",
        "_pending_bytes",
        "_saw_end",
        "_shared",
        "_socket",
        "_timer_at_ms",
        "fd",
        "is_closed",
        "last_active_ms",
        "peer",
        "unfinished_since_ms",
    )

    def __init__(self, connected: socket.socket, peer: str, shared: Shared) -> None:
        self._guarded = _Guarded(self)
        self._socket = connected
        self._shared = shared
        self._intake = shared.new_intake()
        self._outbox = Outbox()
        self._pending: deque[Later] = deque()
        """In the order of their requests; the first is not complete."""
        self._pending_bytes = 0
        self._is_held = False
        """Whether the next request waits until nothing is pending."""
        self._is_ended = False
        """Whether the last byte has been read."""
        self._goes_on = False
        """Whether `_go_on` will be called at the end of this turn."""
        self._front: Front | None = None
        self._mask = _READING
        self._saw_end = False
        self._timer_at_ms: int | None = None
        self.fd = connected.fileno()
        self.peer = peer
        self.is_closed = False
        self.last_active_ms = shared.loop.now_ms
        self.unfinished_since_ms: int | None = None
        """Since when a frame has been arriving; None when none is."""

    def start(self) -> None:
        self._shared.loop.register(self.fd, self._mask, self._on_event)

    @property
    def is_waiting(self) -> bool:
        """Whether a request of this connection is being answered or its answer sent."""
        return bool(self._pending) or bool(self._outbox)

    @property
    def unfinished_bytes(self) -> int:
        return len(self._intake)

    @property
    def unsent_bytes(self) -> int:
        return self._outbox.waiting_bytes

    def close(self) -> None:
        """Close at once: what is unsent is lost, a pending answer abandoned."""
        if self.is_closed:
            return
        self.is_closed = True
        self._shared.loop.unregister(self.fd)
        self._socket.close()
        self._outbox.drop()
        self._intake.drop()
        pending, self._pending = self._pending, deque()
        for later in pending:
            later.abandon()
        self._shared.closed(self)

    def finish(self) -> bool:
        """Answer what is pending now, read no more; return whether everything is sent and the connection therefore closed."""
        self._saw_end = True
        self._hurry()
        if not self.is_closed and not self.is_waiting:
            self.close()
        return self.is_closed

    def refuse(self, event: str, why: str, **reason: str) -> None:
        """Close, and say why in the log. `reason` is what it is counted under, where that is not the event."""
        self._shared.rejections.warning(event, peer=self.peer, why=why, **reason)
        self.close()

    def _on_event(self, mask: int) -> None:
        self.last_active_ms = self._shared.loop.now_ms
        with self._guarded:
            if mask & (EPOLLHUP | EPOLLERR):
                self.close()
                return
            if mask & EPOLLOUT:
                self._send()
            if mask & EPOLLRDHUP and not self.is_closed:
                self._peer_has_finished()
            if mask & EPOLLIN and not self.is_closed:
                self._read()

    def _read(self) -> None:
        if not self._may_run():
            self._watch(self._mask & ~EPOLLIN)  # not the peer's end: that is to be seen all the same
            return
        intake, scratch = self._intake, self._shared.scratch
        if not intake:
            received = self._socket.recv_into(scratch)
            if received == 0:
                self._end()
                return
            used = self._run_frames(scratch, 0, received)
        else:
            frame_bytes = _frame_bytes(intake.view, intake.start, intake.end)
            if frame_bytes is not None and len(intake) >= frame_bytes:
                self._go_on()  # kept back while the peer left its answers unread
                return
            room = intake.room(frame_bytes)
            fills = frame_bytes is not None and len(intake) + len(room) == frame_bytes
            total = self._socket.recvmsg_into([room, scratch] if fills else [room])[0]
            if total == 0:
                self._end()
                return
            in_room = min(total, len(room))
            received, used = total - in_room, 0
            room.release()
            intake.end += in_room
            intake.used(self._run_frames(intake.view, intake.start, intake.end))
            if received and not intake and self._may_run():
                used = self._run_frames(scratch, 0, received)
        if self.is_closed:
            return
        if used < received:
            rest = scratch[used:received]
            intake.put(rest, _frame_bytes(scratch, used, received))
        self._after_input()

    def _end(self) -> None:
        """Nothing more will come. What is pending or unsent still goes out, then the connection closes."""
        self._is_ended = True
        if self.is_waiting:
            self._watch(self._mask & ~EPOLLIN)
        else:
            self.close()

    def _after_input(self) -> None:
        """Note what is unfinished, send what was answered."""
        if self._intake:
            if self.unfinished_since_ms is None:
                self.unfinished_since_ms = self._shared.loop.now_ms
            self._shared.input_grew(self)
        else:
            self.unfinished_since_ms = None
        if self._outbox:
            self._send()

    def _run_frames(self, buffer: memoryview, start: int, end: int) -> int:
        """Answer the whole frames in `buffer[start:end]`, until one is pending; return where the first unused byte is."""
        dispatch = self._shared.dispatch
        answer: bytes | Chunks | Later | None
        while end - start >= FRONT_SIZE:
            size, api_key, version, correlation_id, client_id_length = FRONT.unpack_from(buffer, start)
            frame_end = start + 4 + size
            if frame_end > end or size < SMALLEST_FRAME:
                self._check_size(size, api_key)
                return start
            if api_key == PRODUCE:
                self._front, after, answers = dispatch.take_run(self._front, buffer, start, end, self.peer)
                if after > start:
                    start = after
                    for answer in answers:
                        self._give(answer, may_go_on=True)
                    if not self._may_run():
                        return start
                    continue
            elif self._pending:
                self._is_held = True
                return start
            frame = buffer[start:frame_end]
            answer = dispatch.answer(frame, api_key, version, correlation_id, client_id_length, self.peer)
            start = frame_end
            if not self._give(answer, may_go_on=api_key == PRODUCE):
                return start
        if end - start >= 4:
            self._check_size(int.from_bytes(buffer[start : start + 4], "big", signed=True), None)
        return start

    def _give(self, answer: bytes | Chunks | Later | None, *, may_go_on: bool) -> bool:
        """Send an answer after those before it; return whether the next request may be taken. `may_go_on` says whether that is so
        while this answer is pending.
        """
        pending = self._pending
        if isinstance(answer, bytes):
            if not pending:
                self._outbox.put_bytes(answer)
            else:
                self._park(_given((answer,)))
        elif isinstance(answer, Later):
            if self._saw_end:
                answer.hurry()
            if answer.answer is not None and not pending:
                self._outbox.put(answer.answer)
            else:
                self._park(answer)
                self._is_held = not may_go_on
        elif answer is not None:
            if not pending:
                self._outbox.put(answer)
            else:
                self._park(_given(answer))
        return self._may_run()

    def _check_size(self, size: int, api_key: int | None) -> None:
        if size < SMALLEST_FRAME:
            raise FrameRefused(f"a frame of {size} bytes: the smallest request has {SMALLEST_FRAME}", "size")
        largest = self._shared.dispatch.largest(0 if api_key is None else api_key)
        if size > largest:
            raise FrameRefused(f"a frame of {size} bytes where {largest} are taken (setting socket.request.max.bytes)", "size")

    def _park(self, later: Later) -> None:
        self._pending.append(later)
        self._pending_bytes += later.expected_bytes
        if later.answer is None:
            later.attach(self._deliver)
        if later.deadline_ms is not None:
            self._set_timer(later.deadline_ms)

    def _set_timer(self, deadline_ms: int) -> None:
        # One entry a connection: a fetch that is answered early leaves its entry for the next one to use.
        if self._timer_at_ms is None or deadline_ms < self._timer_at_ms:
            self._timer_at_ms = deadline_ms
            self._shared.loop.call_at(deadline_ms, self._on_timer)

    def _on_timer(self) -> None:
        if self._timer_at_ms is not None and self._shared.loop.now_ms >= self._timer_at_ms:
            self._timer_at_ms = None
        later = self._pending[0] if self._pending else None
        if later is None or later.deadline_ms is None:
            return
        if later.deadline_ms <= self._shared.loop.now_ms:
            later.expire()
        else:
            self._set_timer(later.deadline_ms)

    def _deliver(self, answer: Chunks) -> None:
        pending = self._pending
        while pending and (first := pending[0].answer) is not None:
            self._pending_bytes -= pending.popleft().expected_bytes
            self._outbox.put(first)
        if self._is_held and not pending:
            self._is_held = False
            self._go_on()
        elif not self._goes_on:
            # One flush ends many waits: all that it lets go leaves in one send.
            self._goes_on = True
            self._shared.loop.at_turn_end(self._go_on)

    def _go_on(self) -> None:
        """Answer what was received meanwhile, send, and read on."""
        self._goes_on = False
        if self.is_closed:
            return
        self.last_active_ms = self._shared.loop.now_ms
        self.unfinished_since_ms = None
        with self._guarded:
            while self._intake and self._may_run():
                before = self._intake.start
                after = self._run_frames(self._intake.view, before, self._intake.end)
                self._intake.used(after)
                if after == before:
                    break
            self._after_input()
            if self._is_ended:
                if not self.is_waiting:
                    self.close()
            elif self._may_run():
                self._watch(self._mask | (EPOLLIN if self._saw_end else _READING))

    def _send(self) -> None:
        was_backlogged = self._is_backlogged()
        if self._outbox.send(self._socket):
            if self._is_ended and not self._pending:
                self.close()
            if self._mask & EPOLLOUT:
                self._shared.output_held(self, 0)
                self._watch(self._mask & ~EPOLLOUT)
        else:
            self._watch(self._mask | EPOLLOUT)
            self._shared.output_held(self, self._outbox.held_bytes)
        if was_backlogged and self._may_run():
            # Not from here: answering more may fill the backlog and send again, call within call.
            self._shared.loop.post(self._go_on)

    def _peer_has_finished(self) -> None:
        """The peer sends no more. What it has sent is still answered, a parked fetch at once."""
        self._saw_end = True
        self._watch(self._mask & ~EPOLLRDHUP)
        self._hurry()

    def _hurry(self) -> None:
        for later in tuple(self._pending):
            later.hurry()

    def _may_run(self) -> bool:
        return not (self._is_held or self.is_closed or self._is_backlogged() or len(self._pending) >= MOST_PENDING)

    def _is_backlogged(self) -> bool:
        return self._outbox.waiting_bytes + self._pending_bytes > self._shared.output_max_bytes

    def _watch(self, mask: int) -> None:
        if mask != self._mask and not self.is_closed:
            self._mask = mask
            self._shared.loop.modify(self.fd, mask)


def _frame_bytes(buffer: memoryview, start: int, end: int) -> int | None:
    """Return the length of the frame that begins at `start`, its size field included, when that much has come."""
    if end - start < 4:
        return None
    return 4 + int.from_bytes(buffer[start : start + 4], "big")


def _given(answer: Chunks) -> Later:
    """Return an answer that is there already, to stand in line behind pending ones."""
    later = Later()
    later.expected_bytes = sum(map(len, answer))
    later.complete(answer)
    return later
