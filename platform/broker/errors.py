"""The errors of a broker as a whole, and the one that makes a request close its connection. Any other fault of a request is an
error code on the wire."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from ..errors import HeadraceError


class BrokerError(HeadraceError):
    """The broker cannot start, or must stop."""


class SettingsRefused(BrokerError):
    """The settings are wrong. `faults` has every fault."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("the broker's settings are wrong: " + "; ".join(self.faults))


class TlsRefused(BrokerError):
    """A key, a certificate or a CA file cannot be used."""

    def __init__(self, setting: str, path: Path, why: str, what: str) -> None:
        self.setting, self.path = setting, path
        super().__init__(f"{setting}: cannot use {path}: {why}. {what}")


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


class FolderOfAnotherCluster(BrokerError):
    """The data folder is of a cluster that ZooKeeper does not know: it has lost its tree, or it is another one."""

    def __init__(self, folder: Path, found: str, there: str | None) -> None:
        self.folder, self.found, self.there = folder, found, there
        knows = "has no cluster id" if there is None else f"is of the cluster {there}"
        super().__init__(
            f"data folder {folder} is of the cluster {found}, and ZooKeeper {knows}: its topics would be created again, beside "
            "the logs: `headrace zookeeper import` brings a lost tree back (docs/OPERATIONS.md); delete cluster.json "
            "from the folder "
            "if you do not need the logs"
        )


class FolderOfOldFormat(BrokerError):
    """The data folder was written by a release with another log format."""

    def __init__(self, folder: Path, found: int, known: int) -> None:
        super().__init__(
            f"the data folder {folder} is of log format {found} and this release reads and writes format {known}, in which a "
            "batch's offsets end where the next batch begins (decision 1). Nothing in it was changed. Give an empty folder, "
            f"or use a release that writes format {found} and copy the topics over with any Kafka client"
        )


class FolderDamaged(BrokerError):
    """The data folder's `broker.json` cannot be read."""


class Overloaded(BrokerError):
    """Too many calls of ZooKeeper wait already."""

    retriable: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__("too many calls to ZooKeeper are waiting already: try again")


class BeingDeleted(BrokerError):
    """A topic of this name is still being deleted, so it cannot be created yet."""

    retriable: ClassVar[bool] = True

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(f"topic {topic!r} is still being deleted: try again in a moment")


class NotMorePartitions(BrokerError):
    """A topic has as many partitions already as it should get."""

    def __init__(self, topic: str, present: int, wanted: int) -> None:
        self.topic, self.present, self.wanted = topic, present, wanted
        super().__init__(
            f"topic {topic!r} has {present} partitions and was to have {wanted}: partitions are only ever added, give more"
        )


class NotEnoughBrokers(BrokerError):
    """A topic is to have more replicas than there are brokers."""

    def __init__(self, replication_factor: int, broker_ids: Sequence[int]) -> None:
        self.replication_factor, self.broker_ids = replication_factor, tuple(broker_ids)
        super().__init__(
            f"replication factor {replication_factor} and the cluster has {len(broker_ids)} live brokers ({list(broker_ids)}): "
            "each replica needs a broker of its own; start more brokers, or ask for fewer replicas"
        )


class FrameRefused(Exception):
    """A frame to which the protocol has no response. The connection is closed, and the message goes to the log.

    `reason` is the label in the metrics: one of a few words, never text from the peer.
    """

    def __init__(self, why: str, reason: str = "refused") -> None:
        self.reason = reason
        super().__init__(why)


class PeerSilent(BrokerError):
    """Another broker has not answered a question, or its answer cannot be taken."""

    retriable: ClassVar[bool] = True

    def __init__(self, broker_id: int, why: str) -> None:
        self.broker_id, self.why = broker_id, why
        super().__init__(f"broker {broker_id} gives no answer: {why}. See whether it runs, then try again")
