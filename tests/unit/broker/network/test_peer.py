"""The principal of a connection, and the guard that each of its requests passes."""

import struct
from pathlib import Path

from headrace.broker.errors import FrameRefused
from headrace.broker.network.principal import ANONYMOUS, Principal
from tests.unit.broker.driven import driven

API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)
PRODUCE = struct.pack(">ihhihhih", 18, 0, 3, 8, -1, -1, 1, 0)


class Closed:
    def __init__(self, keys: set[int]) -> None:
        self.keys = keys
        self.seen: list[int] = []

    def check(self, api_key: int) -> None:
        self.seen.append(api_key)
        if api_key not in self.keys:
            raise FrameRefused("not now", "not_logged_in")


def test_a_client_that_does_not_say_who_it_is_is_anonymous(tmp_path: Path) -> None:
    broker, peer = driven(tmp_path, {})
    assert peer.connection.peer.principal == ANONYMOUS
    assert str(Principal("User", "alice")) == "User:alice"
    broker.close()


def test_a_guard_sees_each_request_and_closes_the_connection(tmp_path: Path) -> None:
    broker, peer = driven(tmp_path, {})
    peer.connection.peer.guard = guard = Closed({18})
    peer.send(API_VERSIONS)
    assert struct.unpack_from(">ii", peer.answers)[1] == 7
    assert not peer.connection.is_closed
    peer.send(PRODUCE)
    assert peer.connection.is_closed
    assert guard.seen == [18, 0]
    broker.close()
