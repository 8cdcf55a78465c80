"""The oldest versions of admin messages, which kio no longer has: requests completed to the next version, responses described by
hand.

They are advertised because some clients take a server without them for too old or too new (facts, trap 1), and every advertised
version is served. Each is the next version without some fields. So a request is completed and read as the next version, and a
response is made from the same mapping.

    ListOffsets     request  v0 is read by `list_offsets_v0`
                    answer   v0: [name, [partition, error code, [offset]]]
    CreateTopics    request  v0 = v2 without validate_only; v1 = v2
                    answer   v0: [name, error code]; v1: [name, error code, error message]
    DeleteTopics    request  v0 = v1
                    answer   v0: [name, error code]
    DescribeConfigs request  v0 = v1 without include_synonyms
                    answer   v0: throttle · [error code, error message, type, name, [name, value, read only, default, sensitive]]
    DescribeLogDirs request  v0 = v1
                    answer   v0 = v1

Source: Kafka's definitions of these messages, <name>Request.json and <name>Response.json.
"""

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..primitives import INT, LONG
from .message_writer import Layout, Part, array_of, number, numbers, text

Fields = Mapping[str, Any]

LIST_OFFSETS, CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_CONFIGS, DESCRIBE_LOG_DIRS = 2, 19, 20, 32, 35

_DEFAULT_CONFIG = 5
_FLAG = struct.Struct(">?")
_TYPE = struct.Struct(">b")


class OldVersion(NamedTuple):
    """How a request of an old version is read."""

    read_as: int
    """The version of the request that it is completed to."""
    missing: bytes
    """The bytes that this version lacks at the end."""
    settled: Fields
    """The fields of `missing`, set again: a client's bytes behind its request must not be read as them."""


TABLE: Mapping[tuple[int, int], OldVersion] = {
    (CREATE_TOPICS, 0): OldVersion(2, b"\0", {"validate_only": False}),
    (CREATE_TOPICS, 1): OldVersion(2, b"", {}),
    (DELETE_TOPICS, 0): OldVersion(1, b"", {}),
    (DESCRIBE_CONFIGS, 0): OldVersion(1, b"\0", {"include_synonyms": False}),
    (DESCRIBE_LOG_DIRS, 0): OldVersion(1, b"", {}),
}


def _is_default(source: int) -> bytes:
    return _FLAG.pack(source == _DEFAULT_CONFIG)


_CONFIG = Layout(
    name="a setting of DescribeConfigs v0",
    parts=(
        text("name"),
        text("value"),
        number("read_only", _FLAG),
        Part(name="config_source", write=_is_default),
        number("is_sensitive", _FLAG),
    ),
)
_RESOURCE = Layout(
    name="a resource of DescribeConfigs v0",
    parts=(
        number("error_code"),
        text("error_message"),
        number("resource_type", _TYPE),
        text("resource_name"),
        array_of("configs", _CONFIG),
    ),
)
_NAME_AND_ERROR = (text("name"), number("error_code"))
_FOUND = Layout(
    name="a partition of ListOffsets v0",
    parts=(number("partition_index", INT), number("error_code"), numbers("old_style_offsets", LONG)),
)


def _of_topics(name: str, field: str, parts: tuple[Part, ...]) -> Layout:
    return Layout(name=name, parts=(array_of(field, Layout(name=f"a topic of {name}", parts=parts)),))


LAYOUTS: Mapping[tuple[int, int], Layout] = {
    (LIST_OFFSETS, 0): _of_topics("ListOffsets v0", "topics", (text("name"), array_of("partitions", _FOUND))),
    (CREATE_TOPICS, 0): _of_topics("CreateTopics v0", "topics", _NAME_AND_ERROR),
    (CREATE_TOPICS, 1): _of_topics("CreateTopics v1", "topics", (*_NAME_AND_ERROR, text("error_message"))),
    (DELETE_TOPICS, 0): _of_topics("DeleteTopics v0", "responses", _NAME_AND_ERROR),
    (DESCRIBE_CONFIGS, 0): Layout(
        name="DescribeConfigs v0", parts=(number("throttle_time_ms", INT), array_of("results", _RESOURCE))
    ),
}
"""Responses of versions that kio does not have."""
ANSWERED_AS: Mapping[tuple[int, int], int] = {(DESCRIBE_LOG_DIRS, 0): 1}
"""Responses that equal those of another version, byte for byte."""
