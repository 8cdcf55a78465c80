"""Which broker and process own a data folder: a lock that one process holds, and a small file with the folder's and broker's ids.

`<data>/broker.json`: {"version": 2, "folder_id": uuid, "broker_id": n}. `<data>/.lock`: held with flock(2) while the process
lives, so a kill -9 frees it. By the folder id a restarted broker recognises the ZooKeeper node that it left behind.
`<data>/cluster.json`: {"cluster_id"}: on an ensemble that has lost its tree no topic is made beside the logs of the same name."""

import fcntl
import json
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...runtime.whole_file import replace_file
from ..errors import (
    FolderDamaged,
    FolderInUse,
    FolderOfAnotherBroker,
    FolderOfAnotherCluster,
    FolderOfOldFormat,
    FolderUnusable,
)
from ..log import LOG_FORMAT

CLUSTER = "cluster.json"


class FolderLock:
    """The exclusive right to a data folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    def take(self) -> "FolderLock":
        """Take the folder's lock; create the folder first if it does not exist.

        Raises: FolderInUse when another process holds it; FolderUnusable when it cannot be made, written or locked.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise FolderUnusable(self._folder, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise FolderInUse(self._folder) from None
        except OSError as error:  # a file system that has no locks
            os.close(descriptor)
            raise FolderUnusable(self._folder, error) from error
        self._descriptor = descriptor
        return self

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderIdentity:
    """The content of `broker.json`."""

    folder_id: str
    broker_id: int


def identify(folder: Path, broker_id: int, new_id: Callable[[], str] = lambda: uuid.uuid4().hex) -> FolderIdentity:
    """Return the folder's identity. A new folder's is written first. The caller holds the lock.

    Raises: FolderOfAnotherBroker, FolderOfOldFormat, FolderDamaged; FolderUnusable when it cannot be read, or written the first
    time.
    """
    path = folder / "broker.json"
    try:
        words = json.loads(path.read_text())
        found = FolderIdentity(folder_id=str(words["folder_id"]), broker_id=int(words["broker_id"]))
        version = int(words["version"])
    except FileNotFoundError:
        try:
            return _written(path, FolderIdentity(folder_id=str(uuid.UUID(new_id())), broker_id=broker_id))
        except OSError as error:
            raise FolderUnusable(folder, error) from error
    except OSError as error:
        raise FolderUnusable(folder, error) from error
    except (ValueError, KeyError, TypeError) as error:
        raise FolderDamaged(
            f"{path} cannot be read ({error}): restore it, its folder_id is what ZooKeeper knows it by"
        ) from error
    if version < LOG_FORMAT:
        raise FolderOfOldFormat(folder, version, LOG_FORMAT)
    if version != LOG_FORMAT:
        raise FolderDamaged(f"{path} is of format {version}, this broker knows {LOG_FORMAT}: use the release that wrote it")
    if found.broker_id != broker_id:
        raise FolderOfAnotherBroker(folder, found.broker_id, broker_id)
    return found


def check_cluster(folder: Path, there: str | None) -> None:
    """Return if the folder is of the cluster `there` (None: ZooKeeper knows none), or of none yet.

    Raises: FolderOfAnotherCluster, FolderDamaged; FolderUnusable when it cannot be read.
    """
    path = folder / CLUSTER
    try:
        found = str(json.loads(path.read_text())["cluster_id"])
    except FileNotFoundError:
        return
    except OSError as error:
        raise FolderUnusable(folder, error) from error
    except (ValueError, KeyError, TypeError) as error:
        raise FolderDamaged(f"{path} cannot be read ({error}): delete it if this folder is of the cluster {there}") from error
    if found != there:
        raise FolderOfAnotherCluster(folder, found, there)


def note_cluster(folder: Path, cluster_id: str) -> None:
    """Store of which cluster the folder is. Raises FolderUnusable."""
    path = folder / CLUSTER
    try:
        if not path.exists():
            replace_file(path, json.dumps({"cluster_id": cluster_id}).encode(), is_durable=True)
    except OSError as error:
        raise FolderUnusable(folder, error) from error


def _written(path: Path, identity: FolderIdentity) -> FolderIdentity:
    words = {"version": LOG_FORMAT, "folder_id": identity.folder_id, "broker_id": identity.broker_id}
    scratch = path.with_suffix(".new")
    with scratch.open("w") as file:
        file.write(json.dumps(words))
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)
    return identity
