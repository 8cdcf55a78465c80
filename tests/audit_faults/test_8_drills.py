"""The drills that `tests/e2e/test_4_drills.py` leaves out; `loss` and `silence` run there, with Airflow beside them."""

import json

import pytest

from tests.support.platform import Platform

from .topics import TOLD

VERDICTS = {
    "double": "DOUBLED",
    "alter": "ALTERED",
    "swap": "INCOMPLETE",
    "table": "COMPLETE",  # its row `main` is INCOMPLETE
    "topic": "UNKNOWN",
    "quarantine": "UNKNOWN",
    "memory": None,  # it tells two
}


@pytest.mark.parametrize(("name", "verdict"), VERDICTS.items(), ids=VERDICTS)
def test_a_planted_fault_is_told_with_its_records_and_its_tier_and_nothing_of_it_stays(
    platform: Platform, name: str, verdict: str | None
) -> None:
    told = platform.headrace("audit", "drill", name, "--json", exit_code=None)
    assert told, platform.said[-1]
    said = json.loads(told)
    assert said["held"], said
    assert said.get("verdict") == verdict
    TOLD[f"drill {name}"] = said["told_after_s"]
    assert said["topic"] not in platform.report_topics()
    for bootstrap in (platform.layout.live_bootstrap, platform.layout.offline_bootstrap):
        assert said["topic"] not in platform.topics(bootstrap)
