"""The session against a real ZooKeeper: opened, unsure, lost, renewed."""

import subprocess
import sys
import threading
import time

import pytest

from headrace.coordination.errors import (
    ConnectionUnsure,
    CoordinationError,
    SessionClosed,
    ValueTooLarge,
    VersionConflict,
    ZooKeeperUnreachable,
)
from headrace.coordination.operations import Check, Create, Delete, Write
from headrace.coordination.session import Session
from headrace.coordination.standing import SessionState
from tests.support.processes import eventually, free_port
from tests.support.zookeeper import ZooKeeperProcess, expire

from .conftest import OpenSession


def test_start_creates_the_chroot_and_is_sure_of_its_session(open_session: OpenSession) -> None:
    session = open_session()
    assert session.is_sure()
    assert session.state is SessionState.SURE
    assert session.tree.children("/") == []


def test_start_without_a_server_ends_within_its_time_with_a_clear_error() -> None:
    session = Session(f"127.0.0.1:{free_port()}", name="alone", session_timeout_ms=1_000)
    with pytest.raises(ZooKeeperUnreachable, match="no session with ZooKeeper at"):
        session.start(timeout_ms=300)
    assert not session.is_sure()


def test_a_session_time_that_no_server_grants_is_refused() -> None:
    with pytest.raises(ValueError):
        Session("127.0.0.1:1", name="x", session_timeout_ms=60_000)


def test_calls_outside_start_and_close_say_so(open_session: OpenSession) -> None:
    with pytest.raises(SessionClosed):
        Session("127.0.0.1:1", name="x").tree  # noqa: B018
    session = open_session()
    session.close()
    with pytest.raises(SessionClosed):
        session.tree.read("/x")
    with pytest.raises(CoordinationError, match="started before"):
        session.start()


def test_nodes_are_written_read_listed_and_deleted(open_session: OpenSession) -> None:
    tree = open_session().tree
    assert tree.read("/a/b") is None
    assert tree.create("/a/b", b"1")
    assert not tree.create("/a/b", b"2")
    node = tree.read("/a/b")
    assert node is not None
    assert (node.data, node.version, node.owner_session) == (b"1", 0, 0)
    assert tree.write("/a/b", b"3", version=0) == 1
    with pytest.raises(VersionConflict):
        tree.write("/a/b", b"4", version=0)
    with pytest.raises(VersionConflict):
        tree.delete("/a")
    tree.put_many({f"/many/{index}": str(index).encode() for index in range(600)})
    assert len(tree.read_many(f"/many/{index}" for index in range(700))) == 600
    assert tree.children("/many") == sorted(str(index) for index in range(600))
    assert tree.delete("/a/b")
    assert not tree.delete("/a/b")
    with pytest.raises(ValueTooLarge):
        tree.put("/big", bytes(1_000_000))


def test_a_transaction_happens_wholly_or_not_and_names_the_first_refusal(open_session: OpenSession) -> None:
    tree = open_session().tree
    tree.put("/x", b"1")
    assert tree.transact([Check(path="/x"), Write(path="/x", data=b"2"), Create(path="/y", data=b"")]) is None
    assert tree.transact([Write(path="/x", data=b"3"), Create(path="/y", data=b""), Delete(path="/x")]) == 1
    node = tree.read("/x")
    assert node is not None
    assert node.data == b"2"


def test_an_expired_session_is_lost_then_sure_again_under_a_higher_generation(open_session: OpenSession) -> None:
    session = open_session()
    told: list[SessionState] = []
    session.on_change(told.append)
    before = session.generation
    expire(session)
    eventually(lambda: session.is_sure() and session.generation > before, what="a new session")
    eventually(lambda: told and told[-1] is SessionState.SURE, what="listeners told")
    assert SessionState.LOST in told


def test_a_killed_server_makes_the_session_unsure_and_its_return_makes_it_sure(
    open_session: OpenSession, own_zookeeper: ZooKeeperProcess
) -> None:
    session = open_session(hosts=f"{own_zookeeper.address}/deep/chroot", session_timeout_ms=10_000)
    session.tree.put("/kept", b"1")
    generation = session.generation
    own_zookeeper.kill()
    eventually(lambda: not session.is_sure(), what="doubt", within_ms=3_000)
    own_zookeeper.start()
    eventually(session.is_sure, what="sure again")
    assert session.generation == generation, "the same session: the server remembers it"
    node = session.tree.read("/kept")
    assert node is not None
    assert node.data == b"1"


def test_a_call_to_a_dead_server_ends_within_its_time_as_unsure(
    open_session: OpenSession, own_zookeeper: ZooKeeperProcess
) -> None:
    session = open_session(hosts=own_zookeeper.address, session_timeout_ms=1_000)
    own_zookeeper.kill()
    with pytest.raises(ConnectionUnsure) as caught:
        session.tree.read("/x")
    assert caught.value.retriable
    with pytest.raises(ConnectionUnsure):
        session.tree.create("/x", b"")


def test_a_read_outlives_a_restart_of_the_server(open_session: OpenSession, own_zookeeper: ZooKeeperProcess) -> None:
    session = open_session(hosts=own_zookeeper.address, session_timeout_ms=15_000)
    session.tree.put("/x", b"1")
    own_zookeeper.kill()
    back = threading.Timer(0.5, own_zookeeper.start)
    back.start()
    node = session.tree.read("/x")
    back.join()
    assert node is not None
    assert node.data == b"1"


FROZEN = """
import os, signal, sys
from headrace.coordination.session import Session
session = Session(sys.argv[1], session_timeout_ms=1000, name="frozen").start()
print("sure", session.is_sure(), flush=True)
for line in sys.stdin:
    print("sure", session.is_sure(), flush=True)
"""


def test_a_process_that_was_frozen_wakes_up_unsure_before_kazoo_has_noticed(zookeeper_chroot: str) -> None:
    import os
    import signal

    child = subprocess.Popen(
        [sys.executable, "-c", FROZEN, zookeeper_chroot], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "sure True\n"
        os.kill(child.pid, signal.SIGSTOP)
        frozen_at = time.monotonic()
        child.stdin.write("\n")
        child.stdin.flush()
        eventually(lambda: time.monotonic() - frozen_at > 1.5, what="the lease run out")
        os.kill(child.pid, signal.SIGCONT)
        assert child.stdout.readline() == "sure False\n"
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()


def test_a_watch_tells_of_children_that_come_before_and_after_their_parent_exists(open_session: OpenSession) -> None:
    watcher, writer = open_session("watcher"), open_session("writer")
    seen: list[list[str]] = []
    end = watcher.watch_children("/list", lambda: seen.append(watcher.tree.children("/list")))
    eventually(lambda: seen == [[]], what="called once at the start")
    writer.tree.create("/list/a", b"")
    eventually(lambda: seen[-1] == ["a"], what="a seen")
    writer.tree.create("/list/b", b"")
    eventually(lambda: seen[-1] == ["a", "b"], what="b seen")
    end()
    calls = len(seen)
    writer.tree.create("/list/c", b"")
    other: list[int] = []
    watcher.watch_children("/list", lambda: other.append(1))
    eventually(lambda: bool(other), what="another watch told")
    assert len(seen) <= calls + 1


def test_a_watch_holds_across_a_lost_session(open_session: OpenSession) -> None:
    watcher, writer = open_session("watcher"), open_session("writer")
    calls: list[int] = []
    watcher.watch_data("/x", lambda: calls.append(1))
    eventually(lambda: bool(calls), what="called at the start")
    before = watcher.generation
    expire(watcher)
    eventually(lambda: watcher.generation > before and watcher.is_sure(), what="new session")
    calls.clear()
    writer.tree.put("/x", b"1")
    eventually(lambda: bool(calls), what="told in the new session")


def test_a_callback_may_call_zookeeper_and_one_that_fails_stops_nobody(open_session: OpenSession) -> None:
    session = open_session()
    listed: list[list[str]] = []

    def fails() -> None:
        raise RuntimeError("planted")

    session.watch_children("/list", fails)
    session.watch_children("/list", lambda: listed.append(session.tree.children("/list")))
    session.tree.create("/list/a", b"")
    eventually(lambda: listed and listed[-1] == ["a"], what="the second watch told")


def test_certainty_does_not_hang_on_a_callback_that_takes_its_time(open_session: OpenSession) -> None:
    session, entered, goes_on = open_session(), threading.Event(), threading.Event()

    def callback() -> None:
        entered.set()
        goes_on.wait(30)

    session.watch_children("/list", callback)
    assert entered.wait(10)
    lease_ends_ms = session._standing._sure_until_ms
    try:
        eventually(lambda: session._standing._sure_until_ms > lease_ends_ms + 1_000, what="the lease renewed meanwhile")
    finally:
        goes_on.set()


def test_watches_that_share_a_callback_are_one_call(open_session: OpenSession) -> None:
    session = open_session()
    calls: list[int] = []

    def callback() -> None:
        calls.append(1)

    def watch_many() -> None:
        for index in range(50):
            session.watch_data(f"/n/{index}", callback)

    session.watch_children("/start", watch_many)
    eventually(lambda: calls, what="called")
    session.tree.put("/n/7", b"1")
    eventually(lambda: len(calls) == 2, what="called again")


def test_a_burst_of_changes_is_told_in_the_end(open_session: OpenSession) -> None:
    watcher, writer = open_session("watcher"), open_session("writer")
    latest: list[list[str]] = [[]]
    watcher.watch_children("/list", lambda: latest.append(watcher.tree.children("/list")))
    for index in range(200):
        writer.tree.create(f"/list/{index:03d}", b"")
    eventually(lambda: len(latest[-1]) == 200, what="all seen")
