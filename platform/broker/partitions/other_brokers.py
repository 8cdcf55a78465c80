"""Waits until the other brokers serve a topic that was just created, so that a client that continues at once finds it everywhere.

A broker knows a topic when its own Metadata response has it: it has then opened its logs, too. All topics that wait are asked for
in one request to each broker. A broker that cannot be reached is not waited for: its partitions cannot be served anyway.
"""

import socket
import struct
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ...runtime.clock import Clock, SystemClock
from ...runtime.logs import get_logger
from ...wire.errors import WireError
from ...wire.messages import control
from ..event_loop.worker import Worker
from .catalog import BrokerAddress

log = get_logger(__name__)

METADATA, VERSION = 3, 9
ASK_EVERY_MS = 5
LONGEST_PAUSE_MS = 50
MOST_WAITING = 10_000
"""Topics; further ones are reported as created at once."""
LARGEST_ANSWER_BYTES = 64 << 20
ANSWER_S = 10.0
"""How long another broker may take to answer one question."""

Ready = Callable[[], None]
Connect = Callable[[BrokerAddress, float], socket.socket]
"""Connects to a broker within so many seconds. Raises OSError."""


def connect_in_the_clear(other: BrokerAddress, within_s: float) -> socket.socket:
    return socket.create_connection((other.host, other.port), timeout=within_s)


class OtherBrokers:
    """Lives on the loop thread; `worker` asks."""

    def __init__(
        self,
        worker: Worker,
        others: Callable[[], Iterable[BrokerAddress]],
        *,
        wait_ms: int,
        connect: Connect | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`others`: the brokers besides this one. `wait_ms`: how long to wait for them at most. `connect` None: no TLS."""
        self._connect = connect or connect_in_the_clear
        self._clock = clock or SystemClock()
        self._worker = worker
        self._others = others
        self._wait_ms = wait_ms
        self._waiting: dict[str, list[Ready]] = {}
        self._is_asking = False

    def when_ready(self, topic: str, ready: Ready) -> None:
        """Call `ready` once, when every other broker serves the topic or the wait is over. At once where this broker is alone."""
        if self._wait_ms <= 0 or len(self._waiting) >= MOST_WAITING or not list(self._others()):
            ready()
            return
        self._waiting.setdefault(topic, []).append(ready)
        self._ask()

    def ask(
        self,
        broker_id: int,
        api_key: int,
        version: int,
        message: Mapping[str, object],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Send one request to another broker. `done` gets its decoded answer, `failed` why there is none, within `ANSWER_S`."""
        address = next((one for one in self._others() if one.broker_id == broker_id), None)
        if address is None:
            failed(ConnectionError(f"broker {broker_id} is not there"))
            return

        def job() -> Any:
            with self._connect(address, ANSWER_S) as connection:
                connection.settimeout(ANSWER_S)
                return ask(connection, api_key, version, message)

        if not self._worker.submit(job, done, failed):
            failed(OSError("too many questions to other brokers wait already"))

    def _ask(self) -> None:
        if self._is_asking or not self._waiting:
            return
        waiting, self._waiting = self._waiting, {}
        others = list(self._others())

        def asked(unready: Collection[str]) -> None:
            self._is_asking = False
            if unready:
                log.warning("topics_not_ready_everywhere", topics=sorted(unready)[:10], count=len(unready))
            for ready in [ready for of_topic in waiting.values() for ready in of_topic]:
                ready()
            self._ask()

        self._is_asking = self._worker.submit(
            lambda: await_topics(others, waiting, self._wait_ms, self._connect, self._clock),
            asked,
            lambda error: asked(waiting),
        )
        if not self._is_asking:
            asked(waiting)


def await_topics(
    others: Iterable[BrokerAddress],
    topics: Collection[str],
    wait_ms: int,
    connect: Connect | None = None,
    clock: Clock | None = None,
) -> set[str]:
    """Wait until all these brokers serve all topics. Return those that a broker does not serve after `wait_ms`."""
    clock = clock or SystemClock()
    deadline_ms = clock.monotonic_ms() + wait_ms
    unready: set[str] = set()
    for other in others:
        try:
            unready |= _await_one(other, topics, deadline_ms, connect or connect_in_the_clear, clock)
        except ConnectionRefusedError:
            continue
        except (OSError, WireError) as error:
            log.info("broker_not_asked_for_topics", broker_id=other.broker_id, why=str(error))
    return unready


def _await_one(other: BrokerAddress, topics: Collection[str], deadline_ms: int, connect: Connect, clock: Clock) -> set[str]:
    def left_ms() -> int:
        return deadline_ms - clock.monotonic_ms()

    missing, pause_ms = set(topics), ASK_EVERY_MS
    with connect(other, max(0.05, left_ms() / 1000)) as connection:
        while missing:
            connection.settimeout(max(0.05, left_ms() / 1000))
            missing -= _served(connection, sorted(missing))
            if not missing or left_ms() <= 0:
                break
            clock.sleep(max(0, min(left_ms(), pause_ms)))
            pause_ms = min(LONGEST_PAUSE_MS, 2 * pause_ms)
    return missing


def _served(connection: socket.socket, topics: Collection[str]) -> set[str]:
    """Return those of the topics that the broker at the other end serves. Raises OSError, WireError."""
    message: Mapping[str, object] = {
        "topics": [{"name": topic} for topic in topics],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    decoded = ask(connection, METADATA, VERSION, message)
    return {topic.name for topic in decoded.topics if not topic.error_code}


def ask(connection: socket.socket, api_key: int, version: int, message: Mapping[str, object]) -> Any:
    """Send one request and return its response. Raises OSError, WireError."""
    head = control.write_request_header(api_key, version, 1, "headrace-broker")
    content = head + control.encode_request(api_key, version, message)
    connection.sendall(struct.pack(">i", len(content)) + content)
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    if not 0 <= size <= LARGEST_ANSWER_BYTES:
        raise ConnectionError(f"it announces a response of {size} bytes")
    answer = _exactly(connection, size)
    _, at = control.read_response_header(api_key, version, answer)
    return control.decode_response(api_key, version, memoryview(answer)[at:])


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = connection.recv(min(1 << 20, size - len(data)))
        if not more:
            raise ConnectionError("it closed the connection")
        data += more
    return bytes(data)
