"""Each safeguard of the replication machine, switched off, is noticed by its trace and by the random search.

The list of what the search cannot notice is part of the test: it may not grow unseen.
"""

import pytest

from .actions import drawn, failure_of
from .safeguards import SAFEGUARDS
from .traces import TRACES

MOST_SEEDS = 1_500
SEARCHED = [name for name, one in SAFEGUARDS.items() if not one.unseen_by_search]


@pytest.mark.parametrize("name", SAFEGUARDS)
def test_a_trace_catches_what_a_missing_safeguard_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = SAFEGUARDS[name]
    TRACES[one.trace]()
    for place, attribute, stand_in in one.off:
        monkeypatch.setattr(place, attribute, stand_in)
    with pytest.raises(AssertionError):
        TRACES[one.trace]()


@pytest.mark.parametrize("name", SEARCHED)
def test_the_search_finds_what_a_missing_safeguard_does(name: str) -> None:
    one = SAFEGUARDS[name]
    with pytest.MonkeyPatch.context() as patch:
        for place, attribute, stand_in in one.off:
            patch.setattr(place, attribute, stand_in)
        found = next((seed for seed in range(MOST_SEEDS) if failure_of(drawn(seed, one.faults)) is not None), None)
    assert found is not None
    assert failure_of(drawn(found, one.faults)) is None, f"seed {found} fails with all safeguards, too"


def test_the_search_is_blind_to_these_alone() -> None:
    assert len(SAFEGUARDS) - len(SEARCHED) == 7
