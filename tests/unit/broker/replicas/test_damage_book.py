"""What a broker remembers of damage and repairs."""

from uuid import UUID

import pytest

from headrace.broker.log import BadRange
from headrace.broker.replicas import damage_book
from headrace.broker.replicas.damage_book import DamageBook, Repair

KEY, OTHER = (UUID(int=1), 0), (UUID(int=1), 1)
BAD = BadRange(10, 50, "its CRC fails")


def test_damage_is_new_once_and_is_known_since_then() -> None:
    book = DamageBook()
    assert book.saw(KEY, "events", [BAD], 100) == [BAD]
    assert book.saw(KEY, "events", [BAD], 200) == []
    (one,) = book.damages()
    assert (one.topic, one.partition, one.from_offset, one.to_offset, one.since_ms) == ("events", 0, 10, 50, 100)
    assert book.counts()[:2] == (1, 0)


def test_what_is_left_of_a_range_that_is_half_repaired_is_as_old_as_the_range() -> None:
    book = DamageBook()
    book.saw(KEY, "events", [BAD], 100)
    assert book.saw(KEY, "events", [BAD._replace(from_offset=30)], 200) == []
    assert [one.since_ms for one in book.damages()] == [100]
    book.saw(KEY, "events", [], 300)
    assert book.damages() == []


def test_where_replicas_differ_is_known_until_a_comparison_says_otherwise() -> None:
    book = DamageBook()
    assert book.compared(KEY, "events", 0, 100, [(10, 20)], 100) == [(10, 20)]
    assert book.compared(KEY, "events", 0, 100, [(10, 20)], 200) == []
    assert book.compared(KEY, "events", 100, 200, [], 200) == []
    assert [(one.from_offset, one.since_ms, one.is_undecided) for one in book.damages()] == [(10, 100, True)]
    book.compared(KEY, "events", 0, 100, [], 300)
    assert book.damages() == []


def test_a_replica_that_is_not_kept_any_more_is_forgotten() -> None:
    book = DamageBook()
    book.saw(KEY, "events", [BAD], 100)
    book.compared(OTHER, "events", 0, 100, [(10, 20)], 100)
    assert book.undecided_keys() == [OTHER]
    book.forget(OTHER)
    assert [one.is_undecided for one in book.damages()] == [False]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damage_book, "MOST_RANGES", 3)
    book = DamageBook()
    book.saw(KEY, "events", [BadRange(at, at + 1, "") for at in range(10)], 100)
    assert book.compared(OTHER, "events", 0, 100, [(at, at + 1) for at in range(10)], 100) != []
    assert len(book.damages()) == 3
    assert book.counts().undecided_ranges == 3
    for number in range(damage_book.MOST_REPAIRS + 5):
        book.repaired(Repair("events", 0, number, number + 1, 2, 100))
    assert len(book.repairs) == damage_book.MOST_REPAIRS
    assert book.counts()[2:4] == (damage_book.MOST_REPAIRS + 5, 2 * (damage_book.MOST_REPAIRS + 5))
