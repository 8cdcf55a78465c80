"""A few rounds a day; `make faults` plays fifty. And what the checks are worth: each fault, planted in a history, is found."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess
from tests.support.replica_logs import differences

from .cluster import Cluster
from .growing_check import GrowingCheck, LoggedCheck
from .history import NOT_TOLD, History, faults, faults_of_readers, unseen
from .kinds import KINDS
from .plans import draw
from .rounds import play
from .zookeeper_group import ZooKeeperGroupReading

ROUNDS = int(os.environ.get("ROUNDS", "3"))


def test_nothing_is_lost_while_brokers_are_killed_and_frozen(tmp_path: Path) -> None:
    lines: list[str] = []
    history, wrong = play(tmp_path, seed=20_261_127, rounds=ROUNDS, tell=lines.append, least=100 * ROUNDS)
    assert not wrong, "\n".join([*lines, *wrong])
    assert history.acknowledged


def right() -> History:
    history = History()
    rows = [(0, 70 * number, f"a.0.{number}") for number in range(5)]
    history.acknowledged = {value: (partition, offset) for partition, offset, value in rows}
    history.read, history.read_again = list(rows), list(rows)
    return history


def lost(history: History) -> None:
    del history.read[2], history.read_again[2]


def doubled(history: History) -> None:
    for rows in (history.read, history.read_again):
        rows.append((0, 999, "a.0.4"))


def moved(history: History) -> None:
    history.read_again[3] = (0, 215, "a.0.3")


def replaced(history: History) -> None:
    history.read[3] = (0, 210, "a.0.9")
    history.unknown.add("a.0.9")


def read_back(history: History) -> None:
    history.read.append((0, 70, "a.0.1"))


def out_of_order(history: History) -> None:
    history.read[3:5] = [(0, 210, "a.0.4"), (0, 280, "a.0.3")]


def not_seen(history: History) -> None:
    history.read.pop()


def skipped(history: History) -> None:
    """A group's member goes past a record that another assignment had read."""
    rows = list(history.read)
    history.groups["g"] = [rows[:3], [rows[2], rows[4]], rows[3:]]


def unseen_by_the_group(history: History) -> None:
    history.groups["g"] = [history.read[:4]]


def not_mirrored(history: History) -> None:
    history.mirrored = [row for row in history.read if row[2] != "a.0.2"]


def mirrored_elsewhere(history: History) -> None:
    history.mirrored = [(partition, offset + 7, value) for partition, offset, value in history.read]


def read_back_in_one_assignment(history: History) -> None:
    history.groups["g"] = [[*history.read, history.read[1]]]


def of_nobody(history: History) -> None:
    history.read_again.append((0, 999, "a.0.77"))


@pytest.mark.parametrize(
    ("plant", "word"),
    [
        (lost, "lost-write"),
        (doubled, "duplicate"),
        (moved, "inconsistent-offsets"),
        (replaced, "inconsistent-offsets"),
        (read_back, "nonmonotonic-poll"),
        (out_of_order, "nonmonotonic-send"),
        (not_seen, "unseen"),
        (skipped, "poll-skip"),
        (unseen_by_the_group, "unseen by group g"),
        (not_mirrored, "unseen by the copy: a.0.2"),
        (not_mirrored, "the copy: poll-skip"),
        (mirrored_elsewhere, "inconsistent-offsets"),
        (read_back_in_one_assignment, "nonmonotonic-poll"),
        (of_nobody, "never sent"),
    ],
)
def test_a_planted_fault_is_found(plant: object, word: str) -> None:
    history = right()
    assert faults(history) == []
    assert callable(plant)
    plant(history)
    assert any(word in fault for fault in faults(history)), faults(history)


def grown(history: History, first: int) -> list[str]:
    """Return what the checks of what is new find, if there are `first` rows at the first of them and all at the second."""
    now = History(mirrored=None if history.mirrored is None else [])
    check = GrowingCheck(now)
    values = [*history.acknowledged]
    for count in (first, max(map(len, (values, *(part for parts in history.readers().values() for part in parts))))):
        for value in values[len(now.order) : count]:
            now.acknowledge(value, history.acknowledged[value])
        now.read[:] = history.read[:count]
        now.groups = {name: [rows[:count] for rows in parts] for name, parts in history.groups.items()}
        if now.mirrored is not None:
            now.mirrored[:] = (history.mirrored or [])[:count]
        check.take()
    return [*check.faults, *check.unseen()]


@pytest.mark.parametrize("first", range(6))
@pytest.mark.parametrize(
    "plant",
    [lost, doubled, replaced, read_back, out_of_order, not_seen, skipped, unseen_by_the_group, not_mirrored, mirrored_elsewhere],
)
def test_a_planted_fault_is_found_by_the_checks_of_what_is_new(plant: Callable[[History], None], first: int) -> None:
    history = right()
    assert grown(history, first) == []
    plant(history)
    assert bool(grown(history, first)) == bool([*unseen(history), *faults_of_readers(history)])


def test_what_a_round_has_logged_and_a_copy_has_wrong_is_found_later_too() -> None:
    rows = [(0, 0, "1.0"), (0, 70, "1.1")]
    check = LoggedCheck(rows)
    taken = {1: {"1.0", "1.1"}}
    assert check.faults(taken) == []
    rows.append((0, 140, "2.0"))
    assert check.faults(taken | {2: {"2.0", "2.1"}}) == ["lost-write: 2.1"]
    rows.append((0, 210, "2.1"))
    assert check.faults(taken | {2: {"2.0", "2.1"}}) == []
    rows += [(0, 280, "1.1"), (0, 350, "3.0")]
    assert check.faults(taken) == ["duplicate: 1.1", "never logged: 3.0"]


def test_a_group_may_read_again_what_was_not_committed_and_values_without_an_answer_may_be_there() -> None:
    history = right()
    rows = list(history.read)
    history.groups["g"] = [rows[:3], rows[1:]]
    del history.acknowledged["a.0.4"]
    history.unknown = {"a.0.4", "a.0.5"}
    assert faults(history) == []


def test_a_value_that_was_acknowledged_without_its_offset_may_be_anywhere_but_must_be_there_once() -> None:
    """Fault: librdkafka gives no offset for a duplicate that Apache Kafka has forgotten, and the check ended with a TypeError."""
    history = right()
    history.acknowledged["a.0.3"] = (0, NOT_TOLD)
    assert faults(history) == []
    lost(history)
    history.read.pop(2)
    history.read_again.pop(2)
    assert any("lost-write: a.0.3" in fault for fault in faults(history))


def test_a_member_that_begins_before_what_another_one_has_committed_is_a_fault(tmp_path: Path) -> None:
    group = ZooKeeperGroupReading(WithoutLeader(tmp_path), History())
    for committed, begin in ((70, 70), (140, 210)):
        group.note({0: committed, 1: 0})
        group.begin({0: begin})
    assert group.errors == []
    group.begin({0: 209, 1: 0})
    assert len(group.errors) == 1


def test_a_round_is_determined_by_seed_and_number() -> None:
    names = list(KINDS)
    assert draw(7, 30, names) == draw(7, 30, names)
    assert draw(7, 30, names) != draw(8, 30, names)
    assert [draw(7, number, names).kinds for number in range(1, len(names) + 1)] == [(name,) for name in names]
    assert {len(draw(7, number, names).kinds) for number in range(len(names) + 1, 200)} == {1, 2}
    one, same = draw(7, 30, names).chance(0), draw(7, 30, names).chance(0)
    assert one.random() == same.random()
    assert draw(7, 30, names).chance(1).random() != draw(7, 30, names).chance(0).random()


class WithoutLeader(Cluster):
    """No broker lives; kills are noted."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.brokers = {one: BrokerProcess(folder / str(one), "", broker_id=one) for one in (1, 2, 3)}
        self.killed: list[int] = []

    def leader(self, partition: int = 0, within_ms: int = 60_000) -> int:
        raise AssertionError("no leader")

    def kill(self, broker_id: int) -> None:
        self.killed.append(broker_id)


def test_a_fault_hits_a_drawn_broker_where_an_earlier_one_left_no_leader(tmp_path: Path) -> None:
    """Fault: round 51 of seed 101 killed all brokers, and then ended because none led."""
    cluster = WithoutLeader(tmp_path)
    KINDS["kill_leader"].begin(cluster, random.Random(1))
    assert len(cluster.killed) == 1
    assert cluster.killed[0] in cluster.brokers


def test_a_byte_that_differs_below_the_end_is_found() -> None:
    one = {0: b"abcd", 4: b"efgh"}
    assert differences({1: one, 2: {0: b"abcdefgh"}, 3: {4: b"efgh"}}, 8) == []
    assert differences({1: one, 2: {0: b"abcdefxx"}}, 6) == []
    assert differences({1: one, 2: {0: b"abcXefgh"}}, 8) == ["brokers 1 and 2 differ at offset 3 of 8"]
    assert differences({1: one, 2: {0: b"abcd"}}, 8) == ["brokers 1 and 2 differ at offset 4 of 8"]
