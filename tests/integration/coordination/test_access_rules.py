"""Access rules of two brokers that change them at the same time, and what cannot be kept or read; on a real ZooKeeper."""

import threading

import pytest

from headrace.coordination import paths
from headrace.coordination.access_rules import AccessRules
from headrace.coordination.errors import UnreadableNode, ValueTooLarge, VersionConflict
from tests.support.processes import eventually

from .conftest import OpenSession


def test_rules_that_two_brokers_add_at_the_same_time_are_all_kept(open_session: OpenSession) -> None:
    one, two = AccessRules(open_session("one")), AccessRules(open_session("two"))
    assert one.read() == []

    def add(rules: AccessRules, name: str) -> None:
        wanted = [[name, str(number)] for number in range(20)]
        while wanted:
            try:
                rules.change(lambda rows: [*rows, wanted[0]])
            except VersionConflict:  # ten times in a row the other was faster: nothing was changed
                continue
            del wanted[0]

    other = threading.Thread(target=add, args=(two, "two"))
    other.start()
    add(one, "one")
    other.join(20)
    assert sorted(map(tuple, one.read())) == sorted((name, str(number)) for name in ("one", "two") for number in range(20))


def test_a_change_is_told_to_those_who_watch(open_session: OpenSession) -> None:
    reader, writer = AccessRules(open_session("reader")), AccessRules(open_session("writer"))
    seen: list[object] = []
    end = reader.watch(lambda: seen.append(reader.read()))
    eventually(lambda: seen == [[]], what="the first call")
    writer.change(lambda rows: [["a"]])
    eventually(lambda: [["a"]] in seen, what="the change is told")
    end()


def test_too_many_rules_change_nothing(open_session: OpenSession) -> None:
    rules = AccessRules(open_session("one"))
    rules.change(lambda rows: [["kept"]])
    with pytest.raises(ValueTooLarge):
        rules.change(lambda rows: [["x" * 100] for _ in range(10_000)])
    assert rules.read() == [["kept"]]


@pytest.mark.parametrize("data", [b"", b"{}", b'{"version":2,"rules":[]}', b'{"version":1,"rules":["a"]}'])
def test_a_node_of_another_kind_is_not_taken_for_no_rules(open_session: OpenSession, data: bytes) -> None:
    session = open_session("one")
    session.tree.create(paths.ACCESS_RULES, data)
    with pytest.raises(UnreadableNode):
        AccessRules(session).read()
