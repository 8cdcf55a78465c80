"""The session's thread looks only at watches that have fired, however many there are. Its tree is played."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import pytest

from headrace.coordination.errors import ConnectionUnsure
from headrace.coordination.session import Session
from headrace.coordination.tree import Tree


class PlayedTree:
    """Keeps what is armed; `fails` makes the next arming fail."""

    def __init__(self) -> None:
        self.armed: dict[str, list[Callable[[object], None]]] = {}
        self.looks = 0
        self.fails = False

    def watch(self, path: str, kind: str, fired: Callable[[object], None]) -> None:
        self.watch_data_many({path: [fired]})

    def watch_data_many(self, watches: Mapping[str, Iterable[Callable[[object], None]]]) -> None:
        if self.fails:
            self.fails = False
            raise ConnectionUnsure("watch", "/t", "cut")
        for path, fired in watches.items():
            self.looks += 1
            self.armed.setdefault(path, []).extend(fired)

    def fire(self, path: str) -> None:
        for fired in self.armed.pop(path, ()):
            fired(None)


def session_with(count: int) -> tuple[Session, PlayedTree, list[int]]:
    session, tree, calls = Session("nowhere:1", name="test"), PlayedTree(), list[int]()
    session._tree = cast(Tree, tree)
    for number in range(count):
        session.watch_data(f"/t{number}", lambda number=number: calls.append(number))  # type: ignore[misc]  # no type is found
    return session, tree, calls


@pytest.mark.parametrize("count", [20, 40])
def test_a_turn_looks_only_at_watches_that_fired(count: int) -> None:
    session, tree, calls = session_with(count)
    session._run_watches()
    assert (sorted(calls), tree.looks) == (list(range(count)), count)
    calls.clear()
    session._run_watches()
    assert (calls, tree.looks, len(session._due)) == ([], count, 0)
    tree.fire("/t7")
    session._run_watches()
    assert (calls, tree.looks, len(session._due)) == ([7], count + 1, 0)


def test_what_could_not_be_armed_or_called_is_made_up_for() -> None:
    session, tree, calls = session_with(3)
    tree.fails = True
    session._run_watches()
    assert calls == []
    session._run_watches()
    assert sorted(calls) == [0, 1, 2]
    fails = [True]

    def callback() -> None:
        if fails.pop():
            raise ConnectionUnsure("read", "/late", "cut")
        calls.append(9)

    fails[:] = [False, True]
    session.watch_data("/late", callback)
    session._run_watches()
    session._run_watches()
    assert calls[-1] == 9


def test_an_ended_watch_is_forgotten() -> None:
    session, tree, calls = session_with(0)
    end = session.watch_children("/list", lambda: calls.append(1))
    session._run_watches()
    end()
    tree.fire("/list")
    session._run_watches()
    assert (calls, len(session._due)) == ([1], 0)


def test_a_watch_that_rests_is_called_later() -> None:
    session, tree, calls = session_with(0)
    session.watch_children("/list", lambda: calls.append(1), rest_ms=lambda: 60_000)
    session._run_watches()
    tree.fire("/list")
    until_ms: Any = session._run_watches()
    assert until_ms > 0
    assert (calls, len(session._due)) == ([1], 1)
