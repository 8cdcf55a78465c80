"""The oldest versions of four admin messages, which kio no longer has: read and written by hand, beside the next one up.

They are advertised because some clients take a server for too old or too new without them (facts, trap 1), and what is advertised
is served. Each is the next version with something left out, so a request is completed and read as that one, and an answer is made
from the same mapping.

    CreateTopics    request  v0 = v2 without validate_only; v1 = v2
    DeleteTopics    request  v0 = v1
                    answer   v0: [name, error code]
    DescribeConfigs request  v0 = v1 without include_synonyms
                    answer   v0: throttle · [error code, error message, type, name, [name, value, read only, default, sensitive]]
    DescribeLogDirs request  v0 = v1

Source: Kafka's CreateTopics-, DeleteTopics-, DescribeConfigs-Request.json and -Response.json.
"""

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from .message_writer import Layout, Part, array_of, number, text
from .primitives import INT

Fields = Mapping[str, Any]

CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_CONFIGS, DESCRIBE_LOG_DIRS = 19, 20, 32, 35

_DEFAULT_CONFIG = 5
_FLAG = struct.Struct(">?")
_TYPE = struct.Struct(">b")


class OldVersion(NamedTuple):
    """How a request of an old version is read."""

    read_as: int
    """The version of the request that it is completed to."""
    missing: bytes
    """What that version has behind the body of this one."""
    settled: Fields
    """The fields that it stands for: bytes behind a request are ignored, and must not be taken for them."""


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
_DELETED = Layout(name="a topic of DeleteTopics v0", parts=(text("name"), number("error_code")))

LAYOUTS: Mapping[tuple[int, int], Layout] = {
    (DELETE_TOPICS, 0): Layout(name="DeleteTopics v0", parts=(array_of("responses", _DELETED),)),
    (DESCRIBE_CONFIGS, 0): Layout(
        name="DescribeConfigs v0", parts=(number("throttle_time_ms", INT), array_of("results", _RESOURCE))
    ),
}
"""Answers. That to CreateTopics is `created_topics`' to write."""
