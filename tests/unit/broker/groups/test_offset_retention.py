"""Passes over committed offsets on the loop: in chunks, only for this broker's groups, and always followed by another pass. The
test drives loop, worker and ZooKeeper."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headrace.broker.event_loop.deferred_response import DeferredResponse
from headrace.broker.event_loop.loop import Loop
from headrace.broker.groups import offset_retention
from headrace.broker.groups.group_service import GroupService
from headrace.broker.groups.messages import JoinRequest, Leaver, ProtocolOffer, SyncRequest
from headrace.broker.groups.offset_retention import GROUPS_A_JOB, OffsetRetention
from headrace.broker.groups.subscription import subscription
from headrace.broker.settings.broker_settings import from_words
from headrace.coordination.errors import ConnectionUnsure, UnreadableNode
from headrace.coordination.group_note import Readers
from headrace.coordination.offset_expiry import Swept
from tests.unit.broker.hand_worker import HandWorker

INTERVAL_MS, RETENTION_MS = 600_000, 7 * 86_400_000
NOW_MS = 1_800_000_000_000


class HandLoop(Loop):
    """A loop whose time and calls the test drives."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.posts: list[Callable[[], None]] = []

    def post(self, function: Callable[[], None]) -> None:
        self.posts.append(function)

    def go_on(self, by_ms: int) -> None:
        self.now_ms += by_ms
        for function in self._timers.due(self.now_ms):
            function()


@dataclass
class Store:
    """Groups by name, and the calls for them; each call finishes `each` groups."""

    names: list[str] = field(default_factory=list)
    each: int = 1_000
    seen: list[tuple[dict[str, Readers], str]] = field(default_factory=list)
    fails: Exception | None = None
    offsets: int = 1

    def groups(self) -> Sequence[str]:
        if self.fails is not None:
            raise self.fails
        return self.names

    def expire(self, groups: Mapping[str, Readers], *, now_ms: int, retention_ms: int, after: str = "") -> Swept:
        assert (now_ms, retention_ms) == (NOW_MS, RETENTION_MS)
        if self.fails is not None:
            raise self.fails
        self.seen.append((dict(groups), after))
        names = list(groups)
        rest = names[self.each :]
        return Swept(offsets=self.offsets, groups=names[: self.each], rest=rest, after=f"in {rest[0]}" if rest else "")


class Scene:
    """A retention, with all its surroundings driven by the test."""

    def __init__(self, folder: Path, store: Store, *, brokers: Sequence[int] = (1,)) -> None:
        settings = from_words(data=folder, zookeeper="played", words=["group.initial.rebalance.delay.ms=0"])
        self.loop, self.worker, self.store = HandLoop(), HandWorker(), store
        self.service = GroupService(self.loop, settings, lambda: brokers, lambda group, done, failed: done(False) or True)  # type: ignore[func-returns-value]
        self.retention = OffsetRetention(
            self.loop,
            self.worker,
            self.service,
            store,
            retention_ms=RETENTION_MS,
            interval_ms=INTERVAL_MS,
            now_ms=lambda: NOW_MS,
        )
        self.retention.start()

    def work(self) -> None:
        while self.worker.jobs or self.loop.posts:
            if self.loop.posts:
                self.loop.posts.pop(0)()
            else:
                self.worker.run_one()

    def join(self, group: str, *topics: str, kind: str = "consumer") -> str:
        """Have a stable group of one member; return its id."""
        answers: list[object] = []
        join = JoinRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type=kind,
            offers=[ProtocolOffer("range", subscription(topics) if topics else b"?")],
            asks_for_id_first=False,
        )
        deferred = self.service.join(join, lambda answer: answers.append(answer) or b"")  # type: ignore[func-returns-value]
        assert isinstance(deferred, DeferredResponse)
        joined = answers[0]
        member_id = joined.member_id  # type: ignore[attr-defined]
        self.service.sync(
            SyncRequest(group_id=group, generation=1, member_id=member_id, assignments=[(member_id, b"")]), lambda _: b""
        )
        return str(member_id)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def scene(tmp_path: Path, store: Store) -> Scene:
    return Scene(tmp_path, store)


def test_nothing_is_looked_at_before_an_interval_has_passed_and_then_once_each(scene: Scene, store: Store) -> None:
    store.names = ["a", "b"]
    scene.loop.go_on(INTERVAL_MS - 1)
    assert scene.worker.jobs == []
    for number in (1, 2, 3):
        scene.loop.go_on(INTERVAL_MS)
        scene.work()
        assert [list(groups) for groups, _ in store.seen] == [["a", "b"]] * number
    assert scene.retention.expired_count == 3


def test_groups_go_in_pieces_and_others_jobs_get_in_between(scene: Scene, store: Store) -> None:
    store.names = [f"g{number:04d}" for number in range(3 * GROUPS_A_JOB + 7)]
    scene.loop.go_on(INTERVAL_MS)
    scene.worker.run_one()
    while scene.worker.jobs:
        assert len(scene.worker.jobs) == 1, "never more than one job waits"
        scene.worker.run_one()
    assert [len(groups) for groups, _ in store.seen] == [GROUPS_A_JOB] * 3 + [7]
    assert [name for groups, _ in store.seen for name in groups] == store.names


def test_what_one_call_leaves_is_gone_on_with_where_it_was_left(scene: Scene, store: Store) -> None:
    store.names, store.each = ["a", "b", "c"], 1
    scene.loop.go_on(INTERVAL_MS)
    scene.work()
    assert [(list(groups), after) for groups, after in store.seen] == [
        (["a", "b", "c"], ""),
        (["b", "c"], "in b"),
        (["c"], "in c"),
    ]


def test_a_group_that_lost_its_members_meanwhile_is_told_once(scene: Scene, store: Store) -> None:
    store.names = ["empty", "left"]
    scene.service.leave("left", [Leaver(scene.join("left", "clicks"))])
    for _ in range(2):
        scene.loop.go_on(INTERVAL_MS)
        scene.work()
    ((groups, _), (deferred, _)) = store.seen
    assert groups["left"] == Readers(had_members=True)
    assert deferred["left"] == Readers(), "told once"
    assert groups["empty"] == Readers()


def test_the_topics_of_a_stable_group_are_told_and_those_of_any_other_are_not(scene: Scene) -> None:
    scene.join("reading", "clicks", "orders")
    scene.join("odd")
    scene.join("connect", "clicks", kind="connect")
    readers = {
        name: scene.service.readers(name, had_members=False).as_known() for name in ("reading", "odd", "connect", "nobody")
    }
    assert readers == {
        "reading": Readers(has_members=True, topics=frozenset({"clicks", "orders"})),
        "odd": Readers(has_members=True),
        "connect": Readers(has_members=True),
        "nobody": Readers(),
    }


def test_groups_of_other_brokers_are_theirs_to_look_at(tmp_path: Path) -> None:
    names = [f"g{number:04d}" for number in range(200)]
    looked_at = []
    for brokers in ((1,), (1, 2)):
        scene = Scene(tmp_path, Store(names=list(names)), brokers=brokers)
        scene.loop.go_on(INTERVAL_MS)
        scene.work()
        looked_at.append([name for groups, _ in scene.store.seen for name in groups])
    assert looked_at[0] == names
    assert 50 < len(looked_at[1]) < 150


def test_a_broker_without_groups_of_its_own_ends_its_pass_and_begins_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, Store(names=[f"g{number}" for number in range(3 * GROUPS_A_JOB)]))
    monkeypatch.setattr(scene.service, "is_ours", lambda name: False)
    for _ in range(2):
        scene.loop.go_on(INTERVAL_MS)
        scene.work()
    assert scene.store.seen == []
    monkeypatch.undo()
    scene.loop.go_on(INTERVAL_MS)
    scene.work()
    assert len(scene.store.seen) == 3


@pytest.mark.parametrize("when", ["listing", "expiring"])
def test_without_zookeeper_the_pass_ends_and_the_next_one_comes(scene: Scene, store: Store, when: str) -> None:
    store.names = ["a"]
    scene.loop.go_on(INTERVAL_MS)
    if when == "expiring":
        scene.worker.run_one()
    store.fails = ConnectionUnsure("list", "/consumers", "gone")
    scene.work()
    assert store.seen == []
    store.fails = None
    scene.loop.go_on(INTERVAL_MS)
    scene.work()
    assert len(store.seen) == 1


@pytest.mark.parametrize("jobs_first", [0, 1])
def test_with_too_much_waiting_for_zookeeper_the_pass_is_left_out(scene: Scene, store: Store, jobs_first: int) -> None:
    store.names = ["a"]
    scene.worker.capacity = jobs_first
    scene.loop.go_on(INTERVAL_MS)
    scene.worker.capacity = 0
    scene.work()
    assert store.seen == []
    scene.worker.capacity = 10
    scene.loop.go_on(INTERVAL_MS)
    scene.work()
    assert len(store.seen) == 1


def test_a_crowd_of_members_ends_a_piece_early(scene: Scene, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_retention, "MEMBERS_A_JOB", 2)
    store.names = ["a", "b", "c", "d", "e"]
    some = []
    for name in store.names:
        scene.join(name, "clicks")
    scene.retention._rest = list(reversed(store.names))
    while piece := scene.retention._some_of_ours():
        some.append(list(piece))
    assert some == [["a", "b"], ["c", "d"], ["e"]]


def test_a_groups_own_fault_is_logged_and_the_pass_goes_on(scene: Scene, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, object]] = []
    monkeypatch.setattr(offset_retention.log, "warning", lambda event, **fields: told.append({"event": event, **fields}))
    scene.retention._expired(Swept(faults={"bad": UnreadableNode("/consumers/bad", b"x", "?")}))
    (said,) = told
    assert (said["event"], said["group"]) == ("offsets_not_expired", "bad")
    assert "/consumers/bad" in str(said["why"])
