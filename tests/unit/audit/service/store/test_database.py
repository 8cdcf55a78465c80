"""One suite over both databases: transactions, one writing process, layouts, readings beside the writing."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.audit.service.errors import StoreError
from headrace.audit.service.store.database import Database
from headrace.audit.service.store.opening import database_at
from tests.support.postgresql import PostgresqlServer

VERDICT = ("clicks", 0, 600_000, "COMPLETE", 0, 0, 0, 1, "{}")


@pytest.fixture
def database(store: str) -> Iterator[Database]:
    made = database_at(store)
    made.open()
    yield made
    made.close()


def test_what_a_transaction_wrote_is_there_after_a_restart(database: Database, store: str) -> None:
    with database.transaction():
        database.put_fact("collector:0", 17)
        database.put("found", ("clicks", 600_000, "live", 3, -1, b"\x00\xff packed %s ?", 1 << 61))
    database.close()
    database.open()
    assert database.facts("collector:") == {"0": "17"}
    assert database.rows("SELECT * FROM found") == [("clicks", 600_000, "live", 3, -1, b"\x00\xff packed %s ?", 1 << 61)]


def test_a_transaction_that_raises_leaves_nothing(database: Database) -> None:

    def fail() -> None:
        with database.transaction():
            database.put_fact("collector:0", 17)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert database.fact("collector:0") is None
    with database.transaction():
        database.put_fact("collector:0", 18)
    assert database.fact("collector:0") == "18"


def test_a_statement_that_fails_leaves_nothing_and_the_next_transaction_works(database: Database) -> None:

    def fail() -> None:
        with database.transaction():
            database.put_fact("collector:0", 17)
            database.do("INSERT INTO no_such_table VALUES (?)", (1,))

    with pytest.raises(StoreError, match="no_such_table"):
        fail()
    assert database.fact("collector:0") is None
    with database.transaction():
        database.put_fact("collector:0", 18)


def test_put_writes_in_the_place_of_the_row_with_the_same_key(database: Database) -> None:
    with database.transaction():
        database.put("windows", ("clicks", 0), ("clicks", 0), ("clicks", 600_000))
        database.put("verdicts", VERDICT)
        database.put("verdicts", (*VERDICT[:3], "INCOMPLETE", 4, 0, 0, 2, "{}"))
    assert len(database.rows("SELECT * FROM windows")) == 2
    assert database.rows("SELECT verdict, missing, at_ms FROM verdicts") == [("INCOMPLETE", 4, 2)]


def test_topics_have_the_same_order_everywhere(database: Database) -> None:
    names = ["b", "B", "a_1", "a-1", "a.1", "ä", "_x"]
    with database.transaction():
        database.put("topics", *((name, "id") for name in names))
    assert [name for (name,) in database.rows("SELECT topic FROM topics ORDER BY topic")] == sorted(names)


def test_the_numbers_of_a_list_rise(database: Database) -> None:
    with database.transaction():
        for at in range(3):
            database.do(
                "INSERT INTO malformed (partition, at_offset, reason, at_ms) VALUES (?, ?, ?, ?)", (0, at, "100% odd?", 1)
            )
    numbers = [number for (number,) in database.rows("SELECT number FROM malformed ORDER BY at_offset")]
    assert numbers == sorted(set(numbers))


def test_a_second_process_is_refused_until_the_first_has_closed(database: Database, store: str) -> None:
    second = database_at(store)
    with pytest.raises(StoreError, match="another audit service writes"):
        second.open()
    database.close()
    second.open()
    second.close()


def test_another_layout_is_refused_and_left_alone(database: Database) -> None:
    with database.transaction():
        database.put_fact("layout", 99)
    database.close()
    with pytest.raises(StoreError, match="layout 99"):
        database.open()


def test_a_snapshot_does_not_see_what_is_written_after_it(database: Database) -> None:
    with database.transaction():
        database.put_fact("collector:0", 17)
    with database.snapshot() as read:
        with database.transaction():
            database.put_fact("collector:0", 18)
            database.put("topics", ("clicks", "id"))
        assert list(read("SELECT value FROM facts WHERE name = 'collector:0'")) == [("17",)]
        assert list(read("SELECT * FROM topics")) == []
    with database.snapshot() as read:
        assert list(read("SELECT value FROM facts WHERE name = 'collector:0'")) == [("18",)]


def test_a_snapshot_is_read_by_another_thread_while_a_transaction_is_open(database: Database) -> None:
    seen: list[tuple[object, ...]] = []

    def look() -> None:
        with database.snapshot() as read:
            seen.extend(read("SELECT * FROM topics"))

    with database.transaction():
        database.put("topics", ("clicks", "id"))
        thread = threading.Thread(target=look)
        thread.start()
        thread.join(20)
    assert not thread.is_alive()
    assert seen == []


def test_an_address_of_something_else_is_refused() -> None:
    with pytest.raises(StoreError, match="postgresql://user@host/database"):
        database_at("mysql://me:secret@host/x")


@pytest.mark.needs("postgresql")
def test_a_password_is_never_shown(postgresql: PostgresqlServer) -> None:
    gone = postgresql.url("nowhere").replace("headrace@", "headrace:secret@")
    database = database_at(gone)
    assert "secret" not in database.name
    with pytest.raises(StoreError, match="no connection to postgresql://headrace@") as caught:
        database.open()
    assert "secret" not in str(caught.value)
    with pytest.raises(StoreError) as caught:
        database_at("postgresql://headrace:secret@host:port/x?what=1")
    assert "secret" not in str(caught.value)


@pytest.mark.needs("postgresql")
def test_a_lost_connection_is_told_and_comes_back_with_the_lock(postgresql_alone: PostgresqlServer) -> None:
    store = postgresql_alone.new_database()
    database = database_at(store)
    database.open()
    with database.transaction():
        database.put_fact("collector:0", 17)

    def lose() -> None:
        with database.transaction():
            database.put_fact("collector:0", 18)
            postgresql_alone.kill()
            database.put_fact("collector:0", 19)

    with pytest.raises(StoreError, match=r"connection to .* is lost"):
        lose()
    with pytest.raises(StoreError, match="lost"):
        database.fact("collector:0")
    with pytest.raises(StoreError, match="no connection to"):
        database.reopen_if_lost()
    postgresql_alone.start()
    database.reopen_if_lost()
    assert database.fact("collector:0") in ("17", None)  # synchronous_commit is off: a killed server may lose whole transactions
    with pytest.raises(StoreError, match="another audit service"):
        database_at(store).open()
    database.close()


def test_a_file_that_is_not_ours_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    path.write_bytes(b"not a database at all, but somebody's" * 100)
    with pytest.raises(StoreError, match="not a store of the audit"):
        database_at(path).open()
    assert path.read_bytes().startswith(b"not a database")
