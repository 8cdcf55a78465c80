"""`EventReader.run_batches`: batches stored and, with positions, stored exactly once in the application's own database."""

import sqlite3
import threading
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.client.connection.cluster import Cluster
from headrace.client.fetch.fetched import TopicPartition
from headrace.reader import (
    BatchFailed,
    EventRecord,
    LogBeganAnew,
    PostgresPositions,
    Quarantine,
    SqlitePositions,
    TransactionEnded,
)
from tests.support.live_side import LiveSide
from tests.support.postgresql import PostgresqlServer
from tests.support.processes import eventually as eventually_within
from tests.support.unruly_proxy import PostgresqlProxy

from .test_run import Running
from .topics import Topic

WITHIN_MS = 60_000
"""On a machine under load a member may not get to say that it leaves its group: the next one waits for the session's end."""
eventually = partial(eventually_within, within_ms=WITHIN_MS)


class Table:
    """The application's table and positions in a database of its own, and a connection that looks at them."""

    def __init__(self, kind: str, tmp_path: Path, server: PostgresqlServer | None) -> None:
        self.kind, self.refused, self.calls = kind, set[int](), list[list[int]]()
        if server is None:
            self._path = tmp_path / "own.sqlite"
            self._mark, self.positions = "?", lambda: SqlitePositions(self._path)
        else:
            self._url = server.new_database()
            self._mark, self.positions = "%s", lambda: PostgresPositions(self._url)  # type: ignore[assignment]
        self.do("CREATE TABLE clicks (topic TEXT, part INTEGER, at BIGINT, number INTEGER)")

    def do(self, statement: str) -> list[tuple[Any, ...]]:
        if self.kind == "sqlite":
            with sqlite3.connect(self._path, timeout=20) as connection:
                return connection.execute(statement).fetchall()
        import psycopg

        with psycopg.connect(self._url, autocommit=True) as found:
            cursor = found.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def store(self, batch: Sequence[EventRecord], cursor: Any) -> None:
        rows = [(one.topic, one.partition, one.offset, one.event["number"]) for one in batch]
        self.calls.append([number for *_, number in rows])
        cursor.executemany(f"INSERT INTO clicks VALUES ({', '.join([self._mark] * 4)})", rows)
        for *_, number in rows:
            if number in self.refused:
                raise RuntimeError(f"not {number}")

    @property
    def numbers(self) -> list[int]:
        return sorted(number for (number,) in self.do("SELECT number FROM clicks"))

    def rows(self) -> dict[int, tuple[int, int]]:
        """Return partition → position and fence."""
        found = self.do("SELECT partition, next_offset, fence FROM headrace_positions")
        return {partition: (position, fence) for partition, position, fence in found}


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs("postgresql"))])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    server = request.getfixturevalue("postgresql") if request.param == "postgresql" else None
    return Table(request.param, tmp_path, server)


def test_without_positions_store_gets_lists_of_bounded_length_and_all_is_committed(live: LiveSide) -> None:
    topic, batches = Topic(live).send(range(250)), list[list[int]]()
    running = Batches(topic, lambda batch: batches.append([one.event["number"] for one in batch]), max_records=40, max_wait_ms=20)
    eventually(lambda: sum(map(len, batches)) == 250, what="all stored")
    running.stop()
    assert sorted(number for batch in batches for number in batch) == [*range(250)]
    assert max(map(len, batches)) == 40
    assert topic.committed() == topic.ends()
    assert running.reader.statistics.done == 250


@pytest.mark.parametrize("kind", ["kafka", "zookeeper"])
def test_positions_move_with_the_rows_and_win_over_the_groups_offset(
    live: LiveSide, zookeeper: str, kind: str, table: Table
) -> None:
    settings = {"zookeeper": zookeeper} if kind == "zookeeper" else {}
    topic = Topic(live).send(range(100)).poison(b"no avro").poison(b"no avro", partition=1)
    first = Batches(topic, table.store, table, **settings)
    eventually(lambda: table.numbers == [*range(100)], what="all stored")
    ends = topic.ends()
    eventually(lambda: table.rows() == {0: (ends[0], 1), 1: (ends[1], 1)}, what="positions behind what went to quarantine")
    first.stop()
    # As if the database were one from before: the group's offset is ahead, and the rows say what is missing.
    (at,) = table.do("SELECT at FROM clicks WHERE number = 60")[0]
    table.do(f"DELETE FROM clicks WHERE part = 0 AND at >= {at}")
    table.do(f"UPDATE headrace_positions SET next_offset = {at} WHERE partition = 0")
    second = Batches(topic.send(range(100, 120)), table.store, table, **settings)
    eventually(lambda: table.numbers == [*range(120)], what="what the database lacked, and the new ones")
    second.stop()
    assert {partition: fence for partition, (_, fence) in table.rows().items()} == {0: 2, 1: 2}
    # As if the group's offsets were lost: the positions know, and nothing is stored again.
    topic.group += "-anew"
    table.do(f"UPDATE headrace_positions SET group_id = '{topic.group}'")
    third = Batches(topic.send(range(120, 130)), table.store, table, **settings)
    eventually(lambda: table.numbers == [*range(130)], what="only the new ones")
    third.stop()


def test_a_batch_that_fails_stops_the_reader_and_names_its_range(live: LiveSide, table: Table) -> None:
    topic = Topic(live, partitions=1).send(range(10))
    table.refused = {7}
    running = Batches(topic, table.store, table)
    running.join()
    assert isinstance(running.error, BatchFailed)
    ((first, last),) = running.error.ranges.values()
    assert first == running.error.offset <= last
    assert f"offsets {first} to {last} of {topic.name}-0: RuntimeError: not 7" in str(running.error)
    assert len(table.calls) == 1, "the end does not try again"
    assert (table.numbers, topic.committed()) == ([], {})
    table.refused = set()
    again = Batches(topic, table.store, table)
    eventually(lambda: table.numbers == [*range(10)], what="all after the fault is mended")
    again.stop()


def test_only_the_culprits_go_to_quarantine_and_positions_pass_them_once_it_has_them(live: LiveSide, table: Table) -> None:
    topic = Topic(live, partitions=1).send(range(20))
    table.refused = {3, 4, 19}
    running = Batches(topic, table.store, table, on_error=Quarantine(after=2), max_records=20)
    eventually(lambda: table.numbers == [one for one in range(20) if one not in table.refused], what="all others")
    eventually(lambda: len(topic.quarantined()) == 3, what="the culprits")
    running.stop()
    assert [code for _, _, code in topic.quarantined()] == ["handler_failed"] * 3
    assert table.rows()[0][0] == topic.ends()[0] == topic.committed()[0]
    assert Counter(map(len, table.calls))[20] <= 2
    found = running.reader.statistics
    assert (found.read, found.done, found.quarantined, found.in_work) == (20, 17, 3, 0)


def test_a_member_whose_partition_was_taken_over_stores_nothing_and_begins_anew_where_the_row_says(
    live: LiveSide, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, has_begun, may_go_on = Topic(live, partitions=1).send(range(10)), threading.Event(), threading.Event()

    def store(batch: Sequence[EventRecord], cursor: Any) -> None:
        if not has_begun.is_set():
            has_begun.set()
            assert may_go_on.wait(20)
        table.store(batch, cursor)

    if table.kind == "sqlite":
        monkeypatch.setattr(SqlitePositions, "store", _taken_over_before(SqlitePositions.store, table, topic))
        may_go_on.set()
    running = Batches(topic, store, table, max_records=10)
    eventually(has_begun.is_set, what="a batch in hand")
    if table.kind == "postgresql":  # another member takes it over while this one is in its transaction
        other = table.positions()
        other.take_over(topic.group, {TopicPartition(topic.name, 0): 0}, Cluster(live.bootstrap).topic_ids([topic.name]))
        other.close()
        may_go_on.set()
    eventually(lambda: table.numbers == [*range(10)], what="stored once, under the new fence")
    topic.send(range(10, 15))
    eventually(lambda: table.numbers == [*range(15)], what="and on")
    running.stop()
    assert table.rows()[0] == (topic.ends()[0], 3)
    assert table.calls[0] == [*range(len(table.calls[0]))], "rolled back"
    assert [number for batch in table.calls[1:] for number in batch] == [*range(15)]


def _taken_over_before(store: Any, table: Table, topic: Topic) -> Any:
    """SQLite has one writer: the takeover comes right before the transaction."""

    def patched(self: SqlitePositions, group: str, moves: Any, work: Any) -> None:
        if table.rows()[0][1] == 1:
            ids = Cluster(topic.live.bootstrap).topic_ids([topic.name])
            other = SqlitePositions(self._path)
            other.take_over(group, {TopicPartition(topic.name, 0): 0}, ids)
            other.close()
        store(self, group, moves, work)

    return patched


def test_a_store_that_ends_the_transaction_is_told_so(live: LiveSide, table: Table) -> None:
    topic = Topic(live, partitions=1).send(range(3))
    running = Batches(topic, lambda batch, cursor: cursor.execute("COMMIT"), table)
    running.join()
    assert isinstance(running.error, TransactionEnded), running.error
    assert topic.committed() == {}


def test_a_topic_made_anew_is_read_from_its_begin(live: LiveSide, table: Table) -> None:
    topic = Topic(live, partitions=1).send(range(50))
    first = Batches(topic, table.store, table)
    eventually(lambda: table.numbers == [*range(50)], what="all")
    first.stop()
    topic.make_anew()
    topic.send(range(100, 170))  # its log is longer than the other's: offsets alone would hide it
    second = Batches(topic, table.store, table)
    eventually(lambda: table.numbers == [*range(50), *range(100, 170)], what="the new topic's")
    second.stop()
    assert len(table.do("SELECT 1 FROM headrace_positions")) == 2, "a row for each topic"


def test_a_topic_made_anew_while_it_is_read_ends_the_reader_and_the_next_one_reads_it_whole(live: LiveSide, table: Table) -> None:
    topic = Topic(live, partitions=1).send(range(50))
    first = Batches(topic, table.store, table)
    eventually(lambda: table.numbers == [*range(50)], what="all")
    first.stop()
    second = Batches(topic.send(range(50, 55)), table.store, table)
    eventually(lambda: table.numbers == [*range(55)], what="all, by one that began behind the others")
    topic.make_anew()
    topic.send(range(100, 110))
    second.join()
    assert isinstance(second.error, LogBeganAnew), second.error
    third = Batches(topic, table.store, table)
    eventually(lambda: table.numbers == [*range(55), *range(100, 110)], what="the new topic's")
    third.stop()


def test_a_log_that_is_shorter_than_the_position_is_told_and_read_from_the_groups_offset(
    live: LiveSide, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    topic = Topic(live, partitions=1).send(range(10))
    first = Batches(topic, table.store, table)
    eventually(lambda: table.numbers == [*range(10)], what="all")
    first.stop()
    table.do("UPDATE headrace_positions SET next_offset = next_offset + 100000")
    second = Batches(topic.send(range(10, 20)), table.store, table)
    eventually(lambda: table.numbers == [*range(20)], what="the new ones")
    second.stop()
    assert "reader_ahead_of_log" in caplog.messages


@pytest.mark.needs("postgresql")
def test_a_database_that_is_away_is_waited_for_with_bounded_batches(live: LiveSide, tmp_path: Path) -> None:
    server = PostgresqlServer().start()
    try:
        table = Table("postgresql", tmp_path, server)
        topic = Topic(live, partitions=2)
        server.kill()
        running = Batches(topic, table.store, table, max_records=10)
        topic.send(range(100))
        eventually(lambda: running.trouble is not None, what="its trouble, at the assignment")
        server.start()
        eventually(lambda: table.numbers == [*range(100)], what="all, once it is there")
        server.kill()
        topic.send(range(100, 200))
        eventually(lambda: running.trouble is not None, what="its trouble, at a batch")
        assert running.held <= 10
        server.start()
        eventually(lambda: table.numbers == [*range(200)], what="all, once it is there again")
        running.stop()
        assert max(map(len, table.calls)) <= 10
    finally:
        server.remove()


@pytest.mark.needs("postgresql")
@pytest.mark.parametrize(("trouble", "attempts"), [("cut", 1), ("drop", 2)])
def test_a_commit_without_an_answer_is_settled_by_the_rows(
    live: LiveSide, tmp_path: Path, postgresql: PostgresqlServer, trouble: str, attempts: int
) -> None:
    """Cut: the commit arrives and its answer does not. Dropped: it never arrives. `store` is called again only in the latter."""
    table, proxy = Table("postgresql", tmp_path, postgresql), PostgresqlProxy(postgresql.port)
    table.positions = lambda: PostgresPositions(table._url.replace(f":{postgresql.port}/", f":{proxy.port}/"))  # type: ignore[assignment,return-value]
    topic = Topic(live, partitions=1).send([0])
    running = Batches(topic, table.store, table)
    try:
        eventually(lambda: table.numbers == [0], what="the first batch")
        eventually(lambda: topic.committed() == topic.ends(), what="committed")
        proxy.chances.kinds = (trouble,)
        proxy.chances.trouble(1, of_all=0, of_commits=1.0)
        topic.send([1])
        eventually(lambda: proxy.chances.done[trouble], what="the lost answer")
        proxy.chances.calm()
        eventually(lambda: table.numbers == [0, 1] and topic.committed() == topic.ends(), what="stored and committed")
        topic.send([2])
        eventually(lambda: table.numbers == [0, 1, 2], what="and on")
        running.stop()
    finally:
        proxy.close()
    assert table.calls == [[0], *[[1]] * attempts, [2]]


class Batches(Running):
    """`run_batches` in a thread."""

    def __init__(self, topic: Topic, store: Any, table: Table | None = None, **options: Any) -> None:
        settings = {name: options.pop(name) for name in ("zookeeper",) if name in options}
        if table is not None:
            options["positions"] = table.positions()
        super().__init__(topic.reader(session_timeout_ms=6_000, **settings), store, **options)

    def _run(self, handle: Any, options: dict[str, Any]) -> None:
        try:
            self.reader.run_batches(handle, **options)
        except BaseException as error:
            self.error = error

    @property
    def _loop(self) -> Any:
        return self.reader._loops[0]

    @property
    def trouble(self) -> Any:
        return self.reader._loops and (self._loop.trouble or self._loop._begin_trouble)

    @property
    def held(self) -> int:
        return len(self._loop._processor._batch)
