"""The state's rules, the topic's records, and what happens when two registries write to one topic."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.schema_registry.errors import RegistryError
from headrace.schema_registry.model.compatibility import CompatibilityLevel
from headrace.schema_registry.model.reference import Reference
from headrace.schema_registry.service.group_commit import ATTEMPTS
from headrace.schema_registry.service.records import (
    LevelRecord,
    NotARegistryRecord,
    RegistryRecord,
    SchemaRecord,
    SubjectDeleted,
    VersionRemoved,
    decode,
    encode,
)
from headrace.schema_registry.service.registry import SchemaRegistry
from headrace.schema_registry.service.state import RegistryState
from tests.unit.schema_registry.memory_store import MemoryStore, MemoryTopic

ONE = SchemaRecord(subject="a", version=1, schema_id=1, schema='"int"')
RECORDS: list[RegistryRecord] = [
    ONE,
    SchemaRecord(
        subject="a",
        version=2,
        schema_id=2,
        schema='"x.Y"',
        references=(Reference(name="x.Y", subject="y", version=3),),
        is_deleted=True,
    ),
    VersionRemoved(subject="a", version=1),
    LevelRecord(subject="a", level=CompatibilityLevel.FULL_TRANSITIVE),
    LevelRecord(subject=None, level=CompatibilityLevel.NONE),
    LevelRecord(subject="a", level=None),
    SubjectDeleted(subject="a", version=2),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_comes_back_as_it_was_written(record: RegistryRecord) -> None:
    assert decode(*encode(record)) == record


def test_the_bytes_are_confluent_s() -> None:
    key, value = encode(ONE)
    assert key == b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}'
    assert value == b'{"subject":"a","version":1,"id":1,"schemaType":"AVRO","schema":"\\"int\\"","deleted":false}'


def test_what_says_nothing_is_let_pass_and_what_is_no_record_is_refused() -> None:
    assert decode(b'{"keytype":"NOOP","magic":0}', None) is None
    for key, value in [
        (None, None),
        (b"", b""),
        (b"[]", b"{}"),
        (b"{}", b"{}"),
        (b'{"keytype":"SCHEMA","subject":"a","version":0}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"a","version":1}', b"null"),
        (b'{"keytype":"SCHEMA","subject":"a","version":1}', b'{"id":"x","schema":""}'),
        (b'{"keytype":"CONFIG","subject":null}', b'{"compatibilityLevel":"SIDEWAYS"}'),
    ]:
        with pytest.raises(NotARegistryRecord):
            decode(key, value)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60), st.binary(max_size=60) | st.none())
def test_no_bytes_make_the_reader_fail_otherwise(key: bytes, value: bytes | None) -> None:
    try:
        decode(key, value)
    except NotARegistryRecord:
        pass


def test_an_id_keeps_its_meaning_and_a_version_its_id() -> None:
    state = RegistryState()
    assert state.apply(ONE) is None
    assert state.apply(ONE) is None
    assert "another schema" in str(state.apply(SchemaRecord(subject="b", version=1, schema_id=1, schema='"long"')))
    assert "has id 1 already" in str(state.apply(SchemaRecord(subject="b", version=1, schema_id=2, schema='"int"')))
    assert "version 1 of 'a'" in str(state.apply(SchemaRecord(subject="a", version=1, schema_id=3, schema='"long"')))
    assert state.subjects() == ["a"]


def test_applying_the_topic_twice_gives_the_same_state() -> None:
    once, twice = RegistryState(), RegistryState()
    for state, rounds in ((once, 1), (twice, 2)):
        for _ in range(rounds):
            for record in RECORDS:
                state.apply(record)
    assert once.counts() == twice.counts()
    assert once.versions("a", is_deleted_too=True) == twice.versions("a", is_deleted_too=True)


def test_the_loser_of_a_race_between_two_registries_decides_anew() -> None:
    topic = MemoryTopic()
    first, second = SchemaRegistry(MemoryStore(topic)), SchemaRegistry(MemoryStore(topic))
    other_store = first._store
    assert isinstance(other_store, MemoryStore)
    rounds = iter([lambda: second.register("b", '"long"', [])])

    def be_overtaken() -> None:
        next(rounds, lambda: None)()

    other_store.before_write = be_overtaken
    # Both decide for id 1; the second's record comes first in the topic.
    assert first.register("a", '"int"', []) == 2
    with first.reading() as state:
        assert state.content(1) == ('"long"', (), "AVRO")
        assert state.content(2) == ('"int"', (), "AVRO")


def test_a_registry_that_is_always_overtaken_gives_up_with_50001() -> None:
    topic = MemoryTopic()
    first, second = MemoryStore(topic), SchemaRegistry(MemoryStore(topic))
    names = iter(range(100))
    first.before_write = lambda: second.register("b", f'{{"type":"fixed","name":"F{next(names)}","size":1}}', []) and None
    second.set_level("b", "NONE")
    with pytest.raises(RegistryError, match=f"quicker {ATTEMPTS} times") as caught:
        SchemaRegistry(first).register("a", '"int"', [])
    assert caught.value.error_code == 50001
    assert next(names) == ATTEMPTS
