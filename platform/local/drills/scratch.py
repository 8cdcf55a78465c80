"""A topic of a drill's own: made for it, filled by a real producer through the SDK, and removed from everywhere at the end.

A drill damages nothing else: no other topic shares its log, its table or its windows.
"""

import json
import shutil
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import quote

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

from ...audit.model.windows import WINDOW_MS
from ...audit.service.settings import AuditSettings
from ...audit.service.settings import load as load_settings
from ...client.admin import create_topic
from ...client.connection.cluster import Cluster
from ...client.errors import UnknownTopic
from ...client.topic_admin import delete_topic
from ...errors import HeadraceError
from ...runtime import http_credentials
from ...runtime.layout import SCRATCH_PREFIX, Layout
from ...runtime.status import read_status
from ...sdk import ACCESS_LOG_SCHEMA, EventLogger
from .. import audit_queries, commands, control
from ..supervisor import process_table
from .drill import DrillError, DrillResult, Progress
from .expected import Windows

HOUR_MS = 3_600_000
WINDOW_COUNT = 3
EVENTS_A_WINDOW = 10
MIRRORED_MS = 60_000
MIRROR_LETS_GO_MS = 20_000
LOGGER_START_MS = 30_000
NAMESPACE = "warehouse"
"""Of the tables, and the name of their catalog: `spark/warehouse/warehouse.py`."""
PROOFS = ("headrace", "proofs")


class Scratch:
    """One drill's topic, with one partition. `make` it, then `remove` it whatever happened."""

    def __init__(self, layout: Layout, drill: str) -> None:
        self.layout = layout
        self.topic = f"{SCRATCH_PREFIX}{drill}_{uuid.uuid4().hex[:8]}"
        hour_ms = time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS - 2 * HOUR_MS
        self.windows = tuple(hour_ms + number * WINDOW_MS for number in range(1, WINDOW_COUNT + 1))
        """The windows of its events: of an hour that is over, so that only the verdict keeps it from being published."""

    def make(self) -> bool:
        """Return whether the topic is new."""
        cluster = Cluster(self.layout.live_bootstrap, client_id="headrace-drill")
        try:
            return create_topic(cluster, self.topic, 1)
        finally:
            cluster.close()

    def log_events(self, *, refused: int = 0) -> int:
        """Log the same number of events in each window, every one a batch of its own; return how many. Seals.

        `refused`: how many more in the middle window do not fit the schema, and go to quarantine. Raises the SDK's
        errors. Event n has the path `/drill/n` in six digits.
        """
        with EventLogger(
            self.topic,
            ACCESS_LOG_SCHEMA,
            bootstrap=self.layout.live_bootstrap,
            registry_url=self.layout.registry_url,
            application="drill",
            lateness_ms=None,
            start_timeout_ms=LOGGER_START_MS,
        ) as logger:
            for number in range(WINDOW_COUNT * EVENTS_A_WINDOW):
                event = {"client_ip": "127.0.0.1", "method": "GET", "path": path_of(number), "status": 200}
                logger.log(event, event_time_ms=self.windows[number // EVENTS_A_WINDOW] + number)
                logger.flush()
            for _ in range(refused):
                logger.log({"client_ip": 7}, event_time_ms=self.windows[1])
        return WINDOW_COUNT * EVENTS_A_WINDOW

    def await_mirrored(self) -> Windows:
        """Return the windows once live, mirror and offline count every event of each. Raises DrillError."""

        def is_mirrored(found: Windows) -> bool:
            counts = [
                found[start]["tiers"].get(tier)
                for start in self.windows
                if start in found
                for tier in ("live", "mirror", "offline")
            ]
            return counts == [EVENTS_A_WINDOW] * (3 * WINDOW_COUNT)

        held, found = self.wait_until(is_mirrored, MIRRORED_MS)
        if not held:
            seen = {start: (window["verdict"], window["tiers"], window["reason"]) for start, window in found.items()}
            raise DrillError(f"{self.topic} is not mirrored within {MIRRORED_MS // 1000} s; the audit says {seen}")
        return found

    def wait_until(self, condition: Callable[[Windows], bool], within_ms: int) -> tuple[bool, Windows]:
        return audit_queries.wait_until(self.layout, self.topic, condition, within_ms=within_ms, every_ms=200)

    def load(self, *steps: str) -> None:
        """Load, count and publish the topic, or only the steps named. Raises CommandFailed."""
        for step in steps or (None,):
            words = ["--step", step] if step is not None else []
            commands.output_of(self.layout, "load", self.topic, *words, "--wait", "1")

    def count_live(self) -> int:
        """Return how many records of the middle window the audit counts on live."""
        found = audit_queries.windows(self.layout, self.topic).get(self.windows[1], {})
        return int(found.get("tiers", {}).get("live") or 0)

    def row_count(self) -> int:
        """Return how many rows of the topic readers see. Raises CommandFailed."""
        answer = commands.output_of(self.layout, "query", f'SELECT count(*) AS n FROM "{self.topic}"', "--json")
        return int(json.loads(answer)[0]["n"])

    def remove(self) -> list[str]:
        """Delete the topic on both clusters, its schema and its table; return what could not be removed."""
        left: list[str] = []
        steps = {
            "the live topic": self.delete_live,
            "the quarantine topic": self.delete_quarantine,
            "the offline topic": self._delete_copy,
            "the schema": self._delete_schema,
            "the warehouse's table": self._drop_table,
        }
        for what, step in steps.items():
            try:
                step()
            except (HeadraceError, OSError) as error:
                left.append(f"{what} of {self.topic}: {error}")
        return left

    def delete_live(self) -> None:
        self._delete_topic(self.layout.live_bootstrap)

    def delete_quarantine(self) -> None:
        self._delete_topic(self.layout.live_bootstrap, ".quarantine")

    def delete_offline(self) -> None:
        """Delete the copy as it is now; the mirror may create it again at once."""
        self._delete_topic(self.layout.offline_bootstrap)

    def _delete_topic(self, bootstrap: str, suffix: str = "") -> None:
        cluster = Cluster(bootstrap, client_id="headrace-drill")
        try:
            with suppress(UnknownTopic):
                delete_topic(cluster, self.topic + suffix)
        finally:
            cluster.close()

    def _delete_copy(self) -> None:
        """Delete the offline topic. While the mirror knows the live one, it would make the copy again."""
        deadline = time.monotonic() + MIRROR_LETS_GO_MS / 1000
        while self._is_being_mirrored() and time.monotonic() < deadline:
            time.sleep(0.2)
        self.delete_offline()

    def _is_being_mirrored(self) -> bool:
        status = read_status(self.layout.run / "mirror.json") or {}
        return any(one["topic"] == self.topic for one in status.get("partitions", ()))

    def _delete_schema(self) -> None:
        subject = f"{self.layout.registry_url}/subjects/{quote(self.topic)}-value"
        for url in (subject, f"{subject}?permanent=true"):
            try:
                asked = urllib.request.Request(url, method="DELETE", headers=http_credentials.headers("REGISTRY"))
                urllib.request.urlopen(asked, timeout=10).close()
            except urllib.error.HTTPError as error:
                with error:
                    if error.code != 404:
                        raise

    def catalog(self) -> SqlCatalog:
        """Return the warehouse's catalog as another engine opens it; close it."""
        return SqlCatalog(NAMESPACE, uri=f"sqlite:///{quote(str(self.layout.warehouse / 'catalog.db'))}?timeout=30")

    def _drop_table(self) -> None:
        if (self.layout.warehouse / "catalog.db").exists():
            catalog = self.catalog()
            with suppress(NoSuchTableError):
                catalog.drop_table((NAMESPACE, self.topic))
            with suppress(NoSuchTableError):
                proofs = catalog.load_table(PROOFS)
                mine = f"topic == '{self.topic}'"
                if len(proofs.scan(mine).to_arrow()):
                    proofs.delete(mine)
            catalog.close()
        for folder in ("tables", "published"):
            shutil.rmtree(self.layout.warehouse / folder / self.topic, ignore_errors=True)


def on_scratch_topic(layout: Layout, drill: str, body: Callable[[Scratch, DrillResult], None], progress: Progress) -> DrillResult:
    """Carry out a drill on a topic of its own, which is removed whatever happens. Raises what `body` raises."""
    control.running(layout)
    scratch = Scratch(layout, drill)
    result = DrillResult(drill, scratch.topic)
    try:
        body(scratch, result)
    finally:
        with result.step("removing the topic", progress):
            left = scratch.remove()
        for fault in left:
            progress(f"not removed: {fault}")
    result.claim("nothing of the topic is left", not left, "; ".join(left))
    return result


def deadline_ms(layout: Layout, tier: str) -> int:
    """Return how long a tier may be silent, by the settings with which this platform's audit service runs."""
    command = next((spec.command for spec in process_table.load(layout) if spec.name == "audit"), ())
    where = command.index("--settings") + 1 if "--settings" in command else None
    settings = AuditSettings() if where is None else load_settings(layout.home.joinpath(command[where]))
    return settings.deadline_ms.get(tier, settings.default_deadline_ms)


def path_of(number: int) -> str:
    """Return the path of event `number`: always of the same length."""
    return f"/drill/{number:06}"
