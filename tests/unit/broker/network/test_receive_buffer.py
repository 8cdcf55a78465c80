"""Buffers of unfinished requests: bytes come out as they went in; memory grows with received bytes, not with claimed lengths."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.broker.network.receive_buffer import KEPT_BYTES, SMALLEST_BYTES, TRUST_FACTOR, BufferPool, ReceiveBuffer


def received(receive_buffer: ReceiveBuffer, data: bytes, frame_bytes: int) -> int:
    """Let bytes arrive the way the socket delivers them: into `room`. Return how many fitted."""
    room = receive_buffer.room(frame_bytes)
    assert len(room) > 0
    taken = min(len(room), len(data))
    room[:taken] = data[:taken]
    room.release()
    receive_buffer.end += taken
    return taken


@settings(max_examples=100, deadline=None)
@given(pieces=st.lists(st.binary(min_size=1, max_size=3_000), min_size=1, max_size=20))
def test_whatever_pieces_a_frame_comes_in_it_is_whole_at_the_end(pieces: list[bytes]) -> None:
    frame = b"".join(pieces)
    pool = BufferPool()
    receive_buffer = ReceiveBuffer(pool)
    receive_buffer.put(memoryview(pieces[0]), len(frame))
    for piece in pieces[1:]:
        while piece:
            piece = piece[received(receive_buffer, piece, len(frame)) :]
    assert bytes(receive_buffer.view[receive_buffer.start : receive_buffer.end]) == frame
    receive_buffer.used(receive_buffer.end)
    assert pool.lent_bytes == 0


def test_a_claimed_size_takes_no_more_memory_than_what_was_sent_allows() -> None:
    pool = BufferPool()
    receive_buffer = ReceiveBuffer(pool)
    receive_buffer.put(memoryview(b"x" * 100), 100 << 20)
    assert pool.lent_bytes <= SMALLEST_BYTES
    for _ in range(50):
        received(receive_buffer, b"y" * 1_000, 100 << 20)
    assert pool.lent_bytes <= 2 * TRUST_FACTOR * len(receive_buffer)


def test_an_honest_large_frame_gets_its_buffer_in_few_steps() -> None:
    receive_buffer = ReceiveBuffer(BufferPool())
    receive_buffer.put(memoryview(bytes(256 * 1024)), 1 << 20)
    assert len(receive_buffer.view) >= 1 << 20


def test_room_ends_at_the_frames_end_so_that_the_next_frame_goes_elsewhere() -> None:
    receive_buffer = ReceiveBuffer(BufferPool())
    receive_buffer.put(memoryview(b"x" * 10), 30)
    assert len(receive_buffer.room(30)) == 20


def test_used_bytes_make_way_and_an_empty_intake_holds_no_buffer() -> None:
    pool = BufferPool()
    receive_buffer = ReceiveBuffer(pool)
    receive_buffer.put(memoryview(b"first second"), None)
    receive_buffer.used(6)
    assert bytes(receive_buffer.view[receive_buffer.start : receive_buffer.end]) == b"second"
    receive_buffer.used(12)
    assert (len(receive_buffer), pool.lent_bytes) == (0, 0)


def test_returned_buffers_are_used_again_and_kept_within_a_bound() -> None:
    pool = BufferPool()
    first = pool.take(100_000)
    pool.give(first)
    assert pool.take(100_000) is first
    many = [pool.take(1 << 20) for _ in range(KEPT_BYTES // (1 << 20) + 10)]
    for buffer in many:
        pool.give(buffer)
    fresh = [pool.take(1 << 20) for _ in many]
    assert len({id(one) for one in fresh} & {id(one) for one in many}) == KEPT_BYTES // (1 << 20)
