"""CI's share of the kills: 100 (`make chaos-sdk`: 1,000 more). A file for each transport, so that the two run side by side."""

from collections.abc import Iterator

import pytest

from tests.chaos_sdk import campaign, platform
from tests.chaos_sdk.episode import Episode
from tests.chaos_sdk.platform import Platform

ROUNDS = 100
SEED = campaign.chosen_seed()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with platform.started(tmp_path_factory.mktemp("chaos")) as started:
        yield started


def planned_for(*, has_journal: bool) -> list[campaign.Planned]:
    """Return the episodes of one transport."""
    return [one for one in campaign.plan(ROUNDS, SEED) if one.has_journal == has_journal]


def play(running: Platform, planned: campaign.Planned) -> None:
    """Play an episode; it fails where a claim does not hold."""
    print(f"HEADRACE_CHAOS_SEED={SEED}; this episode: {planned}")
    episode = Episode(running, planned)
    episode.play()
    assert sum(episode.kills.values()) == planned.rounds
