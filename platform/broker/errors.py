"""What can go wrong with a broker as a whole, and how a request ends its connection. Any other fault of a request is an error
code on the wire.
"""

import errno
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from ..errors import HeadraceError


class BrokerError(HeadraceError):
    """The broker cannot start or go on."""


class SettingsRefused(BrokerError):
    """The settings are wrong; `faults` names every one of them."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("the broker's settings are wrong: " + "; ".join(self.faults))


class FolderInUse(BrokerError):
    """Another broker holds the data folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"data folder {folder} is held by another broker: stop that one, or give this one its own --data")


class FolderUnusable(BrokerError):
    """The data folder cannot be made, read, written or locked."""

    def __init__(self, folder: Path, error: OSError) -> None:
        self.folder = folder
        super().__init__(
            f"data folder {folder} cannot be used: {error}: "
            "it must be a folder in which this user may read, write and lock, with room left; or give another --data"
        )


class TooFewDescriptors(BrokerError):
    """The system allows this process too few open files."""

    def __init__(self, limit: int, least: int) -> None:
        self.limit, self.least = limit, least
        super().__init__(
            f"only {limit} open files are allowed and a broker needs {least} to begin with, then two a partition and one a "
            "connection: raise it with `ulimit -n`, or LimitNOFILE of the service"
        )


class FolderOfAnotherBroker(BrokerError):
    """The data folder was written by a broker with another id."""

    def __init__(self, folder: Path, found_id: int, wanted_id: int) -> None:
        self.folder, self.found_id, self.wanted_id = folder, found_id, wanted_id
        super().__init__(
            f"data folder {folder} belongs to broker {found_id}, not {wanted_id}: "
            f"start with --id {found_id} or give another --data"
        )


class FolderOfOldFormat(BrokerError):
    """The data folder was written by a release whose logs are laid out otherwise."""

    def __init__(self, folder: Path, found: int, known: int) -> None:
        super().__init__(
            f"the data folder {folder} is of log format {found} and this release reads and writes format {known}, in which a "
            "batch's offsets end where the next batch begins (decision 1). Nothing in it was changed. Give an empty folder, "
            f"or go on with a release that writes format {found} and copy the topics over with any Kafka client"
        )


class FolderDamaged(BrokerError):
    """The data folder's own description cannot be read."""


class AddressInUse(BrokerError):
    """The address cannot be listened on."""

    @classmethod
    def because(
        cls, what: str, address: tuple[str, int], error: OSError, *, host_said_by: str, port_said_by: str
    ) -> "AddressInUse":
        """Return the error with the advice that fits: `what` could not be done on `address` (host, port)."""
        host, port = address
        if error.errno in (errno.EACCES, errno.EPERM):
            advice = f"this user may not listen on port {port}: give another with {port_said_by}"
        elif isinstance(error, socket.gaierror) or error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            advice = f"{host} is no address of this machine: give another with {host_said_by}"
        else:
            advice = f"stop what listens there or give another {port_said_by}"
        return cls(f"{what} on {host}:{port}: {error}: {advice}")


class Overloaded(BrokerError):
    """Too much waits for ZooKeeper already."""

    retriable: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__("too many calls to ZooKeeper are waiting already: try again")


class BeingDeleted(BrokerError):
    """A topic is to be made while one of its name is still being deleted."""

    retriable: ClassVar[bool] = True

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(f"topic {topic!r} is still being deleted: try again in a moment")


class NotMorePartitions(BrokerError):
    """A topic is to get partitions, and has as many already."""

    def __init__(self, topic: str, present: int, wanted: int) -> None:
        self.topic, self.present, self.wanted = topic, present, wanted
        super().__init__(
            f"topic {topic!r} has {present} partitions and was to have {wanted}: partitions are only ever added, give more"
        )


class FrameRefused(Exception):
    """A frame that has no response in the protocol. The connection is closed, and the message goes to the log.

    `reason` is what metrics count it under: one of few words, never one of the peer's own.
    """

    def __init__(self, why: str, reason: str = "refused") -> None:
        self.reason = reason
        super().__init__(why)
