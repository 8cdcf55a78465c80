"""What may be published although records are lost by name: `<warehouse>/publish.toml`, optional.

[default]
despite = []                # names of losses without an address: sampled, expired, refused, send_failed, dropped_…;
                            # and schema_refused: in quarantine, since the table cannot hold what they were written with
[topics.access_log]
despite = ["expired"]
"""

import tomllib
from typing import Any

from ...audit.model.messages import LOSS_NAMES
from ...wire.quarantine_record import SCHEMA_REFUSED
from ..errors import WarehouseError
from ..warehouse.store import StorePath

NAME = "publish.toml"


def despite(warehouse: StorePath, topic: str) -> frozenset[str]:
    """Return the losses that do not keep the topic's hours shut; none by default. Raises WarehouseError for a wrong file."""
    path = warehouse / NAME
    try:
        words = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return frozenset()
    except (OSError, ValueError) as error:
        raise WarehouseError(f"{path} cannot be read: {error}") from error
    topics = words.pop("topics", {})
    sections: dict[str, Any] = {**{f"topics.{name}": one for name, one in topics.items()}, **words}
    faults = [fault for name, section in sections.items() if (fault := _fault(name, section))]
    if faults:
        raise WarehouseError(f"{path}: {'; '.join(faults)}")
    chosen = topics.get(topic, words.get("default", {}))
    return frozenset(chosen.get("despite", ()))


def _fault(name: str, section: Any) -> str:
    if name != "default" and not name.startswith("topics."):
        return f"there is no section [{name}]: known are [default] and [topics.NAME]"
    if not isinstance(section, dict) or set(section) - {"despite"}:
        return f"[{name}] holds more than `despite`"
    losses = section.get("despite", [])
    known = (*LOSS_NAMES, SCHEMA_REFUSED)
    wrong = [loss for loss in losses if loss not in known] if isinstance(losses, list) else [losses]
    return f"[{name}] despite: {wrong[0]!r} is not the name of a loss; known are {', '.join(known)}" if wrong else ""
