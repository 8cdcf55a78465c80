"""The admin messages that kio no longer has, against bytes written down from Kafka's message definitions."""

from struct import pack

import pytest

from headrace.wire.errors import MalformedFrame
from headrace.wire.messages import control


def text(value: str | None) -> bytes:
    return pack(">h", -1) if value is None else pack(">h", len(value)) + value.encode()


CREATE_BODY = (
    pack(">i", 1) + text("clicks") + pack(">ih", 3, 1) + pack(">i", 1) + pack(">ii", 0, 1) + pack(">i", 1)
    + pack(">i", 1) + text("retention.ms") + text("5") + pack(">i", 1_500)
)  # fmt: skip
"""topics: name, partitions, replicas, assignments (partition, brokers), configs; then the timeout."""


@pytest.mark.parametrize(("version", "tail", "validate_only"), [(0, b"", False), (1, b"\1", True), (0, b"\1", False)])
def test_create_topics_is_read_and_bytes_behind_version_0_are_not_taken_for_a_flag(
    version: int, tail: bytes, validate_only: bool
) -> None:
    request = control.decode_request(19, version, CREATE_BODY + tail)
    (topic,) = request.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("clicks", 3, 1)
    assert [(one.partition_index, one.broker_ids) for one in topic.assignments] == [(0, (1,))]
    assert [(one.name, one.value) for one in topic.configs] == [("retention.ms", "5")]
    assert control.milliseconds(request.timeout) == 1_500
    assert request.validate_only is validate_only


def test_create_topics_answers_have_a_message_from_version_1_on() -> None:
    answer = {
        "throttle_time_ms": 0,
        "topics": [
            {"name": "a", "error_code": 0, "error_message": None, "num_partitions": 3, "configs": []},
            {"name": "b", "error_code": 40, "error_message": "why", "num_partitions": -1, "configs": []},
        ],
    }
    a, b = text("a") + pack(">h", 0), text("b") + pack(">h", 40)
    assert control.encode_response(19, 0, answer) == pack(">i", 2) + a + b
    assert control.encode_response(19, 1, answer) == pack(">i", 2) + a + text(None) + b + text("why")


def test_delete_topics_version_0_has_no_throttle_time() -> None:
    request = control.decode_request(20, 0, pack(">i", 2) + text("a") + text("b") + pack(">i", 9))
    assert (list(request.topic_names), control.milliseconds(request.timeout)) == (["a", "b"], 9)
    responses = [{"name": "a", "error_code": 0, "error_message": None}, {"name": "b", "error_code": 3, "error_message": "none"}]
    written = control.encode_response(20, 0, {"throttle_time_ms": 0, "responses": responses})
    assert written == pack(">i", 2) + text("a") + pack(">h", 0) + text("b") + pack(">h", 3)


def test_describe_log_dirs_version_0_is_asked_and_answered_as_version_1_is() -> None:
    """kafka-python before 3 and kafka-python-ng have no other."""
    partition = {"partition_index": 7, "partition_size": 1 << 40, "offset_lag": 0, "is_future_key": False}
    result = {"error_code": 0, "log_dir": "/data", "topics": [{"name": "a", "partitions": [partition]}]}
    assert control.encode_response(35, 0, {"throttle_time_ms": 7, "results": [result]}) == (
        pack(">ii", 7, 1) + pack(">h", 0) + text("/data") + pack(">i", 1) + text("a") + pack(">iiqqb", 1, 7, 1 << 40, 0, 0)
    )
    (topic,) = control.decode_request(35, 0, pack(">i", 1) + text("a") + pack(">iii", 2, 0, 7)).topics
    assert (topic.topic, list(topic.partitions)) == ("a", [0, 7])


def test_describe_configs_version_0_says_default_instead_of_a_source() -> None:
    body = pack(">i", 1) + pack(">b", 2) + text("clicks") + pack(">i", 1) + text("retention.ms")
    request = control.decode_request(32, 0, body + b"\1")
    assert [(one.resource_type, one.resource_name, list(one.configuration_keys)) for one in request.resources] == [
        (2, "clicks", ["retention.ms"])
    ]
    assert request.include_synonyms is False
    configs = [
        {"name": name, "value": "5", "read_only": False, "config_source": source, "is_sensitive": False}
        for name, source in (("own", 1), ("default", 5))
    ]
    result = {"error_code": 0, "error_message": None, "resource_type": 2, "resource_name": "clicks", "configs": configs}
    assert control.encode_response(32, 0, {"throttle_time_ms": 7, "results": [result]}) == (
        pack(">i", 7) + pack(">i", 1) + pack(">h", 0) + text(None) + pack(">b", 2) + text("clicks") + pack(">i", 2)
        + text("own") + text("5") + b"\0\0\0" + text("default") + text("5") + b"\0\1\0"
    )  # fmt: skip


def test_list_offsets_version_0_answers_with_many_offsets() -> None:
    found = [(1, 0, [9, 0]), (2, 42, [])]
    partitions = [{"partition_index": at, "error_code": error, "old_style_offsets": offsets} for at, error, offsets in found]
    written = control.encode_response(2, 0, {"topics": [{"name": "t", "partitions": partitions}]})
    assert written == pack(">i", 1) + text("t") + pack(">iihiqqihi", 2, 1, 0, 2, 9, 0, 2, 42, 0)


@pytest.mark.parametrize(("api_key", "version"), [(19, 0), (19, 1), (20, 0), (32, 0)])
@pytest.mark.parametrize("body", [b"", b"\xff" * 3, pack(">i", 2**31 - 1), pack(">i", -7)])
def test_what_is_cut_or_absurd_is_refused(api_key: int, version: int, body: bytes) -> None:
    with pytest.raises(MalformedFrame):
        control.decode_request(api_key, version, body)
