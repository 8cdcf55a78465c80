"""What a handler can read of a request's frame. Pure."""

import pytest

from headrace.broker.handlers.request import Request
from headrace.broker.network.peer import Peer
from headrace.broker.network.request_header import FIXED_HEADER, FIXED_HEADER_SIZE

PEER = Peer("1.2.3.4:5", "PLAINTEXT")


def of(client_id: bytes, length: int) -> Request:
    frame = memoryview(FIXED_HEADER.pack(0, 11, 5, 1, length) + client_id + b"body")
    return Request(5, frame[FIXED_HEADER_SIZE + len(client_id) :], PEER, frame, length)


@pytest.mark.parametrize(
    ("client_id", "length", "read"), [(b"billing", 7, "billing"), (b"", 0, ""), (b"", -1, ""), (b"a\xff", 2, "a\ufffd")]
)
def test_each_request_has_the_client_id_of_its_own_frame(client_id: bytes, length: int, read: str) -> None:
    request, other = of(client_id, length), of(b"another", 7)
    assert (request.client_id, other.client_id) == (read, "another")
    assert (request.version, bytes(request.body), request.peer) == (5, b"body", PEER)
