"""Which files of a partition are finished: the intent to rename them is on the disk before the first is renamed.

`<folder>/.headrace/<group>/<topic>-<partition>.json` = `{"next_offset", "renames": [[from, to], …]}`. Who takes the partition
over carries out what is left of it, and begins at `next_offset`: so a kill at any moment leaves each record in one file.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from ...client.fetch.fetched import TopicPartition
from ...runtime.whole_file import replace_file
from .sink import SinkRefused


class FileLedger:
    """The ledgers of one group in one folder."""

    def __init__(self, folder: Path, group: str) -> None:
        self.folder = folder
        self.scratch = folder / ".headrace" / group

    def open(self) -> None:
        """Raises SinkRefused: the folder cannot be written."""
        try:
            self.scratch.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SinkRefused(f"{self.scratch} cannot be made: {error.strerror or error}") from error

    def recover(self, name: TopicPartition) -> int | None:
        """Finish what was begun, and remove what was not; return where to continue, None if nothing was ever finished."""
        ledger = self._path(name)
        found = None
        try:
            words = json.loads(ledger.read_text())
            found = int(words["next_offset"])
            self._rename([(Path(one), Path(other)) for one, other in words["renames"]])
        except FileNotFoundError:
            pass
        except (ValueError, KeyError, TypeError) as error:
            raise SinkRefused(f"{ledger} is not a ledger of a sink ({error!r}): without it, some is written again") from error
        for left in self.scratch.glob(f"{_stem(name)}@*.tmp"):
            left.unlink(missing_ok=True)
        return found

    def temporary(self, name: TopicPartition, words: str) -> Path:
        """Return a name for a file that is being written."""
        return self.scratch / f"{_stem(name)}@{words}.tmp"

    def finish(self, name: TopicPartition, next_offset: int, renames: Sequence[tuple[Path, Path]]) -> None:
        """Give files, which are on the disk, their names. Raises OSError: called again, it continues."""
        words = {"next_offset": next_offset, "renames": [[str(one), str(other)] for one, other in renames]}
        replace_file(self._path(name), json.dumps(words).encode(), is_durable=True)
        _sync_folder(self.scratch)
        self._rename(renames)

    def _rename(self, renames: Sequence[tuple[Path, Path]]) -> None:
        for one, other in renames:
            if one.exists():
                other.parent.mkdir(parents=True, exist_ok=True)
                one.rename(other)
        for folder in sorted({above for _, other in renames for above in (other.parent, other.parent.parent)}):
            _sync_folder(folder)

    def _path(self, name: TopicPartition) -> Path:
        return self.scratch / f"{_stem(name)}.json"


def _stem(name: TopicPartition) -> str:
    return f"{name.topic}-{name.partition}"


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
