"""A sink's settings; each kind of destination has its own besides."""

from dataclasses import dataclass
from pathlib import Path

from ...audit.model.tiers import AT_OFFLINE, SINK
from ...schema_registry.client.cache_folder import DEFAULT, Folder


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSettings:
    """One process. Times in ms, sizes in bytes."""

    topics: tuple[str, ...]
    group: str
    consumer_id: str
    bootstrap: str
    registry: str
    cluster: str = "live"
    """Its name in quarantine records."""
    audit_bootstrap: str | None
    """The cluster of the audit's topic, which it tells what its destination has; None: it tells nothing."""
    cache_folder: Folder = DEFAULT
    """Of schemas, for when the registry is away; None keeps none."""
    status_file: Path | None = None
    flush_every_ms: int = 1_000
    most_records: int = 1_000
    """So many are held at most, then they are flushed."""
    most_bytes: int = 8 << 20
    session_timeout_ms: int = 10_000
    queue_bytes: int = 16 << 20

    @property
    def tier(self) -> str:
        """Its name in the audit: of a sink on the offline cluster another one than on the live one."""
        return f"{SINK}{self.group}{AT_OFFLINE if self.is_behind_mirror else ''}"

    @property
    def is_behind_mirror(self) -> bool:
        """Return whether it reads the copies that a mirror made."""
        return self.cluster == "offline"
