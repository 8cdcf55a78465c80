"""Up to where this broker has issued producer ids: `<data>/producer_ids.json`, {"prefix", "end"}, written before a block is used.

ZooKeeper that came back older than it was would issue the ids again. By this file that is noticed (`TreeOlder`).
"""

import json
from pathlib import Path

from ...runtime.whole_file import replace_file
from ..errors import FolderDamaged, FolderUnusable

FILE = "producer_ids.json"


class IssuedIds:
    """The end of the last block that the broker of a data folder got. Used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def end(self, prefix: int) -> int:
        """Return the first counter behind all blocks of this prefix; 0: none. Raises FolderDamaged, FolderUnusable."""
        try:
            words = json.loads(self._path.read_text())
            return int(words["end"]) if int(words["prefix"]) == prefix else 0
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise FolderUnusable(self._path.parent, error) from error
        except (ValueError, KeyError, TypeError) as error:
            raise FolderDamaged(f"{self._path} cannot be read ({error}): delete it if ZooKeeper was never set back") from error

    def note(self, prefix: int, end: int) -> None:
        """Store it durably. Raises FolderUnusable."""
        try:
            replace_file(self._path, json.dumps({"prefix": prefix, "end": end}).encode(), is_durable=True)
        except OSError as error:
            raise FolderUnusable(self._path.parent, error) from error
