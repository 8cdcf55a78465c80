"""Opens hours to readers: asks the audit, decides by `gate`, writes proofs, sets the table's property.

Hours that are not proven (any more) are shut.

    <warehouse>/published/<topic>/<YYYY-MM-DDTHH>/_SUCCESS     JSON: the hour, its rows, the snapshot, the audit's own windows
    table property headrace.published                          the hours, and the snapshot whose rows were proven

Readers see the hours' rows as of that snapshot; rows that are loaded later wait for the next proof. The property decides: a proof
without it is a leftover.
"""

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...audit.client import ServiceRefused, ServiceUnreachable, completeness
from ...runtime.clock import Clock, SystemClock
from ...runtime.layout import Layout
from ...runtime.logs import get_logger
from ...runtime.whole_file import replace_file
from ..errors import AuditUnreachable
from ..warehouse.hours import hour_name
from ..warehouse.topic_table import Published, TopicTable
from ..warehouse.warehouse import Warehouse
from .gate import AuditedWindow, HourDecision, decide

log = get_logger(__name__)

WAIT_MS = 60_000
ASK_EVERY_MS = 500
ASK_TIMEOUT_MS = 20_000

Ask = Callable[[str], Sequence[AuditedWindow]]
"""Returns the audit's windows of a topic. Raises AuditUnreachable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOutcome:
    """The open hours, and why the others are shut."""

    topic: str
    published: tuple[str, ...] = ()
    """Hours opened by this run."""
    withdrawn: tuple[str, ...] = ()
    """Hours that were open and no longer are."""
    open_hours: tuple[str, ...] = ()
    shut: tuple[tuple[str, str], ...] = ()
    """Hour and reason."""


class Gate:
    """Opens and shuts the hours of one topic."""

    def __init__(self, warehouse: Warehouse, topic: str, ask: Ask, *, clock: Clock | None = None) -> None:
        self._warehouse = warehouse
        self._topic = topic
        self._ask = ask
        self._clock = clock or SystemClock()

    def publish(self, *, wait_ms: int = WAIT_MS) -> PublishOutcome:
        """Open every proven hour and shut every other; wait up to `wait_ms` for windows that may be decided soon.

        Raises AuditUnreachable (then nothing is changed), WarehouseError.
        """
        if self._warehouse.table(self._topic) is None:
            return PublishOutcome(topic=self._topic)
        # Two gates at once could restore what the other has just withdrawn.
        with self._warehouse.locked(f"publish-{self._topic}"):
            table, decisions = self._decided(wait_ms)
            return self._apply(table, decisions)

    def _decided(self, wait_ms: int) -> tuple[TopicTable, list[HourDecision]]:
        deadline_ms = self._clock.monotonic_ms() + wait_ms
        while True:
            table = self._warehouse.existing_table(self._topic)
            decisions = decide(table.row_counts_by_hour(), self._ask(self._topic), now_ms=self._clock.now_ms())
            if not any(one.may_change_soon for one in decisions) or self._clock.monotonic_ms() >= deadline_ms:
                return table, decisions
            time.sleep(ASK_EVERY_MS / 1000)

    def _apply(self, table: TopicTable, decisions: Sequence[HourDecision]) -> PublishOutcome:
        before = table.published()
        opened = {one.hour: one for one in decisions if one.is_open}
        reasons = {one.hour: one.reason for one in decisions if not one.is_open}
        after = Published(snapshot_id=table.snapshot_id, hours=frozenset(opened))
        withdrawn = sorted(before.hours - after.hours)
        fresh = sorted(after.hours - before.hours)
        # Write proofs before the property that opens; set the property that shuts before deleting proofs. No hour is open without
        # its proof.
        for decision in opened.values():
            self._write_proof(table, decision)
        if after != before:
            table.set_published(after)
        for hour in withdrawn:
            shutil.rmtree(self._proof(hour).parent, ignore_errors=True)
            reason = reasons.get(hour, "it has no rows any more")
            log.warning("hour_withdrawn", topic=self._topic, hour=hour_name(hour), reason=reason)
        for hour in fresh:
            log.info("hour_published", topic=self._topic, hour=hour_name(hour), rows=opened[hour].row_count)
        return PublishOutcome(
            topic=self._topic,
            published=tuple(map(hour_name, fresh)),
            withdrawn=tuple(map(hour_name, withdrawn)),
            open_hours=tuple(map(hour_name, sorted(after.hours))),
            shut=tuple((hour_name(hour), reason) for hour, reason in sorted(reasons.items())),
        )

    def _proof(self, hour: int) -> Path:
        return self._warehouse.folder / "published" / self._topic / hour_name(hour) / "_SUCCESS"

    def _write_proof(self, table: TopicTable, decision: HourDecision) -> None:
        path = self._proof(decision.hour)
        words = {
            "v": 1,
            "topic": self._topic,
            "hour": hour_name(decision.hour),
            "row_count": decision.row_count,
            "snapshot_id": table.snapshot_id,
            "windows": [window.words for window in decision.windows],
        }
        if path.exists() and {**json.loads(path.read_text()), "at_ms": 0} == {**words, "at_ms": 0}:
            return
        replace_file(path, json.dumps({**words, "at_ms": self._clock.now_ms()}, indent=1).encode())


def ask_audit(url: str) -> Ask:
    """Return a function that asks the audit service at `url` for a topic's windows."""

    def ask(topic: str) -> Sequence[AuditedWindow]:
        try:
            return [AuditedWindow.of(one) for one in completeness(url, topic, timeout_ms=ASK_TIMEOUT_MS)]
        except (ServiceUnreachable, ServiceRefused) as error:
            raise AuditUnreachable(str(error)) from error

    return ask


def run_publish(layout: Layout, topic: str, *, wait_ms: int = WAIT_MS) -> PublishOutcome:
    """Publish one topic of a local platform."""
    return Gate(Warehouse(layout.warehouse), topic, ask_audit(layout.audit_url)).publish(wait_ms=wait_ms)
