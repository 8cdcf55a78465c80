"""Request and response headers, with kio as the second opinion."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as KioHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as KioHeaderV2
from kio.serial import entity_writer

from headrace.wire.errors import MalformedFrame
from headrace.wire.messages.headers import (
    RequestHeader,
    read_request_header,
    read_response_header,
    write_request_header,
    write_response_header,
)
from tests.unit.wire.records import is_refused_at_every_prefix


@given(
    st.sampled_from([(0, 8), (0, 9), (3, 8), (3, 9), (18, 0), (18, 3), (17, 1)]), st.integers(0, 2**31 - 1), st.none() | st.text()
)
def test_a_request_header_comes_back_and_kio_writes_the_same(
    api: tuple[int, int], correlation_id: int, client_id: str | None
) -> None:
    header = write_request_header(*api, correlation_id, client_id)
    assert read_request_header(header + b"body") == (RequestHeader(*api, correlation_id, client_id), len(header))
    kio_class = KioHeaderV2 if api in {(0, 9), (3, 9), (18, 3)} else KioHeaderV1
    out = io.BytesIO()
    entity_writer(kio_class)(
        out, kio_class(request_api_key=api[0], request_api_version=api[1], correlation_id=correlation_id, client_id=client_id)
    )
    assert out.getvalue() == header


def test_a_request_header_is_refused_at_every_prefix() -> None:
    for version in (8, 9):
        is_refused_at_every_prefix(write_request_header(0, version, 7, "client"), read_request_header)


def test_tags_in_a_request_header_are_passed_over() -> None:
    header = write_request_header(3, 9, 7, "client")[:-1] + bytes.fromhex("01 00 02 abcd")
    assert read_request_header(header + b"body")[1] == len(header)


def test_an_unknown_api_is_read_without_tags() -> None:
    header, at = read_request_header(bytes.fromhex("03e7 0005 00000009 0001 78 ff"))
    assert header == RequestHeader(999, 5, 9, "x")
    assert at == 11


def test_a_client_id_that_is_not_text_is_refused() -> None:
    with pytest.raises(MalformedFrame, match="UTF-8"):
        read_request_header(bytes.fromhex("0003 0001 00000009 0002 ffff"))


@pytest.mark.parametrize(("api", "size"), [((0, 8), 4), ((0, 9), 5), ((3, 9), 5), ((18, 0), 4), ((18, 3), 4), ((18, 4), 4)])
def test_a_response_header_has_tags_when_flexible_but_never_for_api_versions(api: tuple[int, int], size: int) -> None:
    header = write_response_header(*api, 77)
    assert len(header) == size
    assert read_response_header(*api, header + b"body") == (77, size)
    is_refused_at_every_prefix(header, lambda cut: read_response_header(*api, cut))
