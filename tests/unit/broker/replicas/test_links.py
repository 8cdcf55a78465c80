"""The follower's side of the messages: connections are numbered for the whole process."""

import itertools
import socket
from typing import Any

from headrace.broker.event_loop.deferred_response import DeferredResponse
from headrace.broker.event_loop.loop import Loop
from headrace.broker.partitions.catalog import BrokerAddress
from headrace.broker.replicas import messages
from headrace.broker.replicas.followers import Followers
from headrace.broker.replicas.leaders import Link
from tests.unit.broker.hand_worker import HandWorker

ADDRESS = BrokerAddress(broker_id=1, host="leader", port=9092, endpoints={}, start_number=1)


class Receiver:
    """Takes no notice."""

    def answered(self, message: Any) -> None: ...

    def connected(self, broker_id: int) -> None: ...

    def lost(self, broker_id: int, *, is_refused: bool) -> None: ...


def test_a_link_that_was_given_up_and_made_again_is_heard() -> None:
    """Seed 128 of `simulate-whole`: a link that is not used is closed. The next one began to count its connections again, so the
    leader took it for an earlier one and answered its polls with nothing: the replica never came back into the set.
    """
    loop, worker, numbers = Loop(), HandWorker(), itertools.count(1)
    leader = Followers(loop, lambda key: None, lambda: ())
    far_ends: list[socket.socket] = []

    def connect(address: BrokerAddress, within_s: float) -> socket.socket:
        here, there = socket.socketpair()
        far_ends.append(there)
        return here

    for connections in (3, 1):
        link = Link(loop, worker, connect, Receiver(), 1, (2, 1), numbers)
        for _ in range(connections):
            link._next_try_ms = 0
            link.try_to_connect(ADDRESS)
            worker.run()
            assert isinstance(leader.poll(memoryview(messages.encode_poll(link._sender))), DeferredResponse), "it is heard"
            link._drop()
        link.close()
    for one in far_ends:
        one.close()
    loop.close()
