"""A drill holds only if every claim was made and holds; and no drill takes a topic that was there before."""

import pytest

from headrace.cli import main
from headrace.local.drills.drill import DrillResult


def test_a_drill_without_claims_or_with_a_false_one_does_not_hold() -> None:
    result = DrillResult("loss", "drill_loss_1")
    assert not result.held
    result.claim("the audit tells it", True, "nothing")
    assert result.held
    with result.step("waiting", lambda line: None):
        pass
    result.claim("nothing is left", False, "a table")
    assert not result.held
    assert result.in_words().splitlines() == [
        "    held  the audit tells it",
        "  FAILED  nothing is left: a table",
        "drill loss on drill_loss_1: FAILED, 0.0 s",
    ]
    assert result.as_json()["claims"][1] == {"claim": "nothing is left", "held": False, "seen": "a table"}


def test_a_drill_refuses_a_topic_of_somebody_s(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["audit", "drill", "loss", "--topic", "access_log"]) == 2
    assert "it makes one of its own. Leave out --topic access_log" in capsys.readouterr().err
