"""After which reads a connection lets its input gather. Pure: the loop is a double."""

from headrace.broker.network.input_gathering import FEW, GATHERS, STREAMED, STREAMED_BYTES, InputGathering


class Pauses:
    """Records the calls of `let_gather`."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, bool]] = []

    def let_gather(self, fd: int, *, has_much: bool) -> None:
        self.asked.append((fd, has_much))


def after(*reads: tuple[int, int]) -> list[tuple[int, bool]]:
    """Return what is let gather after these reads: bytes and requests."""
    pauses = Pauses()
    fan_in = InputGathering(pauses, 7)
    for size_bytes, requests in reads:
        fan_in.saw(size_bytes, requests)
    return pauses.asked


def test_a_peer_that_never_sent_much_is_never_kept_waiting() -> None:
    assert after((100, 1), (6_400, STREAMED - 1), (0, 0), (STREAMED_BYTES - 1, FEW), (STREAMED_BYTES, FEW - 1)) == []


def test_many_requests_or_many_bytes_of_more_than_a_few_let_the_next_reads_gather() -> None:
    assert after((100, STREAMED), (100, 1)) == [(7, True), (7, False)]
    assert after((STREAMED_BYTES, FEW), (0, 0)) == [(7, True), (7, False)]


def test_reads_with_little_gather_a_bounded_number_of_times() -> None:
    asked = after((100, STREAMED), *[(100, 1)] * (GATHERS + 5))
    assert asked == [(7, True)] + [(7, False)] * GATHERS


def test_a_read_that_brings_more_than_a_few_requests_costs_none_of_them() -> None:
    asked = after((100, STREAMED), *[(100, FEW)] * 5, *[(100, 1)] * (GATHERS + 5))
    assert asked == [(7, True)] * 6 + [(7, False)] * GATHERS
