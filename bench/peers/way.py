"""How the bench uses a peer that does not speak Kafka's protocol: with its fastest client, in one way or several."""

from collections.abc import Callable
from dataclasses import dataclass

from ..drivers.build import built
from ..drivers.run import Driven, drive
from .lifecycle import LoopbackServer

MESSAGE_BYTES = 200
"""As in the paper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of using a peer: messages of `MESSAGE_BYTES`, one producer, one consumer."""

    subject: str
    """The name in tables: 'RabbitMQ classic'."""
    how: str
    """The settings that a reader needs to judge the figures: 'persistent, confirms off'."""
    count: int
    """Messages a run, enough for a second or more."""
    produce: Callable[[str, int], Driven]
    """Topic, messages → result; creates the topic."""
    consume: Callable[[str, int], Driven] | None
    """Topic, messages → result, from the beginning. None where another way's figure holds for this one."""
    disk_bytes: Callable[[str], int] | None
    """Topic → bytes on disk. Where topics share files, the growth of all files since the topic's first message."""
    forget: Callable[[str], None]
    """Deletes the topic."""
    consuming_empties: bool = False
    """True for a queue: after one reading it is empty."""


def drive_client(server: LoopbackServer, driver: str, topic: str, count: int, *more: str | int) -> Driven:
    """Run a C driver that takes port, topic, messages, their size, and `more`. Raises BenchFault, Unavailable."""
    words = [str(server.port), topic, str(count), str(MESSAGE_BYTES), *map(str, more)]
    return drive([str(built(driver)), *words], lambda: server.pids)
