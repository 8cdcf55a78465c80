"""Memory is returned to the system when a burst has been over for a whole period, and not earlier."""

import ctypes
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.broker.event_loop.loop import Loop
from headrace.broker.network.memory_return import LOOK_EVERY_MS, WORTH_BYTES, MemoryReturn, trim
from headrace.broker.network.receive_buffer import BufferPool

BLOCK_BYTES, BLOCKS = 100_000, 300
"""Small enough that the C library takes none of them from the system by itself."""


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class Played:
    """A borrower whose peaks the test sets."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self.given_back = 0

    def take_peak(self) -> int:
        return self.peak_bytes

    def give_back(self) -> None:
        self.given_back += 1


@pytest.mark.parametrize(
    ("peaks", "trims"),
    [
        ([0, 0, 0], 0),
        ([100 << 20] * 5, 0),
        ([100 << 20, 0], 1),
        ([100 << 20, 60 << 20, 20 << 20, 20 << 20, 0], 3),
        ([100 << 20, 0, 0, 100 << 20, 0, 0], 2),
        ([WORTH_BYTES - 1, 0, WORTH_BYTES - 1, 0], 0),
    ],
)
def test_the_end_of_a_burst_is_seen_once(peaks: list[int], trims: int) -> None:
    loop, borrower, disposed = Loop(), Played(), list[Callable[[], None]]()
    MemoryReturn(loop, borrower, disposed.append).start()
    for peak_bytes in peaks:
        borrower.peak_bytes = peak_bytes
        loop.now_ms += LOOK_EVERY_MS + 1
        loop._turn([])
    assert (len(disposed), borrower.given_back) == (trims, trims)
    loop.close()


def test_a_trim_gives_freed_memory_back_to_the_system() -> None:
    """What is freed below a block that is still in use stays with the C library, until it is asked."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    blocks = [libc.malloc(BLOCK_BYTES) for _ in range(BLOCKS)]
    for block in blocks:
        ctypes.memset(block, 1, BLOCK_BYTES)
    last = blocks.pop()
    for block in blocks:
        libc.free(block)
    before = resident_bytes()
    trim()
    assert before - resident_bytes() > BLOCK_BYTES * BLOCKS // 2
    libc.free(last)


def test_a_c_library_that_cannot_trim_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr("headrace.broker.network.memory_return.ctypes.CDLL", lambda name: asked.append(name) or object())
    trim()
    assert asked == [None]


def test_the_pool_knows_its_peak_and_lets_go_of_what_it_keeps() -> None:
    pool = BufferPool()
    buffers = [pool.take(100_000) for _ in range(10)]
    lent = pool.lent_bytes
    for buffer in buffers:
        pool.give(buffer)
    assert (pool.peak_bytes, pool.lent_bytes) == (lent, 0)
    assert pool.take(100_000) is buffers[-1]
    pool.give(buffers[-1])
    pool.free_unused()
    assert all(pool.take(100_000) is not buffer for buffer in buffers)
