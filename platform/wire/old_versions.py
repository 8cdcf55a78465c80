"""The oldest versions of four admin messages, which kio no longer has: read and written by hand, beside the next one up.

They are advertised because some clients take a server for too old or too new without them (facts, trap 1), and what is advertised
is served. Each is the next version with something left out, so a request is completed and read as that one, and an answer is made
from the same mapping.

    CreateTopics    request  v0 = v2 without validate_only; v1 = v2
    DeleteTopics    request  v0 = v1
                    answer   v0: [name, error code]
    DescribeConfigs request  v0 = v1 without include_synonyms
                    answer   v0: throttle · [error code, error message, type, name, [name, value, read only, default, sensitive]]

Source: Kafka's CreateTopics-, DeleteTopics-, DescribeConfigs-Request.json and -Response.json.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from .primitives import INT, SHORT, string

Fields = Mapping[str, Any]

CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_CONFIGS = 19, 20, 32

_DEFAULT_CONFIG = 5
_FLAG = struct.Struct(">?")
_TYPE = struct.Struct(">b")


class OldVersion(NamedTuple):
    """How a version is read and written."""

    read_as: int
    """The version of the request that it is completed to."""
    missing: bytes
    """What that version has behind the body of this one."""
    settled: Fields
    """The fields that it stands for: bytes behind a request are ignored, and must not be taken for them."""
    write: Callable[[Fields], bytes] | None
    """Makes the answer's body; None where `created_topics` does."""


def _array(elements: Iterable[bytes]) -> bytes:
    each = list(elements)
    return INT.pack(len(each)) + b"".join(each)


def _text(value: object) -> bytes:
    return string(None if value is None else str(value), flexible=False)


def _deleted_v0(message: Fields) -> bytes:
    return _array(_text(one["name"]) + SHORT.pack(one["error_code"]) for one in message["responses"])


def _configs_v0(message: Fields) -> bytes:
    return INT.pack(message["throttle_time_ms"]) + _array(_resource_v0(one) for one in message["results"])


def _resource_v0(one: Fields) -> bytes:
    head = SHORT.pack(one["error_code"]) + _text(one["error_message"])
    return head + _TYPE.pack(one["resource_type"]) + _text(one["resource_name"]) + _array(map(_config_v0, one["configs"]))


def _config_v0(one: Fields) -> bytes:
    flags = (one["read_only"], one["config_source"] == _DEFAULT_CONFIG, one["is_sensitive"])
    return _text(one["name"]) + _text(one["value"]) + b"".join(map(_FLAG.pack, flags))


TABLE: Mapping[tuple[int, int], OldVersion] = {
    (CREATE_TOPICS, 0): OldVersion(2, b"\0", {"validate_only": False}, None),
    (CREATE_TOPICS, 1): OldVersion(2, b"", {}, None),
    (DELETE_TOPICS, 0): OldVersion(1, b"", {}, _deleted_v0),
    (DESCRIBE_CONFIGS, 0): OldVersion(1, b"\0", {"include_synonyms": False}, _configs_v0),
}
