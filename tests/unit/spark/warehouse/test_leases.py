"""One of all processes holds a lease. If it dies or makes no progress, another one takes over, and the first one notices."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from headrace.spark.errors import CatalogUnreachable, LeaseLost, WarehouseError
from headrace.spark.warehouse.leases import Leases
from headrace.spark.warehouse.settings import sqlite
from tests.support.postgresql import PostgresqlServer, PostgresqlServers, each_version
from tests.support.processes import Process, eventually, free_port

HOLDER = """
import signal, sys
from headrace.spark.warehouse.leases import Leases
Leases(sys.argv[1]).take(sys.argv[2])
print("held", flush=True)
signal.pause()
"""


@pytest.fixture(params=["sqlite", *each_version()])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return sqlite(tmp_path / "my db%20" / "leases.db")
    servers: PostgresqlServers = request.getfixturevalue("postgresql_servers")
    return servers.of(request.param).new_database().replace("postgresql:", "postgresql+psycopg:")


@pytest.fixture
def holder(url: str, tmp_path: Path) -> Iterator[Process]:
    """Another process of this machine that holds `a`."""
    process = Process([sys.executable, "-c", HOLDER, url, "a"], tmp_path / "holder.log").start()
    eventually(lambda: "held" in process.output(), what="the other process holds it")
    yield process
    process.kill()


def test_a_lease_is_one_process_s_and_names_do_not_hinder_each_other(url: str, holder: Process) -> None:
    leases = Leases(url, wait_s=0.3)
    with leases.held("ab"), pytest.raises(WarehouseError, match=f"a: the process {holder.pid} on .* has been at it"):
        leases.take("a")
    assert [one.name for one in leases.listed("a", is_prefix=True)] == ["a"]


def test_a_lease_whose_process_was_killed_is_free_at_once(url: str, holder: Process) -> None:
    leases = Leases(url, wait_s=20)
    assert leases.free("a") == []
    os.kill(holder.pid, 9)
    eventually(lambda: not holder.is_running(), what="the holder is gone")
    (found,) = leases.free("a")
    lease = leases.adopt(found)
    assert lease is not None
    assert leases.adopt(found) is None, "two adopted it"
    lease.release()
    assert leases.listed("a") == []


def test_a_lease_of_another_machine_is_free_only_when_it_was_not_renewed(url: str) -> None:
    """Another machine's processes cannot be seen: only its time counts, by the database's clock."""
    short, leases = Leases(url, good_for_s=0.5), Leases(url, wait_s=20)
    first = short.take("a")
    first._is_over.set()  # it makes no progress: nobody renews it
    first._thread.join()
    holder = {"host": "far", "kernel": "another", "pid": 1, "start": "1"}
    _set_holder(leases, holder)
    assert short.renew("a", first.token)
    assert leases.free("a") == []
    second = leases.take("a")
    with pytest.raises(LeaseLost, match="a: this process lost its lease, and another one took over"):
        first.check()
    first.release()
    second.check()
    second.release()


def test_a_lease_is_renewed_while_its_process_lives(url: str) -> None:
    lease = Leases(url, good_for_s=0.6).take("a")
    other = Leases(url, wait_s=2.5)
    with pytest.raises(WarehouseError, match="has been at it"):
        other.take("a")
    lease.release()
    other.take("a").release()


def test_of_many_threads_one_at_a_time_holds_it(url: str) -> None:
    inside, most, done = [0], [0], []

    def work() -> None:
        with Leases(url).held("a"):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            done.append(1)
            inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert (most[0], len(done)) == (1, 6)


@pytest.mark.needs("postgresql")
def test_processes_that_open_a_new_database_at_once_all_get_their_table(postgresql: PostgresqlServer) -> None:
    url = postgresql.new_database()
    words = "import sys; from headrace.spark.warehouse.leases import Leases; Leases(sys.argv[1]).take(sys.argv[2]).release()"
    target = url.replace("postgresql:", "postgresql+psycopg:")
    running = [subprocess.Popen([sys.executable, "-c", words, target, f"n{number}"]) for number in range(3)]
    assert [one.wait(60) for one in running] == [0, 0, 0]
    with psycopg.connect(url) as db:
        assert db.execute("SELECT count(*) FROM headrace_leases").fetchone() == (0,)


def test_a_database_that_is_away_is_told_without_its_password() -> None:
    url = f"postgresql+psycopg://me:hidden-word@127.0.0.1:{free_port()}/db"
    with pytest.raises(CatalogUnreachable, match="refused") as told:
        Leases(url).take("a")
    assert "hidden-word" not in str(told.value)


def _set_holder(leases: Leases, words: dict[str, object]) -> None:
    leases._run("UPDATE headrace_leases SET holder = :holder", holder=json.dumps(words))
