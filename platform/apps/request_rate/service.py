"""The real-time service: a live count of requests per minute, in a group of processes that take over from each other exactly.

It is a reader whose processor holds minutes. `ReadingLoop` reads, decodes, flushes about every second, reports to the audit and
commits; `Minutes` says where a partition begins.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ...client.connection.cluster import Cluster
from ...client.fetch.log_offsets import log_range
from ...reader.loop_settings import LoopSettings
from ...reader.reading_loop import ReadingLoop
from ...runtime.clock import Clock, SystemClock
from ...runtime.lifecycle import StopSignal
from ...runtime.monitoring.status_pages import PagesAddress, StatusPages
from .metrics import metrics
from .minutes import Minutes
from .state import StateFolder

BEAT_EVERY_MS = 60_000
"""Promised to who reads the status file; mostly it is written every second. Longer than a flush of which every step waits."""


class RequestRate:
    """One process of the service; `run` until stopped."""

    def __init__(self, settings: LoopSettings, home: Path, pages: PagesAddress, *, clock: Clock | None = None) -> None:
        """`home`: the states are in its folder `request-rate`."""
        self._pages = pages
        self._clock = clock or SystemClock()
        self._cluster = Cluster(settings.bootstrap, client_id=f"{settings.group}.{settings.consumer_id}-states")
        minutes = Minutes(StateFolder(home / "request-rate"), partial(log_range, self._cluster))
        self._loop = ReadingLoop(settings, minutes, clock=self._clock, facts=_facts_of)

    def run(self, stop: StopSignal) -> None:
        """Serve until `stop`; then flush, give the partitions back, leave the group. Raises an error that is not retriable."""
        pages = StatusPages("consumer", self._pages, self._loop.status, self._clock, metrics)
        pages.start()
        try:
            self._loop.run(stop)
        finally:
            pages.stop()
            self._cluster.close()


def _facts_of(loop: ReadingLoop) -> Mapping[str, Any]:
    positions = loop.positions()
    return {
        "topic": loop.settings.topics[0],
        "partitions": {str(name.partition): at for name, at in sorted(positions.items())},
        "quarantined": loop.refused,
        "records": loop.read,
        "unsaved_offsets": sum(max(0, at - loop.committed.get(name, at)) for name, at in positions.items()),
        "backlog": loop.unreported,
        "beat_every_ms": BEAT_EVERY_MS,
    }
