"""The settings of one process of the requests-per-minute service."""

from dataclasses import dataclass, field
from pathlib import Path

from ...audit.model.tiers import CONSUMER
from ...runtime.monitoring.status_pages import PagesAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRateSettings:
    """One process's settings."""

    topic: str
    group: str
    consumer_id: str
    bootstrap: str
    zookeeper: str | None
    """Of the cluster at `bootstrap`; None: the group coordinates through the cluster itself, by Kafka's protocol."""
    registry: str
    audit_bootstrap: str
    home: Path
    status_file: Path | None = None
    pages: PagesAddress = field(default_factory=PagesAddress)
    cluster: str = "live"
    """The cluster's name in the origin of quarantine records."""
    session_timeout_ms: int = 6_000
    """How long the partitions of a killed member wait for another owner."""
    flush_every_ms: int = 1_000
    """The greatest age of the state, the reports and the commit."""

    @property
    def tier(self) -> str:
        return f"{CONSUMER}{self.group}"
