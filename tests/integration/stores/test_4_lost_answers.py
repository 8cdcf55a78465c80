"""Whichever answer of the catalog is lost on its way, and whichever request: loads continue until all is there once."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from headrace.spark.errors import CatalogUnreachable
from headrace.spark.load import load_job
from headrace.spark.load.load_job import LoadJob
from headrace.spark.load.settings import LoadSettings
from headrace.spark.load.topic_load import TopicLoad
from headrace.spark.source.log_ends import LogEnds
from headrace.spark.source.task_reports import Total
from tests.support.cutting_proxy import CuttingProxy, Where
from tests.support.postgresql import PostgresqlServer
from tests.support.stored_rows import EVENT, write_rows
from tests.support.warehouse_worlds import World

TOPIC = "clicks"
TRIES = 6


@pytest.fixture
def proxy(postgresql: PostgresqlServer) -> Iterator[CuttingProxy]:
    made = CuttingProxy(postgresql.port)
    yield made
    made.close()


@pytest.fixture
def log_end(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How far the log goes; it and Spark are pretended: a row for each offset."""
    end = [0]

    def write(job: LoadJob, load: TopicLoad) -> object:
        rows = [(0, offset, offset) for one in load.ranges for offset in range(one.from_offset, one.to_offset)]
        return EVENT, write_rows(load.path / "rows-0", rows), Total(row_count=len(rows))

    monkeypatch.setattr(load_job, "log_ends", lambda bootstrap, topic: LogEnds(start={0: 0}, end={0: end[0]}))
    monkeypatch.setattr(LoadJob, "_write", write)
    return end


@pytest.mark.needs("postgresql")
def test_a_commit_does_not_wait_for_ever_behind_a_machine_that_is_gone(
    tmp_path: Path, postgresql: PostgresqlServer, log_end: list[int]
) -> None:
    """Fault: a client that lost its power between UPDATE and COMMIT holds the row's lock, and every load waits for hours."""
    direct = postgresql.new_database()
    world = World(home=tmp_path, environment={"HEADRACE_CATALOG_URI": f"{direct}?options=-c%20lock_timeout%3D300ms"})
    settings = LoadSettings(
        topic=TOPIC, bootstrap="-", quarantine_bootstrap="-", registry_url="-", warehouse=world.settings, home=None
    )
    log_end[0] = 3
    assert LoadJob(settings).run().row_count == 3
    with psycopg.connect(direct) as gone:
        gone.execute("SELECT * FROM iceberg_tables FOR UPDATE")
        log_end[0] = 5
        with pytest.raises(CatalogUnreachable, match="lock timeout"):
            LoadJob(settings).run()
        gone.rollback()
    assert LoadJob(settings).run().row_count == 2
    assert world.rows(TOPIC) == [(0, offset) for offset in range(5)]


@pytest.mark.needs("postgresql")
@pytest.mark.parametrize("where", ["request", "answer"])
@pytest.mark.parametrize("word", [b"COMMIT", b"UPDATE iceberg_tables", b"INSERT INTO iceberg_tables"])
def test_loads_whose_commits_are_cut_lose_and_double_nothing(
    tmp_path: Path, postgresql: PostgresqlServer, proxy: CuttingProxy, log_end: list[int], word: bytes, where: Where
) -> None:
    direct = postgresql.new_database()
    through = direct.replace(f":{postgresql.port}/", f":{proxy.port}/")
    world = World(home=tmp_path, environment={"HEADRACE_CATALOG_URI": through, "HEADRACE_LEASES_URI": direct})
    settings = LoadSettings(
        topic=TOPIC, bootstrap="-", quarantine_bootstrap="-", registry_url="-", warehouse=world.settings, home=None
    )
    landed = 0
    for number in (1, 2, 3, 1):
        log_end[0] += 3
        proxy.cut(word, number, where)
        for _ in range(TRIES):
            try:
                landed += LoadJob(settings).run().run is None
                break
            except CatalogUnreachable:
                continue
        proxy.cut(b"", 0, where)
        assert world.rows(TOPIC) == [(0, offset) for offset in range(log_end[0])]
        assert world.warehouse().existing_table(TOPIC).offsets() == {0: log_end[0]}
    assert proxy.cuts, "nothing was cut: the test looks at nothing"
    if (word, where) == (b"COMMIT", "answer"):
        assert landed, "no commit landed whose answer was lost"
    log_end[0] += 1
    LoadJob(settings).run()
    assert world.stored(TOPIC) == world.named(TOPIC), "files of a cut load are still there"
