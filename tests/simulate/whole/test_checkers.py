"""Each checker finds the fault that it is named for, in a history with that fault planted; and none in a right one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from .checkers import Final, Wrong, check_files, check_groups, check_records, check_starts
from .ensemble import Act, Transaction
from .history import Acknowledged, Committed, Deletion, Found, History, Owned, Refused, Seen, Sent

OFFSETS = "/consumers/readers/offsets/events/0"


def right() -> tuple[History, dict[int, list[tuple[int, bytes]]]]:
    history = History()
    for number, value in enumerate((b"a", b"b", b"c")):
        history.sent.append(Sent("producer", number, 0, value))
    history.acknowledged += [Acknowledged(0, 0, (b"a",)), Acknowledged(0, -1, (b"b",))]
    history.seen += [Seen("reader", 0, 0, ((0, b"a"), (10, b"b"))), Seen("reader", 0, 20, ((20, b"c"),))]
    return history, {0: [(0, b"a"), (10, b"b"), (20, b"c")]}


def test_a_right_history_is_right() -> None:
    check_records(*right())


def lose(history: History, final: dict[int, list[tuple[int, bytes]]]) -> None:
    history.seen.clear()
    del final[0][1]


def double(history: History, final: dict[int, list[tuple[int, bytes]]]) -> None:
    final[0].append((30, b"a"))


def move(history: History, final: dict[int, list[tuple[int, bytes]]]) -> None:
    history.acknowledged[0] = Acknowledged(0, 10, (b"a",))


def change(history: History, final: dict[int, list[tuple[int, bytes]]]) -> None:
    history.seen[1] = Seen("reader", 0, 20, ((20, b"x"),))


def skip(history: History, final: dict[int, list[tuple[int, bytes]]]) -> None:
    history.seen[0] = Seen("reader", 0, 0, ((0, b"a"),))


def repeat(history: History, final: dict[int, list[tuple[int, bytes]]]) -> None:
    history.seen.append(history.seen[0])


def reorder(history: History, final: dict[int, list[tuple[int, bytes]]]) -> None:
    history.seen.clear()
    history.acknowledged.clear()
    final[0] = [(0, b"b"), (10, b"a")]


def invent(history: History, final: dict[int, list[tuple[int, bytes]]]) -> None:
    final[0].append((30, b"never sent"))


def refuse(history: History, final: dict[int, list[tuple[int, bytes]]]) -> None:
    history.refused.append(Refused("reader", 0, 20, 1, 0))


def bring_back(history: History, final: dict[int, list[tuple[int, bytes]]]) -> None:
    history.returned.append(b"a")


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (lose, "lost-write"),
        (double, "duplicate"),
        (move, "inconsistent-offsets"),
        (change, "inconsistent-offsets"),
        (skip, "poll-skip"),
        (repeat, "nonmonotonic-poll"),
        (reorder, "nonmonotonic-send"),
        (invent, "unexpected"),
        (refuse, "refused"),
        (bring_back, "returned"),
    ],
)
def test_a_planted_fault_is_found(plant: Callable[[History, Final], None], kind: str) -> None:
    history, final = right()
    plant(history, final)
    with pytest.raises(Wrong) as found:
        check_records(history, final)
    assert found.value.kind == kind


def test_what_was_deleted_may_be_gone_and_nothing_else() -> None:
    history, final = right()
    history.refused.append(Refused("reader", 0, 0, 1, 0))
    del final[0][0]
    check_records(history, final, {0: 10})
    history.seen.append(Seen("other reader", 0, 0, ((0, b"x"),)))
    with pytest.raises(Wrong, match="inconsistent-offsets"):
        check_records(history, final, {0: 10})


def test_a_log_that_begins_where_no_deletion_was_asked_for_is_found() -> None:
    history = History()
    history.deletions += [Deletion(0, 10, is_answered=True), Deletion(0, 20, is_answered=False)]
    for start in (10, 20):
        check_starts(history, {0: start}, {0: 100}, None)
    check_starts(history, {0: 60}, {0: 100}, 40)
    with pytest.raises(Wrong, match="deleted-records-return"):
        check_starts(history, {0: 9}, {0: 100}, None)
    with pytest.raises(Wrong, match="lost-write"):
        check_starts(history, {0: 21}, {0: 100}, None)
    with pytest.raises(Wrong, match="lost-write"):
        check_starts(history, {0: 61}, {0: 100}, 40)


def test_a_partition_that_two_members_of_a_generation_own_is_found() -> None:
    history = History()
    history.owned += [Owned("readers", "one", "broker", "a", 3, (0, 1)), Owned("readers", "two", "broker", "a", 4, (1,))]
    check_groups(history, ())
    history.owned.append(Owned("readers", "three", "broker", "a", 4, (1,)))
    with pytest.raises(Wrong, match="owned-twice"):
        check_groups(history, ())


def test_a_committed_offset_that_goes_back_is_found() -> None:
    def writes(*offsets: bytes) -> list[Transaction]:
        return [Transaction(zxid, 0, (Act("write", OFFSETS, offset),)) for zxid, offset in enumerate(offsets)]

    check_groups(History(), writes(b"1", b"5", b"5", b"12"))
    with pytest.raises(Wrong, match="commit-went-back"):
        check_groups(History(), writes(b"1", b"12", b"5"))


def test_a_member_that_is_told_an_old_offset_is_found() -> None:
    history = History()
    history.committed.append(Committed("readers", 0, 7, 100, 200))
    history.found.append(Found("readers", 0, 6, 150, 300))
    check_groups(history, ())  # it was asked before the commit was confirmed
    history.found.append(Found("readers", 0, 6, 201, 300))
    with pytest.raises(Wrong, match="stale-commit"):
        check_groups(history, ())


def test_other_bytes_below_the_watermark_are_found(tmp_path: Path) -> None:
    folders = {number: tmp_path / f"{number}" / "events-0" for number in (1, 2)}
    for number, folder in folders.items():
        folder.mkdir(parents=True)
        (folder / "00000000000000000000.log").write_bytes(b"abcdef")
        (folder / "00000000000000000006.log").write_bytes(b"gh" + b"%d" % number)
    check_files(folders, 8)
    with pytest.raises(Wrong, match=r"different-bytes.*from 8 on"):
        check_files(folders, 9)
    check_files(folders, 9, start_offset=9)
