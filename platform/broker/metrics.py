"""What the loop counts as it goes: plain numbers that only the loop's thread adds to and any thread may read.

No labels, locks or objects of a metrics library here: `metrics_page` turns the numbers into what Prometheus reads, when it asks.
What a partition takes in and gives out is counted on the partition itself. Durations are sorted into powers of two of a
nanosecond: a bucket is found by one `bit_length`. A request costs 0.4 µs of it, two clock readings included."""

from collections.abc import Iterable
from time import perf_counter_ns

LARGEST_BUCKET = 36
"""2**36 ns is 69 s; what takes longer is in the last bucket too, and only there."""

clock_ns = perf_counter_ns
"""What durations are measured with. A name of our own, so that all measure alike."""


class Durations:
    """A histogram: `buckets[n]` counts the durations from 2**(n-1) up to, not including, 2**n nanoseconds."""

    __slots__ = ("buckets", "count", "sum_ns")

    def __init__(self) -> None:
        self.buckets = [0] * (LARGEST_BUCKET + 1)
        self.count = 0
        self.sum_ns = 0

    def add(self, duration_ns: int, times: int = 1) -> None:
        """Count a duration, `times` of the same at once. Hot: once a request or a run of them."""
        self.count += times
        self.sum_ns += duration_ns * times
        at = duration_ns.bit_length()
        self.buckets[at if at < LARGEST_BUCKET else LARGEST_BUCKET] += times


UNKNOWN_API = -1
"""Stands for all keys that are not served."""


class ApiMetrics:
    """One API's requests."""

    __slots__ = ("errors", "latency")

    def __init__(self) -> None:
        self.latency = Durations()
        """From a request's being there whole to its answer's being ready to be sent."""
        self.errors: dict[int, int] = {}
        """By error code, each time it stands in an answer."""

    def error(self, code: int, times: int = 1) -> None:
        self.errors[code] = self.errors.get(code, 0) + times

    def errors_in(self, codes: Iterable[int]) -> None:
        for code in codes:
            self.error(code)


class BrokerMetrics:
    """What is counted of requests and the loop. Written on the loop's thread only."""

    __slots__ = ("apis", "loop_lag", "parked_fetches")

    def __init__(self) -> None:
        self.apis: dict[int, ApiMetrics] = {}
        """By API key: those that are served, so bounded by the router's table."""
        self.loop_lag = Durations()
        """How late the loop came to what was due."""
        self.parked_fetches = 0
        """Fetches that wait for more to be shown, now."""

    def api(self, api_key: int) -> ApiMetrics:
        """Return what is counted of an API. For the start of things: a handler keeps what it gets."""
        return self.apis.setdefault(api_key, ApiMetrics())
