"""The drills that a user has: each plants a fault in a topic of its own and holds only if the audit tells it exactly, in time."""

import json
from typing import Any

import pytest

from tests.support.platform import Platform


def drill(platform: Platform, name: str) -> dict[str, Any]:
    """Run the drill; return what it printed as JSON."""
    said: dict[str, Any] = json.loads(platform.headrace("audit", "drill", name, "--json", exit_code=None))
    return said


def test_a_record_lost_is_told_with_its_offset_and_its_tier_and_nothing_of_the_drill_stays(platform: Platform) -> None:
    """`double`, `alter` and `swap` run in `make audit-faults`."""
    said = drill(platform, "loss")
    assert said["held"], said
    assert said["told_after_s"] is not None
    assert said["verdict"] == "INCOMPLETE"
    assert platform.report_topics() & {said["topic"]} == set()
    for bootstrap in (platform.layout.live_bootstrap, platform.layout.offline_bootstrap):
        assert said["topic"] not in platform.topics(bootstrap)
    assert not (platform.layout.warehouse / "tables" / said["topic"]).exists()


@pytest.mark.situation(
    "producers",
    "a reporter is frozen",
    shown="UNKNOWN, `silent` names it",
    when="its deadline (20 s)",
    do="let it run, or end it and retire it",
)
def test_a_silent_producer_is_named_within_its_deadline_and_its_seal_is_accepted(platform: Platform) -> None:
    said = drill(platform, "silence")
    assert said["held"], said
    assert (said["verdict_while_silent"], said["verdict_after"]) == ("UNKNOWN", "COMPLETE")
    assert said["topic"] not in platform.report_topics()
