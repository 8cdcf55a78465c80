"""Concurrent changes of registered topics, and watches that name the changed topic; on a real ZooKeeper."""

import threading
from collections.abc import Mapping

from headrace.coordination.errors import VersionConflict
from headrace.coordination.topics import TopicRegistry
from tests.support.processes import eventually

from .conftest import OpenSession


def test_two_changes_of_different_settings_at_the_same_time_both_stand(open_session: OpenSession) -> None:
    one, two = TopicRegistry(open_session("one")), TopicRegistry(open_session("two"))
    one.create("a", {0: [1]}, {"kept": "1"})

    def count_up(registry: TopicRegistry, name: str) -> None:
        def change(config: Mapping[str, str]) -> dict[str, str]:
            return {**config, name: str(int(config.get(name, "0")) + 1)}

        done = 0
        while done < 20:
            try:
                assert registry.change_config("a", change)
            except VersionConflict:  # ten times in a row the other was faster: retriable, and nothing was changed
                continue
            done += 1

    other = threading.Thread(target=count_up, args=(two, "two"))
    other.start()
    count_up(one, "one")
    other.join(20)
    info = one.read("a")
    assert info is not None
    assert info.config == {"kept": "1", "one": "20", "two": "20"}
    assert not one.change_config("nowhere", lambda config: config)


def test_a_watch_of_each_topic_says_which_one_has_changed(open_session: OpenSession) -> None:
    reader, writer = TopicRegistry(open_session("reader")), TopicRegistry(open_session("writer"))
    listed: list[list[str]] = []
    changed: list[str] = []
    for name in ("a", "b"):
        writer.create(name, {0: [1]}, {})
    end = reader.watch_each(lambda: listed.append(reader.list()), changed.append)
    eventually(lambda: set(changed) == {"a", "b"}, what="each told once at the start")
    changed.clear()
    writer.set_config("b", {"retention.ms": "1"})
    eventually(lambda: changed == ["b"], what="the changed one told")
    writer.create("c", {0: [1]}, {})
    eventually(lambda: listed[-1] == ["a", "b", "c"], what="the list told")
    eventually(lambda: "c" in changed, what="the new one is watched")
    writer.delete("a")
    eventually(lambda: listed[-1] == ["b", "c"], what="the list told")
    end()
