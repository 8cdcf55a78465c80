"""How much one fetch asks for: more where the way to the source is long, so that the line is idle for a small part of the time.

Between two fetches a line is idle for a round trip. Near at hand a fetch of a megabyte takes milliseconds, and its bytes are
still in the processor's cache when they are counted and sent on; over 100 ms it should take most of a second. Pure.
"""

LEAST_BYTES = 1 << 20
MOST_BYTES = 8 << 20
NEAR_MS, FAR_MS = 10, 40
"""A full fetch that is faster is made smaller next time, one that is slower larger."""
LONGEST_MS = 1_000
"""One that takes longer is not made larger any more: what it brings would come late, and the round trip is no longer felt."""
TOO_LONG_MS = 3 * LONGEST_MS


FIRST_ALL_BYTES, LEAST_ALL_BYTES = 2 << 20, 512 << 10
"""Of all partitions in one fetch: at the beginning, and over a very slow line."""


class FetchSize:
    """The bytes of one partition, and of all, in one fetch, by what the fetches before took."""

    def __init__(self, least: int = LEAST_BYTES, most: int = MOST_BYTES, most_of_all: int = 2 * MOST_BYTES) -> None:
        """`least` and `most` are of one partition."""
        self._least, self._most, self._most_of_all = least, most, most_of_all
        self.bytes = least
        self.bytes_of_all = min(FIRST_ALL_BYTES, most_of_all)

    def fetched(self, largest_bytes: int, bytes_of_all: int, took_ms: int) -> None:
        """Learn from a fetch: how much came of the partition of which most came, and of all, and how long that took."""
        is_full = 2 * largest_bytes >= self.bytes
        if is_full and FAR_MS <= took_ms < LONGEST_MS:
            self.bytes = min(self._most, 2 * self.bytes)
        elif took_ms >= TOO_LONG_MS or (is_full and took_ms < NEAR_MS):
            self.bytes = max(self._least, self.bytes // 2)
        if took_ms >= TOO_LONG_MS:
            self.bytes_of_all = max(LEAST_ALL_BYTES, self.bytes_of_all // 2)
        elif 2 * bytes_of_all >= self.bytes_of_all and took_ms < LONGEST_MS:
            self.bytes_of_all = min(self._most_of_all, 2 * self.bytes_of_all)
