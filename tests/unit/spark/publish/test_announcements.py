"""What schedulers are told: each revision of each published hour, bounded, oldest first, and never less than was published."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from headrace.spark.publish.announcements import announce_again, hours_to_announce, missing, of_text, set_announced, to_text
from tests.support.stored_table import Stored

HOURS = st.dictionaries(st.integers(0, 3_000_000), st.integers(1, 4), max_size=60)


@given(HOURS)
def test_what_was_announced_survives_its_text(revisions: dict[int, int]) -> None:
    assert of_text(to_text(revisions)) == revisions


def test_years_of_hours_are_a_short_text() -> None:
    revisions = dict.fromkeys(range(400_000, 420_000), 1) | {410_000: 2}
    assert len(to_text(revisions)) < 200
    assert of_text(to_text(revisions)) == revisions


@given(HOURS, HOURS)
def test_what_is_missing_and_what_was_announced_is_all_that_is_published(published: dict[int, int], had: dict[int, int]) -> None:
    found = missing(published, had)
    assert {**had, **found} | published == {**had, **found}
    assert not set(found.items()) & set(had.items())


def test_a_new_revision_is_missing_again() -> None:
    assert missing({7: 2, 8: 1}, {7: 1, 8: 1}) == {7: 2}


def test_many_hours_are_announced_oldest_first_over_several_runs() -> None:
    published, had = dict.fromkeys(range(5), 1), dict[int, int]()
    for expected in ([0, 1], [2, 3], [4], []):
        found = missing(published, had, most=2)
        assert list(found) == expected
        had |= found


def test_published_hours_are_announced_until_it_is_stored_that_they_were(tmp_path: Path) -> None:
    """Fault: a kill between the publish and its announcement leaves an hour of which no DAG ever hears."""
    stored = Stored(tmp_path, "clicks")
    assert hours_to_announce(stored.warehouse, "clicks") == {}
    stored.load(0, 2)
    stored.load(2, 2)
    stored.publish()
    told = hours_to_announce(stored.warehouse, "clicks")
    assert told == {"1970-01-01T00": 1, "1970-01-01T01": 1, "1970-01-01T02": 1}, "an hour that is proven empty is one of them"
    assert hours_to_announce(stored.warehouse, "clicks") == told
    set_announced(stored.warehouse, "clicks", told)
    assert hours_to_announce(stored.warehouse, "clicks") == {}
    stored.load(0, 1)
    assert hours_to_announce(stored.warehouse, "clicks") == {}, "loaded and not published"
    stored.publish()
    assert hours_to_announce(stored.warehouse, "clicks") == {"1970-01-01T00": 2}


def test_an_hour_that_was_withdrawn_is_announced_when_it_is_published_again(tmp_path: Path) -> None:
    stored = Stored(tmp_path, "clicks")
    stored.load(0, 2)
    stored.publish()
    set_announced(stored.warehouse, "clicks", hours_to_announce(stored.warehouse, "clicks"))
    stored.audit.altered = {0: 1}
    assert stored.publish().withdrawn
    assert hours_to_announce(stored.warehouse, "clicks") == {}
    stored.audit.altered = {}
    stored.publish()
    assert hours_to_announce(stored.warehouse, "clicks") == {"1970-01-01T00": 3}


def test_hours_are_announced_again_when_somebody_asks(tmp_path: Path) -> None:
    """A DAG that is added after the load has none of the hours that were announced before."""
    stored = Stored(tmp_path, "clicks")
    stored.load(0, 2)
    stored.load(2, 2)
    stored.publish()
    assert announce_again(stored.warehouse, "clicks") == [], "none was announced"
    set_announced(stored.warehouse, "clicks", hours_to_announce(stored.warehouse, "clicks"))
    assert announce_again(stored.warehouse, "clicks", first=1, last=1) == ["1970-01-01T01"]
    assert hours_to_announce(stored.warehouse, "clicks") == {"1970-01-01T01": 1}
    assert announce_again(stored.warehouse, "clicks", last=0) == ["1970-01-01T00"]
    assert announce_again(stored.warehouse, "clicks") == ["1970-01-01T02"]
    assert len(hours_to_announce(stored.warehouse, "clicks")) == 3
