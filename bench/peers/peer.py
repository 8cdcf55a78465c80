"""What the bench asks of any server: start, stop, processes, bytes on disk, and the ways in which its fastest client uses it.

One that is missing on this machine says so by name; the result then says 'skipped', never nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..drivers.run import Driven

MESSAGE_BYTES = 200
"""As in the paper."""


class Peer(Protocol):
    """One server on loopback. `name` is how tables call it; `folder` and everything in it is the bench's to delete."""

    name: str
    folder: Path

    def version(self) -> str:
        """Return name and version as installed. Raises Missing."""

    def start(self) -> None:
        """Start it and return when it serves. Raises Missing, BenchFault."""

    def stop(self) -> None:
        """Stop it and everything it has started."""

    @property
    def pids(self) -> Sequence[int]:
        """The processes whose CPU and memory are the server's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of using a peer that is not Kafka-like, with its fastest client: messages of `MESSAGE_BYTES`, one producer,
    one consumer.
    """

    subject: str
    """How tables call it: 'RabbitMQ classic'."""
    how: str
    """What the reader must know of it: 'persistent, confirms off'."""
    count: int
    """Messages a run, for a second or more."""
    produce: Callable[[str, int], Driven]
    """Topic, messages → result; makes the topic."""
    consume: Callable[[str, int], Driven] | None
    """The same from the beginning; None where another way's figure is this one's too."""
    disk_bytes: Callable[[str], int] | None
    """Bytes that the topic takes on disk, all of the server's files where they are not kept apart."""
    forget: Callable[[str], None]
    """Deletes the topic."""
    consuming_empties: bool = False
    """A queue: read once, it is empty."""


def bytes_of(folder: Path, pattern: str = "**/*") -> int:
    """Return the bytes in files below `folder` that match."""
    return sum(path.stat().st_size for path in folder.glob(pattern) if path.is_file())


def allocated_bytes_of(folder: Path, pattern: str = "**/*") -> int:
    """Return the disk blocks below `folder` in bytes: the honest size of files that are made large before they are written."""
    return sum(path.stat().st_blocks * 512 for path in folder.glob(pattern) if path.is_file())
