"""One client's connection: frames in, answers out in the order of the requests. Lives on the loop thread.

Knows of APIs only that Produce requests come in runs: `Dispatch` takes a run at once, or answers a single frame. While an answer
is pending (a parked fetch, a ZooKeeper call) no further request of this connection is taken, but for one case: behind Produce
requests that wait for the disk further ones are, or each would have a flush of its own. Pending answers are bounded in number
and, with those that the peer leaves unread, in bytes. Hot: everything here runs once a request or once a read."""

import socket
from select import EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP
from typing import Protocol

from ..wire.errors import WireError
from .dispatch import Dispatch
from .intake import Intake
from .later import Chunks, Later
from .loop import Loop
from .metrics import clock_ns
from .outbox import FileEnded, Outbox
from .pending_answers import PendingAnswers
from .produce_front import Front
from .rate_limited_log import RateLimitedLog
from .refusal import FrameRefused
from .request_header import FRONT, FRONT_SIZE, SMALLEST_FRAME

_READING = EPOLLIN | EPOLLRDHUP
PRODUCE = 0
LONGEST_CARRIED = 64 * 1024
"""A longer frame that was cut is received where its beginning is kept; that of a shorter one is copied back (1 us for 10 KB)."""
FEW = 16
"""Requests in one read, measured by the length of the first: below it a read has brought little."""
STREAMED, STREAMED_BYTES = 128, 128 * 1024
"""So many requests in one read, or so many bytes of more than a few, come only from a peer that waits for no single answer. One
that keeps 64 small requests in flight would soon wait for the pause itself: it lost a third of its rate."""
GATHERS = 256
"""Reads with little that may be let gather (`Loop.let_gather`) until such a one comes again."""
TURN_NS = 2_000_000
"""How long requests of one connection, but for Produce, keep the loop before others get their turn: sixty connections that asked
for all settings, thousands of times in a read, kept it for 70 s. A lone request costs no look at the clock."""
READERS_FIRST = 8
"""Up to so many parked fetches are answered before the append that feeds them is acknowledged: their readers hear of it 0.06 ms
(of 0.54) sooner. A producer is not to wait for hundreds of them."""
MOST_PENDING = 1_000
"""Produce answers, of single requests or whole runs, that wait for the disk on one connection."""


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


class Connection:
    """Owns its socket."""

    __slots__ = (
        "_front",
        "_gathers_left",
        "_goes_on",
        "_intake",
        "_is_ended",
        "_is_held",
        "_mask",
        "_outbox",
        "_pending",
        "_saw_end",
        "_shared",
        "_socket",
        "fd",
        "is_closed",
        "last_active_ms",
        "peer",
        "unfinished_since_ms",
    )

    def __init__(self, connected: socket.socket, peer: str, shared: Shared) -> None:
        self._socket = connected
        self._shared = shared
        self._intake = shared.new_intake()
        self._outbox = Outbox()
        self._pending = PendingAnswers(shared.loop, self._deliver)
        self._is_held = False
        """Whether the next request waits until nothing is pending."""
        self._is_ended = False
        """Whether the last byte has been read."""
        self._goes_on = False
        """Whether `_go_on` will be called, at the end of this turn or in the next."""
        self._front: Front | None = None
        self._gathers_left = 0
        """How many more small runs may ask the loop to let requests gather."""
        self._mask = _READING
        self._saw_end = False
        self.fd = connected.fileno()
        self.peer = peer
        self.is_closed = False
        self.last_active_ms = shared.loop.now_ms
        self.unfinished_since_ms: int | None = None
        """Since when the first frame that is not whole has been arriving; None when none is."""

    def start(self) -> None:
        self._shared.loop.register(self.fd, self._mask, self._on_event)

    @property
    def is_waiting(self) -> bool:
        """Whether a request of this connection is being answered or its answer sent."""
        return bool(self._pending.laters) or bool(self._outbox)

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
        self._pending.abandon()
        self._shared.closed(self)

    def finish(self) -> bool:
        """Answer what is pending now, read no more; return whether everything is sent and the connection therefore closed."""
        self._saw_end = True
        self._pending.hurry()
        if not self.is_closed and not self.is_waiting:
            self.close()
        return self.is_closed

    def refuse(self, event: str, why: str, **reason: str) -> None:
        """Close, and say why in the log. `reason` is what it is counted under, where that is not the event."""
        self._shared.rejections.warning(event, peer=self.peer, why=why, **reason)
        self.close()

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
        """Close the connection for what went wrong on it, others go on; return False for a fault of ours, which the loop logs."""
        match error:
            case BlockingIOError():
                pass  # an event that was stale by the time it was handled
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
        if not self._may_run():
            self._watch(self._mask & ~EPOLLIN)  # not the peer's end: that is to be seen all the same
            return
        intake, scratch = self._intake, self._shared.scratch
        held = intake.end - intake.start
        if held:
            frame_bytes = _frame_bytes(intake.view, intake.start, intake.end)
            if frame_bytes is not None:
                if held >= frame_bytes:
                    if not self._goes_on:
                        self._go_on()  # kept back while the peer left its answers unread
                    return
                if frame_bytes > LONGEST_CARRIED:
                    self._read_long(frame_bytes)
                    return
            # Before what comes now, so that a frame that was cut makes one run with those behind it.
            scratch[:held] = intake.view[intake.start : intake.end]
            received = self._socket.recv_into(scratch[held:])
            intake.start = intake.end = 0
        else:
            received = self._socket.recv_into(scratch)
        if received == 0:
            self._end()
            return
        end = held + received
        self._keep_rest(self._run_frames(scratch, 0, end), end)

    def _read_long(self, frame_bytes: int) -> None:
        """Receive the rest of a long frame where its beginning is, and what follows it."""
        intake, scratch = self._intake, self._shared.scratch
        room = intake.room(frame_bytes)
        fills = len(intake) + len(room) == frame_bytes
        # Of a next frame as long as this only the beginning: the rest is then received where it stays.
        behind = scratch if frame_bytes <= len(scratch) else scratch[:LONGEST_CARRIED]
        received = self._socket.recvmsg_into([room, behind] if fills else [room])[0]
        if received == 0:
            self._end()
            return
        in_room = min(received, len(room))
        room.release()
        intake.end += in_room
        used = self._run_frames(intake.view, intake.start, intake.end)
        if used > intake.start:
            self.unfinished_since_ms = None  # the next frame has a time of its own
        intake.used(used)
        rest, used = received - in_room, 0
        if rest and not intake and self._may_run():
            used = self._run_frames(scratch, 0, rest)
        self._keep_rest(used, rest)

    def _keep_rest(self, used: int, received: int) -> None:
        """Keep what of the scratch buffer was not used; send what was answered."""
        if self.is_closed:
            return
        if used:
            self.unfinished_since_ms = None  # a peer that sends without a pause never ends a read with a whole frame
        if used < received:
            rest = self._shared.scratch[used:received]
            self._intake.put(rest, _frame_bytes(rest, 0, received - used))
        elif self._intake.start == self._intake.end:
            self._intake.drop()
        if used and self._outbox and 0 < self._shared.loop.turn_end_calls <= READERS_FIRST and not self._goes_on:
            # Who reads along is about to be told of what was appended here: the acknowledgement would wake the producer first.
            self._go_on_at_turn_end()
        else:
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
        if self._intake.end > self._intake.start:
            if self.unfinished_since_ms is None:
                self.unfinished_since_ms = self._shared.loop.now_ms
            self._shared.input_grew(self)
        else:
            self.unfinished_since_ms = None
        if self._outbox.waiting_bytes:
            self._send()

    def _run_frames(self, buffer: memoryview, start: int, end: int) -> int:
        """Answer the whole frames in `buffer[start:end]`, until one is pending; return where the first unused byte is."""
        dispatch = self._shared.dispatch
        answer: bytes | Chunks | Later | None
        until_ns = 0
        while end - start >= FRONT_SIZE:
            size, api_key, version, correlation_id, client_id_length = FRONT.unpack_from(buffer, start)
            frame_end = start + 4 + size
            if frame_end > end or size < SMALLEST_FRAME:
                self._check_size(size, api_key)
                if size < LONGEST_CARRIED:
                    self._let_gather(0, 0)
                return start
            if api_key == PRODUCE:
                self._front, after, answers = dispatch.take_run(self._front, buffer, start, end, self.peer)
                if after > start:
                    self._let_gather(after - start, (after - start) // (frame_end - start))
                    start = after
                    for answer in answers:
                        self._give(answer, may_go_on=True)
                    if not self._may_run():
                        return start
                    continue
            elif self._pending.laters:
                self._is_held = True
                return start
            may_yield = api_key != PRODUCE and end - frame_end >= FRONT_SIZE
            if may_yield and until_ns == 0:
                until_ns = clock_ns() + TURN_NS
            frame = buffer[start:frame_end]
            answer = dispatch.answer(frame, api_key, version, correlation_id, client_id_length, self.peer)
            start = frame_end
            self._give(answer, may_go_on=api_key == PRODUCE)
            if not self._may_run():
                return start
            if may_yield and clock_ns() > until_ns:
                self._go_on_next_turn()
                return start
        if end - start >= 4:
            self._check_size(int.from_bytes(buffer[start : start + 4], "big", signed=True), None)
        return start

    def _let_gather(self, size_bytes: int, requests: int) -> None:
        """Say of a read what it brought, where that may be gathered."""
        if requests >= STREAMED or (size_bytes >= STREAMED_BYTES and requests >= FEW):
            self._gathers_left = GATHERS
        if self._gathers_left:
            self._gathers_left -= requests < FEW
            self._shared.loop.let_gather(self.fd, has_much=requests >= FEW)

    def _go_on_at_turn_end(self) -> None:
        self._goes_on = True
        self._shared.loop.at_turn_end(self._go_on)

    def _go_on_next_turn(self) -> None:
        if not self._goes_on:
            self._goes_on = True
            self._shared.loop.post(self._go_on)

    def _give(self, answer: bytes | Chunks | Later | None, *, may_go_on: bool) -> None:
        """Send an answer after those before it. `may_go_on` says whether the next request may be taken while it is pending."""
        pending = self._pending
        if isinstance(answer, Later):
            if self._saw_end:
                answer.hurry()
            if answer.answer is not None and not pending.laters:
                self._outbox.put(answer.answer)
            else:
                pending.park(answer)
                self._is_held = not may_go_on
        elif answer is None:
            pass
        elif pending.laters:
            pending.park_given((answer,) if isinstance(answer, bytes) else answer)
        elif isinstance(answer, bytes):
            self._outbox.put_bytes(answer)
        else:
            self._outbox.put(answer)

    def _check_size(self, size: int, api_key: int | None) -> None:
        if size < SMALLEST_FRAME:
            raise FrameRefused(f"a frame of {size} bytes: the smallest request has {SMALLEST_FRAME}", "size")
        largest = self._shared.dispatch.largest(0 if api_key is None else api_key)
        if size > largest:
            raise FrameRefused(f"a frame of {size} bytes where {largest} are taken (setting socket.request.max.bytes)", "size")

    def _deliver(self) -> None:
        for answer in self._pending.ready():
            self._outbox.put(answer)
        if self._is_held and not self._pending.laters:
            self._is_held = False
            self._go_on()
        elif not self._goes_on:
            self._go_on_at_turn_end()  # one flush ends many waits: all that it lets go leaves in one send

    def _go_on(self) -> None:
        """Answer what was received meanwhile, send, and read on."""
        self._goes_on = False
        if self.is_closed:
            return
        self.last_active_ms = self._shared.loop.now_ms
        self.unfinished_since_ms = None
        try:
            while self._intake and self._may_run():
                before = self._intake.start
                after = self._run_frames(self._intake.view, before, self._intake.end)
                self._intake.used(after)
                if after == before or self._goes_on:
                    break
            self._after_input()
            if self._is_ended:
                if not self.is_waiting:
                    self.close()
            elif self._may_run():
                self._watch(self._mask | (EPOLLIN if self._saw_end else _READING))
        except Exception as error:
            if not self._is_dealt_with(error):
                raise

    def _send(self) -> None:
        was_backlogged = self._is_backlogged()
        if self._outbox.send(self._socket):
            if self._is_ended and not self._pending.laters:
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
        self._pending.hurry()

    def _may_run(self) -> bool:
        pending = self._pending
        return not (
            self._is_held
            or self.is_closed
            or self._outbox.waiting_bytes + pending.expected_bytes > self._shared.output_max_bytes
            or len(pending.laters) >= MOST_PENDING
        )

    def _is_backlogged(self) -> bool:
        return self._outbox.waiting_bytes + self._pending.expected_bytes > self._shared.output_max_bytes

    def _watch(self, mask: int) -> None:
        if mask != self._mask and not self.is_closed:
            self._mask = mask
            self._shared.loop.modify(self.fd, mask)


def _frame_bytes(buffer: memoryview, start: int, end: int) -> int | None:
    """Return the length of the frame that begins at `start`, its size field included, when that much has come."""
    if end - start < 4:
        return None
    return 4 + int.from_bytes(buffer[start : start + 4], "big")
