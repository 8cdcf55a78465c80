"""The thread that copies topic settings and group offsets, each at its interval.

What fails is told, and tried again next time.
"""

import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...client.connection.cluster import Cluster
from ...client.errors import ClientError
from ...client.fetch.fetched import TopicPartition
from ...client.topic_admin import change_topic_settings, settings_of_topics
from ...errors import HeadraceError
from ...runtime.clock import SystemClock
from ...runtime.logs import get_logger
from ..engine import Engine
from ..topics.naming import Naming, patterns
from .group_offsets import EXCLUDE as GROUPS_EXCLUDE
from .group_offsets import GroupOffsets
from .topic_settings import EXCLUDE as CONFIG_EXCLUDE
from .topic_settings import wanted
from .translation import Translation

log = get_logger(__name__)

REQUEST_TIMEOUT_MS = 10_000
STOP_MS = 1_000
LOOK_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncSettings:
    """What is copied besides records."""

    topic_configs: bool = False
    """Off: retention at the destination is its own; a copy usually outlives its source."""
    config_exclude: str = CONFIG_EXCLUDE
    topic_configs_every_ms: int = 60_000
    group_offsets: bool = False
    groups: str = ".*"
    groups_exclude: str = GROUPS_EXCLUDE
    group_offsets_every_ms: int = 60_000

    @property
    def is_on(self) -> bool:
        return self.topic_configs or self.group_offsets


class Sync:
    """One thread beside the copying; `facts` is for any thread."""

    def __init__(
        self,
        source: str,
        destination: str,
        settings: SyncSettings,
        naming: Naming,
        *,
        destination_engine: Engine,
        translation: Callable[[Cluster], Translation],
        partitions: Callable[[], Iterable[TopicPartition]],
    ) -> None:
        """`partitions`: those that are copied now. `translation` is made with a connection of this thread's own."""
        self._source = Cluster(source, client_id="headrace-mirror-sync", request_timeout_ms=REQUEST_TIMEOUT_MS)
        self._destination = Cluster(destination, client_id="headrace-mirror-sync", request_timeout_ms=REQUEST_TIMEOUT_MS)
        self._settings = settings
        self._naming = naming
        self._engine = destination_engine
        self._partitions = partitions
        self._config_exclude: Sequence[re.Pattern[str]] = patterns(settings.config_exclude)
        self._groups = GroupOffsets(
            self._source,
            self._destination,
            naming,
            translation(self._destination),
            groups=patterns(settings.groups),
            exclude=patterns(settings.groups_exclude),
        )
        self._left_out: dict[str, list[str]] = {}
        self._troubles: dict[str, str] = {}
        self._whole_since_ms: dict[str, int] = {}
        """When the last turn began that ended without trouble (wall clock): what stood in the source then is in the copy."""
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mirror-sync", daemon=True)

    def start(self) -> None:
        if self._settings.is_on:
            self._thread.start()

    def stop(self) -> None:
        self._is_stopping.set()
        self._source.close()
        self._destination.close()
        if self._thread.ident is not None:
            self._thread.join(STOP_MS / 1000)

    def facts(self) -> dict[str, Any]:
        """Return JSON values for the status file."""
        return {
            "topic_configs": self._settings.topic_configs,
            "group_offsets": self._settings.group_offsets,
            "group_offsets_copied_as_of_ms": self._whole_since_ms.get("group offsets"),
            "settings_left_out": dict(self._left_out),
            "trouble": "; ".join(f"{what}: {why}" for what, why in sorted(self._troubles.items())) or None,
        }

    def _run(self) -> None:
        work: list[tuple[str, int, Callable[[], None]]] = []
        if self._settings.topic_configs:
            work.append(("topic settings", self._settings.topic_configs_every_ms, self._topic_settings))
        if self._settings.group_offsets:
            work.append(("group offsets", self._settings.group_offsets_every_ms, self._group_offsets))
        due = dict.fromkeys((what for what, _, _ in work), 0.0)
        while not self._is_stopping.wait(LOOK_MS / 1000):
            for what, every_ms, turn in work:
                if time.monotonic() < due[what] or not any(True for _ in self._partitions()):
                    continue
                due[what] = time.monotonic() + every_ms / 1000
                began_ms = SystemClock().now_ms()
                try:
                    turn()
                    self._troubles.pop(what, None)
                    self._whole_since_ms[what] = began_ms
                except HeadraceError as error:
                    if what not in self._troubles and not self._is_stopping.is_set():
                        log.warning("sync_failed", what=what, error=str(error))
                    self._troubles[what] = str(error)
                except Exception as error:  # a fault of ours here must not end the copying, nor look like success
                    log.error("sync_failed", what=what, exc_info=True)
                    self._troubles[what] = f"our own fault: {error!r}"

    def _group_offsets(self) -> None:
        for group, count in self._groups.turn(self._partitions).items():
            log.info("group_offsets_copied", group=group, partitions=count)

    def _topic_settings(self) -> None:
        names = {topic: self._naming.destination_name(topic) for topic in sorted({name.topic for name in self._partitions()})}
        ours = settings_of_topics(self._source, names)
        theirs = settings_of_topics(self._destination, names.values())
        failed: ClientError | None = None
        for topic, there in names.items():
            of_source, of_destination = ours[topic], theirs[there]
            if isinstance(of_source, ClientError) or isinstance(of_destination, ClientError):
                failed = of_source if isinstance(of_source, ClientError) else failed
                failed = of_destination if isinstance(of_destination, ClientError) else failed
                continue
            found = wanted(of_source, of_destination, destination_engine=self._engine, exclude=self._config_exclude)
            if found.to_set:
                change_topic_settings(self._destination, there, to_set=found.to_set)
                log.info("topic_settings_copied", topic=there, settings=found.to_set)
            left_out = sorted(found.unknown + found.kept)
            if left_out != self._left_out.get(topic, []):
                log.warning("topic_settings_left_out", topic=topic, unknown=found.unknown, kept=found.kept)
            self._left_out[topic] = left_out
        if failed is not None:
            raise failed
