"""When a replica needs no tick: `broker/replicas/rest.py`."""

from headrace.broker.replicas.rest import CALM_TICKS, Rest


def at_rest() -> Rest:
    rest = Rest()
    for _ in range(CALM_TICKS + 1):
        assert not rest.is_on
        rest.after_tick("the same")
    assert rest.is_on
    return rest


def test_a_replica_that_shows_the_same_for_some_ticks_is_at_rest() -> None:
    at_rest()


def test_a_change_or_something_under_way_ends_it_for_as_many_ticks() -> None:
    for facts in ("another", None):
        rest = at_rest()
        rest.after_tick(facts)
        assert not rest.is_on
        for _ in range(CALM_TICKS):
            rest.after_tick("the same")
        assert not rest.is_on
        rest.after_tick("the same")
        assert rest.is_on


def test_an_event_brings_one_tick_and_a_replica_that_then_shows_the_same_rests_on() -> None:
    rest = at_rest()
    rest.end()
    assert not rest.is_on
    rest.after_tick("the same")
    assert rest.is_on
