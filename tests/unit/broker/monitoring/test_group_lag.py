"""How far groups are behind, read for a scrape. Real loop, worker and logs; ZooKeeper is played."""

import threading
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.broker.event_loop.worker import Worker
from headrace.broker.monitoring import group_lag
from headrace.broker.monitoring.group_lag import CHUNK, GroupLag, LagReading, LagSnapshot
from headrace.coordination.group_progress import Position
from tests.support.raw_kafka import batch
from tests.support.serving_broker import ServingBroker


class PlayedProgress:
    """What groups have committed, counted as it is read."""

    def __init__(self, committed: dict[Position, int]) -> None:
        self.committed = committed
        self.listed = 0
        self.read_sizes: list[int] = []
        self.is_away = False
        self.gate = threading.Event()
        self.gate.set()

    def positions(self, among: Container[tuple[str, int]], most: int) -> tuple[list[Position], int]:
        self.gate.wait(20)
        if self.is_away:
            raise OSError("ZooKeeper is away")
        self.listed += 1
        found = sorted(one for one in self.committed if one[1:] in among)
        return found[:most], max(0, len(found) - most)

    def read(self, positions: Sequence[Position]) -> dict[Position, int]:
        self.read_sizes.append(len(positions))
        return {one: self.committed[one] for one in positions}


@contextmanager
def lag_of(broker: ServingBroker, progress: PlayedProgress, most: int = 10_000) -> Iterator[GroupLag]:
    worker = Worker("test", broker.loop.post).start()
    try:
        yield GroupLag(broker.loop, worker, progress, broker.table, most=most)
    finally:
        worker.stop()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path, topics={"clicks": 2, "many": 300}) as serving:
        yield serving


def test_a_groups_lag_is_what_lies_between_its_offset_and_the_end(broker: ServingBroker) -> None:
    with broker.client() as client:
        client.produce("clicks", batch(b"x" * 100))
    end = len(batch(b"x" * 100))
    progress = PlayedProgress(
        {
            ("g", "clicks", 0): 0,
            ("g", "clicks", 1): 0,
            ("done", "clicks", 0): end,
            ("ahead", "clicks", 0): end + 7,
            ("g", "gone", 0): 5,
        }
    )
    with lag_of(broker, progress) as lags:
        taken = lags.take(10_000)
    assert taken.left_out == 0
    assert taken.lags == [
        LagReading("ahead", "clicks", 0, 0),
        LagReading("done", "clicks", 0, 0),
        LagReading("g", "clicks", 0, end),
        LagReading("g", "clicks", 1, 0),
    ]


def test_many_are_read_in_chunks_and_beyond_the_bound_counted(broker: ServingBroker) -> None:
    progress = PlayedProgress({("g", "many", partition): 0 for partition in range(300)})
    with lag_of(broker, progress, most=CHUNK + 50) as lags:
        taken = lags.take(10_000)
    assert (len(taken.lags), taken.left_out) == (CHUNK + 50, 300 - CHUNK - 50)
    assert progress.read_sizes == [CHUNK, 50]


def test_scrapes_that_come_together_cost_one_reading(broker: ServingBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    progress = PlayedProgress({("g", "clicks", 0): 0})
    with lag_of(broker, progress) as lags:
        for _ in range(5):
            assert len(lags.take(10_000).lags) == 1
        assert progress.listed == 1
        monkeypatch.setattr(group_lag, "FRESH_MS", 0)
        lags.take(10_000)
        assert progress.listed == 2


def test_a_zookeeper_that_hangs_costs_a_scrape_a_bounded_time_and_one_that_fails_leaves_no_old_numbers(
    broker: ServingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_lag, "FRESH_MS", 0)
    progress = PlayedProgress({("g", "clicks", 0): 0})
    with lag_of(broker, progress) as lags:
        assert len(lags.take(10_000).lags) == 1
        progress.gate.clear()
        assert len(lags.take(20).lags) == 1, "the last reading"
        progress.is_away = True
        progress.gate.set()
        assert lags.take(10_000) == LagSnapshot([], 0)
        progress.is_away = False
        assert len(lags.take(10_000).lags) == 1
