"""A connector's settings under Kafka's names."""

import pytest

from headrace.client.consumer.zk_errors import StreamMisused
from headrace.client.streams import ConnectorSettings, ConsumerConnector, GroupConnector
from headrace.client.streams.settings import settings_of


def test_kafkas_names_of_every_age_are_understood() -> None:
    assert settings_of({"autocommit.interval.ms": "250", "autocommit.enable": "false", "group.id": "g"}) == ConnectorSettings(
        auto_commit_interval_ms=250, enable_auto_commit=False
    )
    assert settings_of({"auto.offset.reset": "latest", "queued.max.bytes": 1 << 20}).queue_bytes == 1 << 20


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"auto.comit.interval.ms": 5}, "unknown settings auto.comit.interval.ms"),
        ({"auto.commit.interval.ms": "soon"}, "a whole number"),
        ({"auto.commit.interval.ms": 0}, "auto_commit_interval_ms=0: 10 or more"),
        ({"auto.commit.interval.ms": True}, "a whole number"),
        ({"enable.auto.commit": "maybe"}, "true or false"),
        ({"auto.offset.reset": "middle"}, "smallest or largest"),
        ({"enable.auto.commit": "true", "autocommit.enable": "true"}, "set twice"),
    ],
)
def test_what_cannot_be_is_refused_with_its_name(properties: dict[str, object], told: str) -> None:
    with pytest.raises(StreamMisused, match=told):
        settings_of(properties)


def test_a_connector_of_properties_needs_to_know_where_to_and_as_whom() -> None:
    made = ConsumerConnector.from_properties(
        {"zookeeper.connect": "z:1", "bootstrap.servers": "b:1", "group.id": "g", "consumer.id": "me"}
    )
    assert (made.group, made.consumer_id) == ("g", "me")
    with pytest.raises(StreamMisused, match=r"needs zookeeper\.connect"):
        ConsumerConnector.from_properties({"bootstrap.servers": "b:1", "group.id": "g"})
    with pytest.raises(StreamMisused, match=r"needs bootstrap\.servers"):
        GroupConnector.from_properties({"group.id": "g"})


@pytest.mark.parametrize("counts", [{}, {"t": 0}, {"t": 1_001}])
def test_a_number_of_streams_that_cannot_be_is_refused(counts: dict[str, int]) -> None:
    with pytest.raises(StreamMisused, match="stream"):
        ConsumerConnector("127.0.0.1:1", "127.0.0.1:1", "g").create_message_streams(counts)
