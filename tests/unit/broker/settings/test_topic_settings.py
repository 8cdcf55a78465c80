"""A topic's name and settings: which are accepted, which are refused, and the source of each value."""

import pytest

from headrace.broker.settings.broker_settings import topic_settings
from headrace.broker.settings.topic_settings import ConfigSource
from headrace.wire import topic_name


@pytest.mark.parametrize("name", ["clicks", "_headrace.audit", "a-b_c.d", "x" * 249, "0"])
def test_kafkas_names_are_taken(name: str) -> None:
    assert topic_name.fault_of(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a/b", "a b", "ä", "a\0", "a\n"])
def test_what_kafka_refuses_as_a_name_is_refused(name: str) -> None:
    assert topic_name.fault_of(name) is not None


def test_every_setting_accepts_its_own_default() -> None:
    for name, setting in topic_settings.TABLE.items():
        assert topic_settings.faults_of({name: setting.default}) == [], name


def test_compaction_is_refused_with_its_reason() -> None:
    (fault,) = topic_settings.faults_of({"cleanup.policy": "compact"})
    assert "cleanup.policy" in fault
    assert "byte offsets" in fault


def test_all_faults_of_a_topics_settings_are_named() -> None:
    faults = topic_settings.faults_of(
        {"retention.ms": "-2", "segment.bytes": "x", "flush.ms": None, "unclean.leader.election.enable": "true"}
    )
    assert [fault.split(":")[0] for fault in faults] == [
        "retention.ms",
        "segment.bytes",
        "flush.ms",
        "unclean.leader.election.enable",
    ]


def test_a_topics_own_value_goes_before_the_brokers_and_that_before_the_table() -> None:
    values = topic_settings.values_in_force({"retention.ms": "5"}, {"retention.ms": "6", "segment.bytes": "4096"})
    assert values["retention.ms"] == ("5", ConfigSource.TOPIC)
    assert values["segment.bytes"] == ("4096", ConfigSource.STATIC_BROKER)
    assert values["retention.bytes"] == ("-1", ConfigSource.DEFAULT)


def test_a_value_that_cannot_be_read_gives_way_to_the_default() -> None:
    assert topic_settings.settings_of({"retention.ms": "a week"}, {}).retention_ms == 7 * 24 * 3_600_000


def test_nothing_is_flushed_by_force_unless_a_setting_says_so() -> None:
    assert not topic_settings.settings_of({}, {}).shows_only_what_is_flushed
    assert topic_settings.settings_of({"flush.messages": "1"}, {}).shows_only_what_is_flushed
    assert topic_settings.settings_of({"flush.ms": "100"}, {}).shows_only_what_is_flushed


@pytest.mark.parametrize("name", sorted(topic_settings.REFUSED))
def test_a_setting_of_kafkas_that_is_not_taken_is_refused_with_its_reason_whatever_the_value(name: str) -> None:
    assert name not in topic_settings.TABLE
    for value in ("", "0", "-1", "false", None):
        (fault,) = topic_settings.faults_of({name: value})
        assert fault == f"{name}: not taken here: {topic_settings.REFUSED[name]}"


@pytest.mark.parametrize("value", ["9" * 5_000, "-" + "9" * 5_000, "\u0663", "1_000", "1e3", "+-1", "1 0", "", "0x10"])
def test_what_is_no_whole_number_is_refused_and_nothing_breaks(value: str) -> None:
    (fault,) = topic_settings.faults_of({"retention.ms": value})
    assert "whole number" in fault
    assert len(fault) < 200


MIRROR, APPEND_TIME = {"headrace.mirror": "true"}, {"message.timestamp.type": "LogAppendTime"}


def test_a_mirrored_topic_cannot_be_told_to_stamp_append_times() -> None:
    (fault,) = topic_settings.faults_of(MIRROR | APPEND_TIME)
    assert fault.startswith("message.timestamp.type: ")
    assert "copy byte for byte" in fault
    assert topic_settings.faults_of(MIRROR | {"message.timestamp.type": "CreateTime"}) == []
    assert topic_settings.faults_of({"headrace.mirror": "false"} | APPEND_TIME) == []


@pytest.mark.parametrize(("own", "defaults"), [(MIRROR, APPEND_TIME), (MIRROR | APPEND_TIME, {})])
def test_a_mirrored_topic_stamps_nothing_whoever_says_so(own: dict[str, str], defaults: dict[str, str]) -> None:
    assert not topic_settings.settings_of(own, defaults).stamps_append_time
    assert topic_settings.values_in_force(own, defaults)["message.timestamp.type"] == ("CreateTime", ConfigSource.DEFAULT)


def test_append_time_is_taken_from_the_topic_or_the_broker() -> None:
    assert not topic_settings.settings_of({}, {}).stamps_append_time
    assert topic_settings.settings_of(APPEND_TIME, {}).stamps_append_time
    assert topic_settings.settings_of({}, APPEND_TIME).stamps_append_time
    assert not topic_settings.settings_of({"message.timestamp.type": "CreateTime"}, APPEND_TIME).stamps_append_time


def test_settings_with_one_possible_value_take_that_one_and_say_why_no_other() -> None:
    for name, other in (("unclean.leader.election.enable", "true"), ("preallocate", "true")):
        assert topic_settings.faults_of({name: topic_settings.TABLE[name].default}) == []
        (fault,) = topic_settings.faults_of({name: other})
        assert fault.startswith(f"{name}: ")
        assert fault.count(":") == 2, "what, and why"


@pytest.mark.parametrize(
    ("own", "defaults", "replication_factor", "expected"),
    [
        ({}, {}, 1, 1),
        ({}, {}, 2, 1),
        ({}, {}, 3, 2),
        ({}, {}, 5, 2),
        ({"min.insync.replicas": "1"}, {}, 3, 1),
        ({"min.insync.replicas": "3"}, {}, 3, 3),
        ({}, {"min.insync.replicas": "1"}, 3, 1),
        ({"min.insync.replicas": "2"}, {}, 1, 1),
        ({}, {"min.insync.replicas": "2"}, 1, 1),
    ],
)
def test_two_of_three_replicas_must_have_a_message_unless_topic_or_broker_say_otherwise_and_never_more_than_there_are(
    own: dict[str, str], defaults: dict[str, str], replication_factor: int, expected: int
) -> None:
    assert topic_settings.faults_of(own) == []
    given = topic_settings.settings_of(own, defaults).min_insync_replicas
    assert topic_settings.min_insync(given, replication_factor) == expected


def test_at_least_one_replica_must_have_a_message() -> None:
    (fault,) = topic_settings.faults_of({"min.insync.replicas": "0"})
    assert fault.startswith("min.insync.replicas: ")
