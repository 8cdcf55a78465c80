"""Compaction, retention and clean-up are the same wherever the warehouse lives, and whichever answer of its catalog is lost."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.runtime.clock import ManualClock
from headrace.spark.errors import CatalogUnreachable
from headrace.spark.maintenance.compact_job import CompactJob
from headrace.spark.maintenance.expire_job import ExpireJob
from headrace.spark.maintenance.retention_job import RetentionJob
from headrace.spark.maintenance.settings import CompactSettings, ExpirySettings
from headrace.spark.publish.verify import verify
from headrace.spark.warehouse.topic_table import LOADS, MAIN
from headrace.spark.warehouse.warehouse import Warehouse
from tests.support.cutting_proxy import CuttingProxy, Where
from tests.support.postgresql import PostgresqlServer
from tests.support.stored_rows import HOUR_MS
from tests.support.stored_table import Stored
from tests.support.warehouse_worlds import World

TOPIC = "clicks"
TRIES = 8
FAR = ManualClock(3_000_000_000_000)


def compact(warehouse: Warehouse) -> None:
    CompactJob(warehouse, TOPIC, CompactSettings(most_manifests=3), clock=ManualClock(100 * HOUR_MS)).run()


def drop_hour_0(warehouse: Warehouse) -> None:
    RetentionJob(warehouse, TOPIC, apply=True, keep_hours=1, clock=ManualClock(2 * HOUR_MS)).run()


def expire(warehouse: Warehouse) -> None:
    ExpireJob(warehouse, TOPIC, ExpirySettings(max_age_ms=0, min_snapshots=1, grace_ms=0), clock=FAR).run()


def test_merged_dropped_and_cleaned_up_with_the_same_rows_and_books(world: World) -> None:
    stored = Stored(world.settings, TOPIC)
    for hour in (0, 1, 1, 1):
        stored.load(hour, 5)
    stored.publish()
    told = dict(stored.audit._told)
    compact(world.warehouse())
    assert len(world.named(TOPIC)) == len(world.named(TOPIC, MAIN)) == 2
    assert world.rows(TOPIC) == world.rows(TOPIC, MAIN) == [(0, offset) for offset in range(20)]
    drop_hour_0(world.warehouse())
    expire(world.warehouse())
    assert world.rows(TOPIC) == world.rows(TOPIC, MAIN) == [(0, offset) for offset in range(5, 20)]
    assert world.stored(TOPIC) == world.named(TOPIC, LOADS) == world.named(TOPIC, MAIN)
    assert stored.count() == 0
    assert stored.publish().revisions == ()
    assert stored.audit._told == told
    assert not any(hour.faults for hour in verify(world.warehouse(), TOPIC))
    stored.load(2, 1)
    assert len(stored.publish().published) == 1


@pytest.fixture
def proxy(postgresql: PostgresqlServer) -> Iterator[CuttingProxy]:
    made = CuttingProxy(postgresql.port)
    yield made
    made.close()


@pytest.mark.needs("postgresql")
@pytest.mark.parametrize("where", ["request", "answer"])
@pytest.mark.parametrize("word", [b"COMMIT", b"UPDATE iceberg_tables"])
def test_maintenance_whose_commits_are_cut_loses_and_doubles_nothing(
    tmp_path: Path, postgresql: PostgresqlServer, proxy: CuttingProxy, word: bytes, where: Where
) -> None:
    direct = postgresql.new_database()
    through = direct.replace(f":{postgresql.port}/", f":{proxy.port}/")
    world = World(home=tmp_path, environment={"HEADRACE_CATALOG_URI": direct})
    cut = World(home=tmp_path, environment={"HEADRACE_CATALOG_URI": through, "HEADRACE_LEASES_URI": direct})
    stored = Stored(world.settings, TOPIC)
    expected: list[tuple[int, int]] = []
    sent = 0
    jobs: list[tuple[Callable[[Warehouse], None], int]] = [
        (compact, 1),
        (compact, 2),
        (drop_hour_0, 1),
        (expire, 1),
        (compact, 3),
    ]
    for number, (job, nth) in enumerate(jobs):
        for hour in (0, 1) if number < 2 else (1, 1):
            stored.load(hour, 5)
            expected += [(0, offset) for offset in range(sent, sent + 5)]
            sent += 5
        stored.publish()
        proxy.cut(word, nth, where)
        for _ in range(TRIES):
            try:
                job(cut.warehouse())
                break
            except CatalogUnreachable:
                continue
        proxy.cut(b"", 0, where)
        if job is drop_hour_0:
            expected = [row for row in expected if row[1] // 5 not in (0, 2)]
        assert world.rows(TOPIC) == expected
        assert stored.publish().withdrawn == ()
        assert world.rows(TOPIC, MAIN) == expected
        assert [fault for hour in verify(world.warehouse(), TOPIC) for fault in hour.faults] == []
    assert proxy.cuts, "nothing was cut: the test looks at nothing"
    compact(world.warehouse())
    expire(world.warehouse())
    assert world.stored(TOPIC) == world.named(TOPIC)
