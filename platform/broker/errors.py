"""What can go wrong with a broker as a whole. What goes wrong with one request is an error code on the wire, never an
exception here.
"""

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


class FolderOfAnotherBroker(BrokerError):
    """The data folder was written by a broker with another id."""

    def __init__(self, folder: Path, found_id: int, wanted_id: int) -> None:
        self.folder, self.found_id, self.wanted_id = folder, found_id, wanted_id
        super().__init__(
            f"data folder {folder} belongs to broker {found_id}, not {wanted_id}: "
            f"start with --id {found_id} or give another --data"
        )


class FolderDamaged(BrokerError):
    """The data folder's own description cannot be read."""


class AddressInUse(BrokerError):
    """The address cannot be listened on."""


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
