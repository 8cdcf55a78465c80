"""What a group of many members and partitions costs ZooKeeper: counted in requests, on a real server."""

import threading
import time
from collections import Counter
from functools import partial

import pytest
from kazoo.client import KazooClient

from headrace.coordination import paths
from headrace.coordination.consumers import ConsumerRegistry, OwnerRegistry
from headrace.coordination.operations import Create, Delete
from headrace.coordination.values import json_bytes
from tests.support.processes import eventually

from .conftest import OpenSession

REST_MS = 500
FIFTY = [("t", partition) for partition in range(50)]


@pytest.fixture
def open_session(open_session: OpenSession) -> OpenSession:
    """Sessions that outlive a machine without time for them: no test here is about a session that expires."""
    return partial(open_session, session_timeout_ms=30_000)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many requests of each kind all clients of this process send, but for the probes of their sessions."""
    counts, send = Counter[str](), KazooClient._call

    def counted(client: KazooClient, request: object, answer: object) -> object:
        kind = type(request).__name__
        if kind != "Exists":
            counts[kind] += 1
        return send(client, request, answer)

    monkeypatch.setattr(KazooClient, "_call", counted)
    return counts


def test_free_partitions_are_claimed_with_one_request_and_given_back_with_one_where_they_are_surely_its_own(
    open_session: OpenSession, sent: Counter[str]
) -> None:
    session = open_session()
    owners = OwnerRegistry(session)
    owners.claim("g", "t", 99, "c-1")  # the parents are there
    sent.clear()
    assert owners.claim_many("g", FIFTY, "c-1") == set(FIFTY)
    assert sent == {"Transaction": 1}
    sent.clear()
    assert owners.release_many("g", FIFTY, claimed_in=session.generation) == set(FIFTY)
    assert sent == {"Transaction": 1}
    assert owners.claim_many("g", FIFTY, "c-1") == set(FIFTY)
    sent.clear()
    assert owners.release_many("g", FIFTY) == set(FIFTY)
    assert sent == {"GetData": 50, "Delete": 50}
    assert owners.release_many("g", FIFTY) == set()
    assert owners.owners("g", "t") == {99: "c-1"}


def test_what_another_owns_is_watched_until_it_is_free_and_the_rest_is_claimed(
    open_session: OpenSession, sent: Counter[str]
) -> None:
    one, two, freed = OwnerRegistry(open_session("one")), OwnerRegistry(open_session("two")), threading.Event()
    held = set(FIFTY[:5])
    assert one.claim_many("g", held, "c-1") == held
    sent.clear()
    assert two.claim_many("g", FIFTY, "c-2", lambda _: freed.set()) == set(FIFTY) - held
    assert sent["GetData"] == 5, "one look at each that is held, which watches it"
    assert two.claim_many("g", FIFTY, "c-2") == set(FIFTY) - held, "its own claims again"
    assert not freed.is_set()
    assert one.release_many("g", FIFTY) == held, "only its own"
    assert freed.wait(20)
    assert two.claim_many("g", held, "c-2") == held


def test_claims_of_a_session_that_ends_are_told_as_free(open_session: OpenSession) -> None:
    dying, two, freed = open_session("dying"), OwnerRegistry(open_session("two")), threading.Event()
    OwnerRegistry(dying).claim_many("g", FIFTY, "c-1")
    assert two.claim_many("g", FIFTY, "c-2", lambda _: freed.set()) == set()
    dying.close()
    assert freed.wait(20)
    eventually(lambda: two.claim_many("g", FIFTY, "c-2") == set(FIFTY), what="taken over")


def test_of_a_hundred_members_only_new_ones_are_read_and_one_that_was_replaced_is_noticed(
    open_session: OpenSession, sent: Counter[str]
) -> None:
    session = open_session()
    registry, tree = ConsumerRegistry(session), session.tree
    tree.create_many({paths.consumer("g", f"c-{number:02d}"): json_bytes({"subscription": {"t": 1}}) for number in range(99)})
    sent.clear()
    roll = registry.roll("g")
    assert (len(roll.members), sent) == (99, {"GetChildren2": 1, "GetData": 99})
    tree.create(paths.consumer("g", "new"), json_bytes({"subscription": {"u": 2}}))
    sent.clear()
    roll = registry.roll("g", roll)
    assert (roll.members["new"], sent) == ({"u": 2}, {"GetChildren2": 1, "GetData": 1})
    sent.clear()
    assert registry.roll("g", roll) == roll
    assert sent == {"GetChildren2": 1}
    replaced = paths.consumer("g", "c-07")
    assert (
        tree.transact([Delete(path=replaced, version=0), Create(path=replaced, data=json_bytes({"subscription": {"u": 3}}))])
        is None
    )
    assert registry.roll("g", roll).members["c-07"] == {"u": 3}, "the list's names are the same: another process took the id over"


def test_a_hundred_changes_of_a_list_that_may_gather_are_a_few_calls_and_the_last_is_told(open_session: OpenSession) -> None:
    writer, watcher, seen = open_session("writer"), open_session("watcher"), list[int]()
    registry = ConsumerRegistry(watcher)
    registry.watch("g", lambda: seen.append(len(registry.members("g"))), rest_ms=lambda: REST_MS)
    eventually(lambda: seen == [0], what="called at the start")
    began = time.monotonic()
    for number in range(100):
        writer.tree.create(paths.consumer("g", f"c-{number:02d}"), json_bytes({"subscription": {"t": 1}}))
    eventually(lambda: seen[-1] == 100, what="all told")
    rests = (time.monotonic() - began) * 1000 // REST_MS + 1
    assert 2 <= len(seen) <= 1 + rests, "one at the start, one after each rest"
