"""How far each table is loaded, as it was read last: a table that has not changed since need not be opened.

    <warehouse>/known-offsets.json   {"<topic>": ["<where its metadata is>", {"<partition>": loaded up to}]}

Metadata of Iceberg is never changed, only replaced by another file. So the same place means the same offsets, for every writer.
The file may be lost at any time: then each table is opened once.
"""

import json
from collections.abc import Mapping

from ...runtime.logs import get_logger
from ..errors import StoreUnreachable
from ..warehouse.store import replace
from ..warehouse.warehouse import Warehouse

log = get_logger(__name__)

NAME = "known-offsets.json"

Known = tuple[str, Mapping[int, int]]


class KnownOffsets:
    """The offsets of one warehouse's tables."""

    def __init__(self, warehouse: Warehouse) -> None:
        """Ask the catalog once for all tables, and read the file."""
        self._warehouse = warehouse
        self._file = warehouse.folder / NAME
        self._places = warehouse.places()
        self._known = self._read() if self._places else {}
        self._is_changed = False

    def of(self, topic: str) -> Mapping[int, int]:
        """Return partition → offset up to which it is loaded; empty if there is no table. Raises as `Warehouse.table`."""
        place = self._places.get(topic) if self._places is not None else None
        known = self._known.get(topic)
        if place is not None and known is not None and known[0] == place:
            return known[1]
        table = None if self._places is not None and place is None else self._warehouse.table(topic)
        if table is None:
            return {}
        loaded = table.offsets()
        if place is not None:
            # It may have been changed since `places`: what was read is of where it is now.
            self._known[topic] = (table.iceberg.metadata_location, loaded)
            self._is_changed = True
        return loaded

    def keep(self) -> None:
        """Write the file, if anything was learnt. If the store does not answer, the next run opens the tables again."""
        if not self._is_changed or self._places is None:
            return
        words = {topic: [place, loaded] for topic, (place, loaded) in self._known.items() if topic in self._places}
        try:
            replace(self._file, json.dumps(words, separators=(",", ":")).encode())
        except (OSError, StoreUnreachable) as error:
            log.warning("offsets_not_kept", file=str(self._file), reason=str(error))

    def _read(self) -> dict[str, Known]:
        try:
            words = json.loads(self._file.read_bytes())
            return {
                topic: (place, {int(name): int(offset) for name, offset in loaded.items()})
                for topic, (place, loaded) in words.items()
            }
        except FileNotFoundError:
            return {}
        except (OSError, StoreUnreachable, ValueError, TypeError, AttributeError) as error:
            log.warning("offsets_unreadable", file=str(self._file), reason=str(error))
            return {}
