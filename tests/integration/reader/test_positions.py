"""What every database with positions must do: one suite for all."""

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.client.fetch.fetched import TopicPartition
from headrace.reader import PostgresPositions, ReaderMisused, SqlitePositions, TransactionEnded
from headrace.reader.positions.protocol import Fenced, Move, Position, Positions
from headrace.reader.processor import ProcessorAway
from tests.support.postgresql import PostgresqlServer

A, B = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
IDS = {"clicks": "1f"}
GROUP = "fraud"
CREATE = "CREATE TABLE stored (number INTEGER PRIMARY KEY)"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs("postgresql"))])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Positions]:
    """Make positions in one database, which is another for each test."""
    if request.param == "sqlite":
        return lambda: SqlitePositions(tmp_path / "own.sqlite")
    url = request.getfixturevalue("postgresql").new_database()
    return lambda: PostgresPositions(url)


@pytest.fixture
def positions(made: Callable[[], Positions]) -> Iterator[Positions]:
    one = made()
    one.take_over(GROUP, {A: 10, B: 20}, IDS)
    one.store(GROUP, {}, lambda cursor: cursor.execute(CREATE))
    yield one
    one.close()


def insert(*numbers: int) -> Callable[[Any], object]:
    return lambda cursor: [cursor.execute(f"INSERT INTO stored VALUES ({number})") for number in numbers]


def stored(positions: Positions) -> list[int]:
    found = list[tuple[int]]()
    positions.store(GROUP, {}, lambda cursor: found.extend(cursor.execute("SELECT number FROM stored ORDER BY 1").fetchall()))
    return [number for (number,) in found]


def test_a_takeover_makes_rows_keeps_positions_and_raises_the_fence(positions: Positions, made: Callable[[], Positions]) -> None:
    assert positions.read(GROUP, [A, B]) == {A: Position(10, 1), B: Position(20, 1)}
    other = made()
    assert other.take_over(GROUP, {A: 99}, IDS) == {A: Position(10, 2)}
    assert other.take_over("another group", {A: 5}, IDS) == {A: Position(5, 1)}
    assert other.take_over(GROUP, {A: 7}, {"clicks": "2f"}) == {A: Position(7, 1)}, "another topic of that name"
    assert positions.read(GROUP, [A, B]) == {A: Position(10, 2), B: Position(20, 1)}
    other.close()


def test_rows_and_positions_are_committed_together_or_not_at_all(positions: Positions) -> None:
    held = positions.read(GROUP, [A, B])
    positions.store(GROUP, {A: Move(held[A], 12), B: Move(held[B], 21)}, insert(1, 2))
    assert (stored(positions), positions.read(GROUP, [A, B])) == ([1, 2], {A: Position(12, 1), B: Position(21, 1)})
    for moves in ({A: Move(Position(12, 7), 13)}, {A: Move(Position(10, 1), 13), B: Move(Position(21, 1), 22)}):
        with pytest.raises(Fenced) as found:
            positions.store(GROUP, moves, insert(3))
        assert found.value.partitions == {A}
    with pytest.raises(ZeroDivisionError):
        positions.store(GROUP, {A: Move(Position(12, 1), 13)}, lambda cursor: [*insert(3)(cursor), 1 / 0])  # type: ignore[misc]
    with pytest.raises(Exception, match=r"(?i)unique"):
        positions.store(GROUP, {A: Move(Position(12, 1), 13)}, insert(3, 1))
    assert (stored(positions), positions.read(GROUP, [A, B])) == ([1, 2], {A: Position(12, 1), B: Position(21, 1)})


def test_of_two_that_store_at_the_same_moment_the_one_with_the_fence_wins(
    positions: Positions, made: Callable[[], Positions]
) -> None:
    """The first is in the middle of its transaction when the second takes over: one of them waits, and none is half done."""
    is_inside, may_end, results = threading.Event(), threading.Event(), list[str]()

    def slow(cursor: Any) -> None:
        insert(1)(cursor)
        is_inside.set()
        may_end.wait(1)

    def first() -> None:
        mine = made()
        held = mine.take_over(GROUP, {A: 0}, IDS)
        try:
            mine.store(GROUP, {A: Move(held[A], 11)}, slow)
            results.append("stored")
        except Fenced:
            results.append("fenced")
        mine.close()

    thread = threading.Thread(target=first)
    thread.start()
    assert is_inside.wait(20)
    held = positions.take_over(GROUP, {A: 0}, IDS)
    may_end.set()
    thread.join(20)
    assert held[A].fence == 3
    assert (results, held[A].next_offset, stored(positions)) in ((["stored"], 11, [1]), (["fenced"], 10, []))
    positions.store(GROUP, {A: Move(held[A], held[A].next_offset + 1)}, insert(2))


@pytest.mark.parametrize("word", ["COMMIT", "ROLLBACK"])
def test_who_ends_the_transaction_is_told(positions: Positions, word: str) -> None:
    with pytest.raises(TransactionEnded, match="stored again"):
        positions.store(GROUP, {A: Move(Position(10, 1), 11)}, lambda cursor: cursor.execute(word))
    assert positions.read(GROUP, [A]) == {A: Position(10, 1)}


def test_each_thread_has_a_connection_of_its_own(positions: Positions) -> None:
    errors = list[BaseException]()

    def work(name: TopicPartition) -> None:
        try:
            held = positions.take_over(GROUP, {name: 0}, IDS)[name]
            for number in range(20):
                positions.store(GROUP, {name: Move(held, held.next_offset + 1)}, insert(name.partition * 100 + number))
                held = Position(held.next_offset + 1, held.fence)
            positions.close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in (A, B)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert len(stored(positions)) == 40


def test_sqlite_that_is_locked_is_away_and_a_wrong_statement_is_the_applications(tmp_path: Path) -> None:
    positions = SqlitePositions(tmp_path / "own.sqlite")
    positions.take_over(GROUP, {A: 0}, IDS)
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        positions.store(GROUP, {A: Move(Position(0, 1), 1)}, insert(1))
    with pytest.raises(TransactionEnded):
        positions.store(GROUP, {A: Move(Position(0, 1), 1)}, lambda cursor: cursor.executescript(CREATE))
    with contextlib.closing(sqlite3.connect(tmp_path / "own.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ProcessorAway, match="locked"):
            positions.read(GROUP, [A])
        other.execute("ROLLBACK")
    assert positions.read(GROUP, [A]) == {A: Position(0, 1)}
    with pytest.raises(ReaderMisused, match="there is no folder"):
        SqlitePositions(tmp_path / "none" / "own.sqlite").take_over(GROUP, {A: 0}, IDS)
    positions.close()


@pytest.mark.needs("postgresql")
def test_postgresql_that_is_gone_is_away_and_who_may_make_no_table_is_told(postgresql: PostgresqlServer) -> None:
    import psycopg

    url = postgresql.new_database()
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        db.execute(f"CREATE ROLE {(role := f'reader_{url[-1]}_{id(url)}')} LOGIN".encode())
        with pytest.raises(ReaderMisused, match=r"docs/FORMATS\.md"):
            PostgresPositions(url.replace("//headrace@", f"//{role}@")).take_over(GROUP, {A: 0}, IDS)
        positions = PostgresPositions(url)
        positions.take_over(GROUP, {A: 0}, IDS)
        with pytest.raises(psycopg.errors.UndefinedTable):
            positions.store(GROUP, {A: Move(Position(0, 1), 1)}, insert(1))
        db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headrace-reader' "
            "AND datname = current_database()"
        )
        with pytest.raises(ProcessorAway):
            positions.read(GROUP, [A])
        assert positions.read(GROUP, [A]) == {A: Position(0, 1)}, "on a new connection"
    positions.close()
    with pytest.raises(ReaderMisused, match="is not an address"):
        PostgresPositions("no address at all")
