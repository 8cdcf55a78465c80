"""Memory is returned to the system when a burst has been over for a whole period, and not earlier."""

from collections.abc import Callable

import pytest

from headrace.broker.event_loop.loop import Loop
from headrace.broker.network.memory_return import LOOK_EVERY_MS, WORTH_BYTES, MemoryReturn, trim
from headrace.broker.network.receive_buffer import BufferPool


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


def test_a_trim_runs_on_any_system() -> None:
    trim()


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
