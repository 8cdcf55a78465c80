"""Each route of the registry says which right it wants, and a subject belongs to one topic."""

import pytest

from headrace.client.callers import ALTER, DESCRIBE, WRITE
from headrace.runtime.http_access import Refused
from headrace.schema_registry.service.registry import SchemaRegistry
from headrace.schema_registry.service.web.application import table
from headrace.schema_registry.service.web.rights import NEEDS, RegistryLogins, readable, topic_of
from tests.unit.schema_registry.memory_store import MemoryStore


class Known:
    """A caller whose rights are given."""

    name = "ann"

    def __init__(self, *rights: tuple[int, str], cluster: tuple[int, ...] = ()) -> None:
        self.rights = set(rights)
        self.cluster = cluster

    def may(self, operation: int, topic: str) -> bool:
        return (operation, topic) in self.rights

    def may_on_cluster(self, operation: int) -> bool:
        return operation in self.cluster

    def visible(self) -> frozenset[str] | None:
        return None if DESCRIBE in self.cluster else frozenset(topic for _, topic in self.rights)


def allowed(caller: Known, method: str, path: str) -> bool:
    try:
        RegistryLogins(None).check(caller, method, path, b"")  # type: ignore[arg-type]
    except Refused:
        return False
    return True


def test_every_route_says_which_right_it_wants(store: MemoryStore) -> None:
    served = {(method, path) for method, path, _ in table(SchemaRegistry(store), store)}  # type: ignore[arg-type]
    assert served == set(NEEDS) - {("GET", "/metrics")}


@pytest.mark.parametrize(
    ("subject", "topic"),
    [
        ("clicks-value", "clicks"),
        ("clicks-key", "clicks"),
        ("com.shop.Order", "com.shop.Order"),
        ("a-value-value", "a-value"),
        ("-value", None),
        ("a b", None),
        ("..", None),
        ("x" * 300, None),
    ],
)
def test_a_subject_belongs_to_a_topic(subject: str, topic: str | None) -> None:
    assert topic_of(subject) == topic


def test_a_right_on_the_topic_is_one_on_its_subjects_and_no_other() -> None:
    reader, writer, owner = Known((DESCRIBE, "clicks")), Known((WRITE, "clicks")), Known((ALTER, "clicks"))
    nobody, admin = Known(), Known(cluster=(ALTER, DESCRIBE))
    for method, path, who in (
        ("GET", "/subjects/clicks-value/versions/latest", {reader, admin}),
        ("HEAD", "/subjects/clicks-value/versions/", {reader, admin}),
        ("POST", "/compatibility/subjects/clicks-value/versions", {reader, admin}),
        ("POST", "/subjects/clicks-value/versions", {writer, admin}),
        ("DELETE", "/subjects/clicks-value", {owner, admin}),
        ("PUT", "/config/clicks-value", {owner, admin}),
        ("PUT", "/config", {admin}),
        ("DELETE", "/mode", {admin}),
        ("GET", "/subjects/%63licks-value/versions", {reader, admin}),
        ("GET", "/subjects/clicks%2Fvalue/versions", {admin}),
        ("GET", "/subjects/other-value/versions", {admin}),
        ("GET", "/subjects", {reader, writer, owner, nobody, admin}),
    ):
        assert {one for one in (reader, writer, owner, nobody, admin) if allowed(one, method, path)} == who, (method, path)


def test_lists_leave_out_what_a_caller_may_not_see() -> None:
    subjects = ["clicks-value", "orders-value", "a b"]
    assert readable(Known((DESCRIBE, "clicks")), subjects) == ["clicks-value"]
    assert readable(Known(cluster=(DESCRIBE,)), subjects) == subjects
    assert readable(None, subjects) == subjects
