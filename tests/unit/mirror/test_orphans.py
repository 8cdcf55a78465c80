"""Which copies have no topic in the source any more."""

from typing import NamedTuple

import pytest

from headrace.mirror.topics.naming import Naming, Policy
from headrace.mirror.topics.orphans import EmptySource, orphans


class Topics(NamedTuple):
    names: set[str]

    def topics(self) -> set[str]:
        return self.names


def found(source: set[str], destination: set[str], naming: Naming | None = None, copies: set[str] | None = None) -> list[str]:
    asked: list[str] = []

    def is_copy(topic: str) -> bool:
        asked.append(topic)
        return copies is None or topic in copies

    names = orphans(
        Topics(source), Topics(destination), naming or Naming(), is_copy=is_copy, is_meant=lambda topic: topic != "other"
    )
    assert set(asked).isdisjoint(source), "those that are there are not asked about: there may be thousands"
    return names


def test_copies_that_the_source_does_not_have_are_orphans_and_own_topics_are_not() -> None:
    assert found({"a"}, {"a", "b", "c", "_headrace.mirror.mirror", "other"}) == ["b", "c"]
    assert found({"a"}, {"a", "b", "c"}, copies={"c"}) == ["c"]


def test_a_copy_is_known_under_its_other_name_and_one_that_is_excluded_now_has_its_topic_still() -> None:
    renamed = Naming(renames=["old-(.*)=new-\\1"])
    assert found({"old-a"}, {"new-a", "new-b"}, renamed) == ["new-b"]
    policy = Naming(policy=Policy.DEFAULT, source_alias="live")
    assert found({"a"}, {"live.a", "live.b"}, policy) == ["live.b"]
    assert found({"a", "b"}, {"a", "b", "c"}, Naming("a")) == ["c"]


@pytest.mark.parametrize("source", [set(), {"_headrace.schemas"}])
def test_a_source_without_topics_is_refused(source: set[str]) -> None:
    with pytest.raises(EmptySource, match="check the source"):
        found(source, {"a"})
