"""Questions to other brokers, in messages of this broker's own (keys from 20003 on), on their listener for brokers.

One connection a question, made by a worker's thread with the login and certificates of this broker (`Connect`). A question has a
deadline, and an answer has a limit. Messages are bytes here; who asks knows how to read them.
"""

import socket
import struct
from collections.abc import Callable, Mapping

from ...runtime.clock import Clock, SystemClock
from ..errors import PeerSilent
from ..event_loop.worker import Worker
from ..partitions.catalog import BrokerAddress
from ..partitions.other_brokers import Connect, connect_in_the_clear

DEADLINE_MS = 10_000
MOST_BYTES = 16 << 20
"""Of an answer, unless the caller says otherwise."""
VERSION = 0

_HEADER = struct.Struct(">ihhih")
_SIZES = struct.Struct(">ii")

Answered = Callable[[bytes], None]
Failed = Callable[[Exception], None]


class Peers:
    """Lives on the loop thread; threads of `worker` ask."""

    def __init__(
        self,
        worker: Worker,
        brokers: Callable[[], Mapping[int, BrokerAddress]],
        connect: Connect | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`brokers`: those that are registered now. `connect` None: no TLS and no login."""
        self._worker, self._brokers, self._connect = worker, brokers, connect or connect_in_the_clear
        self._clock = clock or SystemClock()

    def ask(
        self,
        broker_id: int,
        key: int,
        body: bytes,
        answered: Answered,
        failed: Failed,
        *,
        deadline_ms: int = DEADLINE_MS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """Send one question. Call `answered` with the body of the answer, or `failed` with why there is none; once, on the loop.

        `deadline_ms` is for connecting, the question and the whole answer. The time in the worker's queue counts, too.
        """
        address = self._brokers().get(broker_id)
        if address is None:
            failed(PeerSilent(broker_id, "it is not registered"))
            return
        clock = self._clock
        until_ms = clock.monotonic_ms() + deadline_ms

        def job() -> bytes:
            left_ms = until_ms - clock.monotonic_ms()
            return question(self._connect, address, key, body, deadline_ms=left_ms, most_bytes=most_bytes, clock=clock)

        if not self._worker.submit(job, answered, failed):
            failed(PeerSilent(broker_id, "too many questions to other brokers wait already"))


def question(
    connect: Connect,
    address: BrokerAddress,
    key: int,
    body: bytes,
    *,
    deadline_ms: int,
    most_bytes: int = MOST_BYTES,
    clock: Clock | None = None,
) -> bytes:
    """Ask one broker and wait for the body of its answer. Not for the loop's thread. Raises PeerSilent."""
    clock = clock or SystemClock()
    until_ms = clock.monotonic_ms() + deadline_ms

    def left_s() -> float:
        left_ms = until_ms - clock.monotonic_ms()
        if left_ms <= 0:
            raise TimeoutError("it has not answered in time")
        return left_ms / 1000

    try:
        with connect(address, left_s()) as connection:
            connection.settimeout(left_s())
            connection.sendall(_HEADER.pack(_HEADER.size - 4 + len(body), key, VERSION, 0, -1) + body)
            size, _ = _SIZES.unpack(_exactly(connection, _SIZES.size, left_s))
            if not 4 <= size <= most_bytes + 4:
                raise PeerSilent(address.broker_id, f"it announces an answer of {size - 4} bytes, at most {most_bytes} are taken")
            return _exactly(connection, size - 4, left_s)
    except OSError as error:
        raise PeerSilent(address.broker_id, str(error) or type(error).__name__) from error


def _exactly(connection: socket.socket, size: int, left_s: Callable[[], float]) -> bytes:
    data = bytearray()
    while len(data) < size:
        connection.settimeout(left_s())
        more = connection.recv(min(1 << 20, size - len(data)))
        if not more:
            raise ConnectionError("it closed the connection")
        data += more
    return bytes(data)
