"""CreateTopics answers written by hand: against kio's where kio has the version, else against bytes from Kafka's definitions."""

from struct import pack
from typing import Any

import pytest

from headrace.wire import control, created_topics
from headrace.wire.created_topics import Result
from headrace.wire.errors import ErrorCode
from headrace.wire.steps import at_once

VALUES = [("retention.ms", "5", 1), ("cleanup.policy", "delete", 5)]
RESULTS = [
    Result("clicks", partition_count=3, replication_factor=1, settings=created_topics.settings(VALUES)),
    Result("x" * 200, ErrorCode.INVALID_CONFIG, "why"),
]


@pytest.mark.parametrize("results", [RESULTS, []])
@pytest.mark.parametrize("version", range(2, 8))
def test_it_is_byte_for_byte_what_kio_writes(version: int, results: list[Result]) -> None:
    def topic(one: Result) -> dict[str, Any]:
        configs = VALUES if one.partition_count == 3 else []
        return {
            "name": one.name,
            "topic_id": None,
            "error_code": one.error,
            "error_message": one.message,
            "num_partitions": one.partition_count,
            "replication_factor": one.replication_factor,
            "configs": [
                {"name": name, "value": value, "read_only": False, "config_source": source, "is_sensitive": False}
                for name, value, source in configs
            ],
        }

    expected = control.encode_response(19, version, {"throttle_time_ms": 0, "topics": [topic(one) for one in results]})
    assert at_once(created_topics.encode_in_steps(version, results)) == expected


def test_answers_have_a_message_from_version_1_on() -> None:
    results = [Result("a"), Result("b", ErrorCode.INVALID_CONFIG, "why")]
    assert at_once(created_topics.encode_in_steps(0, results)) == pack(">ih1shh1sh", 2, 1, b"a", 0, 1, b"b", 40)
    assert at_once(created_topics.encode_in_steps(1, results)) == pack(
        ">ih1shhh1shh3s", 2, 1, b"a", 0, -1, 1, b"b", 40, 3, b"why"
    )
