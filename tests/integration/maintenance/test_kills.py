"""A small sample of `make kill-compactions`."""

from .rounds import search


def test_killed_compactions_retentions_and_clean_ups_lose_and_double_nothing() -> None:
    states = search(6, 4)
    assert sum(states.values()) == 6
    assert any("killed by" in state for state in states), states
