"""Applications that send for themselves, and brokers, killed at random."""

import pytest

from tests.chaos_sdk import ci_share
from tests.chaos_sdk.campaign import Planned
from tests.chaos_sdk.ci_share import running as running
from tests.chaos_sdk.platform import Platform


@pytest.mark.situation(
    "producers",
    "an application that sends for itself is killed at random",
    shown="UNKNOWN in the windows that it held",
    when="its deadline",
    do="`retire-producer`, or a rule `[[retire]]`",
)
@pytest.mark.parametrize("planned", ci_share.planned_for(has_journal=False))
def test_what_was_taken_is_there_once_or_lost_by_name_whatever_is_killed(running: Platform, planned: Planned) -> None:
    ci_share.play(running, planned)
