"""The loop's counters: plain numbers that only the loop thread changes and any thread may read.

No labels, locks or objects of a metrics library: on each scrape `metrics_page` turns the numbers into what Prometheus reads. The
messages and bytes of a partition are counted on the partition itself. Durations are counted in buckets of powers of two
nanoseconds, found by one `bit_length`. It costs 0.4 µs a request, with two clock readings."""

from collections.abc import Iterable
from time import perf_counter_ns

LARGEST_BUCKET = 36
"""2**36 ns is 69 s. Longer durations are in the last bucket too, and only there."""

clock_ns = perf_counter_ns
"""The clock of all durations. It has a name here so that all code measures with the same one."""


class Durations:
    """A histogram: `buckets[n]` counts the durations from 2**(n-1) up to, not including, 2**n nanoseconds."""

    __slots__ = ("buckets", "count", "sum_ns")

    def __init__(self) -> None:
        self.buckets = [0] * (LARGEST_BUCKET + 1)
        self.count = 0
        self.sum_ns = 0

    def add(self, duration_ns: int, times: int = 1) -> None:
        """Count a duration `times` times. Hot: once a request or a run of them."""
        self.count += times
        self.sum_ns += duration_ns * times
        at = duration_ns.bit_length()
        self.buckets[at if at < LARGEST_BUCKET else LARGEST_BUCKET] += times


UNKNOWN_API = -1
"""The key under which all requests for unserved APIs are counted."""


class ApiMetrics:
    """One API's requests."""

    __slots__ = ("errors", "latency")

    def __init__(self) -> None:
        self.latency = Durations()
        """Time from the last byte of the request to the complete response."""
        self.errors: dict[int, int] = {}
        """How often each error code was in a response. Each code of a response counts."""

    def error(self, code: int, times: int = 1) -> None:
        self.errors[code] = self.errors.get(code, 0) + times

    def errors_in(self, codes: Iterable[int]) -> None:
        for code in codes:
            self.error(code)


class BrokerMetrics:
    """Counters of requests and of the loop. Only the loop thread writes them."""

    __slots__ = (
        "access_denied",
        "access_events_left_out",
        "access_rules",
        "apis",
        "fetch_session_partitions",
        "fetch_sessions",
        "fetch_sessions_evicted",
        "loop_lag",
        "parked_fetches",
        "throttles",
    )

    def __init__(self) -> None:
        self.apis: dict[int, ApiMetrics] = {}
        """By API key, served ones only: bounded by the API table."""
        self.loop_lag = Durations()
        """Delay of the loop's timers."""
        self.parked_fetches = 0
        """Fetches that wait for data now."""
        self.fetch_sessions = 0
        self.fetch_session_partitions = 0
        """Of all sessions together."""
        self.fetch_sessions_evicted = 0
        self.access_rules: int | None = None
        """Access rules in force. None: there is no authorizer."""
        self.access_denied: dict[tuple[str, str], int] = {}
        """By operation and type of resource: bounded by Kafka's lists of them."""
        self.access_events_left_out = 0
        """Events that are not in the trail, because a second had too many different ones."""

        self.throttles = 0
        """How often a connection was muted, because its client used more than its quota."""

    def api(self, api_key: int) -> ApiMetrics:
        """Return the counters of an API. Called at the start: handlers keep the result."""
        return self.apis.setdefault(api_key, ApiMetrics())
