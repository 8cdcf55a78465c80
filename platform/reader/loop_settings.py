"""The settings of one member of a group that reads topics."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..schema_registry.client.cache_folder import DEFAULT, Folder


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """One process. Times in ms, sizes in bytes."""

    topics: tuple[str, ...]
    group: str
    tier: str
    """Its name in the audit."""
    consumer_id: str
    bootstrap: str
    zookeeper: str | None = None
    """`host:port[/chroot]` for groups of the paper's kind; None for Kafka's group protocol."""
    registry: str
    cluster: str = "live"
    """Its name in quarantine records."""
    audit_bootstrap: str | None
    """The cluster of the audit's topic, where it reports what is done; None: it reports nothing."""
    cache_folder: Folder = DEFAULT
    """Of schemas, for when the registry is away; None keeps none."""
    event_classes: Mapping[str, type] = field(default_factory=dict)
    """Topic → the class of its events; those of other topics are dicts."""
    status_file: Path | None = None
    flush_every_ms: int = 1_000
    most_records: int = 1_000
    """So many are held at most, then they are flushed."""
    most_bytes: int = 8 << 20
    session_timeout_ms: int = 10_000
    max_handle_ms: int = 30_000
    """A member that does not come back from its processor for this long loses the partitions that others wait for."""
    leaves_when_stalled: bool = False
    """It then leaves the group, whether others wait or not, and joins again when it is back."""
    auto_offset_reset: str = "smallest"
    """Where a partition without a committed offset begins: smallest or largest."""
    waits_for_audit: bool = True
    """Reading waits where the audit's topic is away for longer than can be remembered. False: it continues, and those records are
    never reported: their row stays UNKNOWN.
    """
    queue_bytes: int = 16 << 20
    stalled_after_ms: int = 0
    """So long a trouble lasts before the status says so; a refused login is shown at once."""
    poll_ms: int = 100
    """Without records it looks this often whether the processor is to be flushed."""

    @property
    def is_behind_mirror(self) -> bool:
        """Return whether it reads the copies that a mirror made."""
        return self.cluster == "offline"

    def of_thread(self, number: int) -> "LoopSettings":
        """Return the settings of another member in the same process."""
        name = None if self.status_file is None else self.status_file.with_stem(f"{self.status_file.stem}-{number}")
        return replace(self, consumer_id=f"{self.consumer_id}-{number}", status_file=name)
