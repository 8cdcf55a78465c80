"""The seven compatibility levels: which versions must be able to read each other's data. Pure. Source: Confluent's
documentation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from .avro_types import AvroType
from .resolution import INCOMPATIBILITY_LIMIT, Incompatibility, incompatibilities


class CompatibilityLevel(StrEnum):
    """BACKWARD: the new schema reads the last version's data. FORWARD: the last version reads the new schema's data. FULL: both.
    TRANSITIVE: the same with every version, not only the last."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        return self.name.endswith("_TRANSITIVE")

    @property
    def new_reads_old(self) -> bool:
        return self.name.startswith(("BACKWARD", "FULL"))

    @property
    def old_reads_new(self) -> bool:
        return self.name.startswith(("FORWARD", "FULL"))


DEFAULT_LEVEL = CompatibilityLevel.BACKWARD


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version to compare with: its number and its types."""

    version: int
    type: AvroType


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelBreach:
    """One reason why the new schema is not compatible with a version."""

    version: int
    is_new_reader: bool
    fault: Incompatibility

    def __str__(self) -> str:
        who = "the new schema cannot read" if self.is_new_reader else "data of the new schema cannot be read with"
        return f"{who} version {self.version}: at {self.fault}"


def breaches(new: AvroType, versions: Sequence[Version], level: CompatibilityLevel) -> list[LevelBreach]:
    """Return every reason why `new` may not follow `versions` (ascending) under `level`; empty if it may."""
    compared = versions if level.is_transitive else versions[-1:]
    found: list[LevelBreach] = []
    for old in reversed(compared):
        if level.new_reads_old:
            faults = incompatibilities(reader=new, writer=old.type)
            found.extend(LevelBreach(version=old.version, is_new_reader=True, fault=fault) for fault in faults)
        if level.old_reads_new:
            faults = incompatibilities(reader=old.type, writer=new)
            found.extend(LevelBreach(version=old.version, is_new_reader=False, fault=fault) for fault in faults)
        if len(found) >= INCOMPATIBILITY_LIMIT:
            break
    return found[:INCOMPATIBILITY_LIMIT]
