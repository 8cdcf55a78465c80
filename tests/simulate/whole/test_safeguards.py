"""Safeguards of whole brokers, switched off, are noticed by the search. `make simulate-whole SAFEGUARDS=40` plays all of them."""

import pytest

from .plans import drawn
from .play import failure_of
from .safeguards import SAFEGUARDS, first_noticed

MOST_SEEDS = 40
"""The ones played here are noticed by a third of the runs or more."""


@pytest.mark.parametrize("name", [name for name, one in SAFEGUARDS.items() if one.is_noticed_soon])
def test_the_search_notices_soon_that_a_safeguard_is_off(name: str) -> None:
    found = first_noticed(name, MOST_SEEDS)
    assert found is not None
    seed, _ = found
    assert failure_of(drawn(seed, SAFEGUARDS[name].must)) is None, f"seed {seed} fails with all safeguards, too"
