"""'Not served' in the shape of every message that Kafka has: read back by kio, and by nobody where there is no place for it."""

import pytest
from kio.schema.index import api_key_map, schema_name_map

from headrace.wire.errors import ErrorCode, UnsupportedVersion
from headrace.wire.messages import control
from headrace.wire.messages.headers import is_flexible
from headrace.wire.messages.refusals import REMEMBERED, refusal

WITHOUT_AN_ERROR_OF_THEIR_OWN = {0, 2, 8, 19, 20, 21, 23, 28, 31, 33, 34, 37, 42, 44, 51, 61, 65, 69, 75}
"""Some of them: their errors stand beside each thing that was asked for."""


@pytest.mark.parametrize("api_key", sorted(api_key_map))
def test_a_refusal_is_what_clients_of_that_version_read(api_key: int) -> None:
    for version in schema_name_map[api_key_map[api_key]]:
        written = refusal(api_key, version, ErrorCode.UNSUPPORTED_VERSION, "not served")
        if written is None:
            continue
        body, flexible = written
        answer = control.decode_response(api_key, version, body)
        assert int(answer.error_code) == ErrorCode.UNSUPPORTED_VERSION
        assert getattr(answer, "error_message", "not served") == "not served"
        assert flexible is bool(type(answer).__flexible__)
        if api_key < 50:
            assert flexible is is_flexible(api_key, version)


def test_there_is_none_where_the_protocol_has_no_place_for_it() -> None:
    for api_key in WITHOUT_AN_ERROR_OF_THEIR_OWN:
        newest = max(schema_name_map[api_key_map[api_key]])
        assert refusal(api_key, newest, ErrorCode.UNSUPPORTED_VERSION, "") is None, api_key


def test_what_a_stranger_asks_for_is_not_remembered_without_end() -> None:
    for version in range(REMEMBERED + 100):
        refusal(999, version, ErrorCode.UNSUPPORTED_VERSION, "")
    assert refusal.cache_info().currsize <= REMEMBERED


@pytest.mark.parametrize(("api_key", "version"), [(999, 0), (-1, 0), (1, 99), (1, -1), (22, 1_000)])
def test_there_is_none_for_what_kafka_does_not_have(api_key: int, version: int) -> None:
    assert refusal(api_key, version, ErrorCode.UNSUPPORTED_VERSION, "") is None
    with pytest.raises(UnsupportedVersion):
        control.message_type("response", api_key, version)
