"""A logger asks whether its topic keeps the events' times, and starts where nobody tells."""

from typing import Any

import pytest

from headrace.client.errors import BrokerError, BrokerUnreachable, UnknownTopic, UnsupportedApi
from headrace.client.topic_admin import TopicSettingInForce
from headrace.sdk import TopicRefused
from headrace.sdk.direct import topic_times
from tests.support.scripted_broker import ScriptedBroker
from tests.unit.sdk.logged import Make, direct, events_of, reports_of

NAME = "message.timestamp.type"


class Settings:
    """Answers as `topic_settings`, and counts how often it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked = 0

    def __call__(self, cluster: object, topic: str) -> list[TopicSettingInForce]:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return [TopicSettingInForce(name=NAME, value=value, source=source) for value, source in self.answer]


@pytest.mark.parametrize(("source", "whose"), [("topic", "its own setting"), ("broker", "its broker's default")])
def test_a_topic_with_append_time_is_refused_before_the_audit_hears_of_the_logger(
    broker: ScriptedBroker, make: Make, monkeypatch: pytest.MonkeyPatch, source: str, whose: str
) -> None:
    """Names a fault: the broker rewrites time and CRC, so that every window looked ALTERED or INCOMPLETE."""
    monkeypatch.setattr(topic_times, "topic_settings", Settings([("LogAppendTime", source)]))
    with pytest.raises(TopicRefused, match=f"LogAppendTime \\({whose}\\).* --set message.timestamp.type=CreateTime"):
        make()
    assert reports_of(broker) == []


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        ([("CreateTime", "topic")], 1),
        ([], 1),
        (UnknownTopic("clicks", "127.0.0.1:1"), 1),
        (BrokerError("DescribeConfigs of 'clicks'", 29), 1),
        (BrokerUnreachable("127.0.0.1:1", "DescribeConfigs", "it hangs up", was_sent=True), 3),
    ],
)
def test_a_logger_starts_where_the_times_are_kept_and_where_no_broker_tells(
    broker: ScriptedBroker, make: Make, monkeypatch: pytest.MonkeyPatch, answer: Any, asked: int
) -> None:
    settings = Settings(answer)
    monkeypatch.setattr(topic_times, "topic_settings", settings)
    with make(lateness_ms=None) as logger:
        assert logger.log({"page": "/"})
    assert settings.asked == asked
    assert len(events_of(broker)) == 1


def test_a_broker_without_the_request_is_no_obstacle(broker: ScriptedBroker, make: Make) -> None:
    with make(lateness_ms=None) as logger:
        with pytest.raises(UnsupportedApi):
            topic_times.check(direct(logger)._cluster, "clicks")
        assert logger.log({"page": "/"})
    assert len(events_of(broker)) == 1
