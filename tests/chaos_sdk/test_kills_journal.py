"""Applications with journals, their agent, and brokers, killed at random."""

import pytest

from tests.chaos_sdk import ci_share
from tests.chaos_sdk.campaign import Planned
from tests.chaos_sdk.ci_share import running as running
from tests.chaos_sdk.platform import Platform


@pytest.mark.situation("agent and journals", "the agent, its applications and the broker are killed at random")
@pytest.mark.parametrize("planned", ci_share.planned_for(has_journal=True))
def test_what_was_taken_is_there_once_or_lost_by_name_whatever_is_killed(running: Platform, planned: Planned) -> None:
    ci_share.play(running, planned)
