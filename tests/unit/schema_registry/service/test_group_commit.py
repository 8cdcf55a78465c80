"""Registrations that wait together are written together: one append for many, one id a schema, each error its own thread's."""

import threading

import pytest

from headrace.schema_registry.errors import IncompatibleSchema, RegistryError
from headrace.schema_registry.service import refusals
from headrace.schema_registry.service.registry import SchemaRegistry
from tests.unit.schema_registry.memory_store import MemoryStore

WRITERS = 12


class SlowStore(MemoryStore):
    """The first catching up waits until every writer is in the queue; counts appends."""

    def __init__(self) -> None:
        super().__init__()
        self.appends: list[int] = []
        self.all_wait = threading.Event()

    def catch_up(self) -> None:
        self.all_wait.wait(20)
        super().catch_up()

    def write(self, records, epoch=None, /):  # type: ignore[no-untyped-def]
        self.appends.append(len(records))
        return super().write(records, epoch)


def at_once(registry: SchemaRegistry, store: SlowStore, asked: list[tuple[str, str]]) -> list[int | RegistryError]:
    """Register subject and text of each on a thread of its own; let go once all of them wait."""
    answers: list[int | RegistryError] = [0] * len(asked)

    def register(number: int) -> None:
        try:
            answers[number] = registry.register(*asked[number], [])
        except RegistryError as error:
            answers[number] = error

    threads = [threading.Thread(target=register, args=(number,)) for number in range(len(asked))]
    for thread in threads:
        thread.start()
    writes = registry._writes
    deadline = threading.Event()
    while len(writes._queue) + 1 < len(asked):
        deadline.wait(0.005)
    store.all_wait.set()
    for thread in threads:
        thread.join(20)
    return answers


def test_those_that_wait_share_one_append_and_no_id_is_given_twice() -> None:
    store = SlowStore()
    registry = SchemaRegistry(store)
    answers = at_once(registry, store, [(f"s{n}", f'{{"type":"enum","name":"E","symbols":["A{n}"]}}') for n in range(WRITERS)])
    assert sorted(answers) == list(range(1, WRITERS + 1))  # type: ignore[type-var]
    assert sum(store.appends) == WRITERS
    assert len(store.appends) == 2
    for number, schema_id in enumerate(answers):
        assert isinstance(schema_id, int)
        content = store.state.content(schema_id)
        assert content is not None
        assert f"A{number}" in content[0]


def test_one_schema_under_many_subjects_at_once_has_one_id() -> None:
    store = SlowStore()
    answers = at_once(SchemaRegistry(store), store, [(f"s{n}", '"int"') for n in range(WRITERS)])
    assert answers == [1] * WRITERS
    assert [len(store.state.versions(f"s{n}")) for n in range(WRITERS)] == [1] * WRITERS


def test_versions_of_one_subject_follow_each_other_and_an_incompatible_one_fails_alone() -> None:
    store = SlowStore()
    asked = [("a", '"int"'), ("a", '"string"'), ("b", '"int"'), ("a", '"long"')]
    answers = at_once(SchemaRegistry(store), store, asked)
    failed = [answer for answer in answers if isinstance(answer, IncompatibleSchema)]
    assert failed
    assert not isinstance(answers[2], RegistryError)
    given = {schema_id for schema_id in answers if isinstance(schema_id, int)}
    assert {store.state.content(schema_id) is not None for schema_id in given} == {True}
    assert [one.version for one in store.state.versions("a")] == list(range(1, 1 + len(store.state.versions("a"))))


def test_a_topic_that_fails_fails_all_that_waited_and_none_later() -> None:
    store = SlowStore()
    registry = SchemaRegistry(store)
    store.failure = refusals.store_failed("away")
    answers = at_once(registry, store, [(f"s{n}", '"int"') for n in range(4)])
    assert all(isinstance(answer, RegistryError) and answer.error_code == 50001 for answer in answers)
    store.failure = None
    assert registry.register("s", '"int"', []) == 1


def test_a_write_that_waits_too_long_is_withdrawn() -> None:
    store = SlowStore()
    registry = SchemaRegistry(store, write_wait_ms=50)
    first = threading.Thread(target=registry.register, args=("a", '"int"', []))
    first.start()
    while not registry._writes._committing.locked():
        threading.Event().wait(0.005)
    with pytest.raises(RegistryError, match="nothing was changed, try again"):
        registry.register("b", '"string"', [])
    store.all_wait.set()
    first.join(20)
    assert registry.register("c", '"int"', []) == 1
    assert store.state.versions("b") == []
