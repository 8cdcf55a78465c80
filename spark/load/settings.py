"""The addresses and folders of a load."""

from dataclasses import dataclass
from pathlib import Path

from ...runtime.layout import Layout
from ..warehouse.settings import WarehouseSettings

SPLITS = 4
"""About how many tasks read at once. More data makes more tasks, and none reads more than `max_split_span`."""

ALL_TOPICS = "*"
"""In place of a topic, which no topic is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """The addresses and folders of a load."""

    topic: str
    bootstrap: str
    quarantine_bootstrap: str
    registry_url: str
    warehouse: WarehouseSettings | Path
    """A folder has its catalog in it, and needs no setting."""
    home: Path | None
    """The folder of the failpoints; None: no failpoints."""
    master: str | None = None
    """Spark's master; None: local[2], or the one given to spark-submit."""
    splits: int = SPLITS
    max_split_span: int = 64 << 20
    """The most offsets (bytes, in a byte-addressed log) of one task."""

    @classmethod
    def of(cls, layout: Layout, topic: str, *, master: str | None = None) -> "LoadSettings":
        """Return the settings of a local platform."""
        return cls(
            topic=topic,
            bootstrap=layout.offline_bootstrap,
            quarantine_bootstrap=layout.live_bootstrap,
            registry_url=layout.registry_url,
            warehouse=WarehouseSettings.of(layout),
            home=layout.home,
            master=master,
        )
