"""Reports to the audit what each publish has read back of the branch `main`: a row beside the verdicts of the hour's windows.

`<warehouse>/loads/<topic>/told.json` holds the last publish that was reported. What could not be sent goes with the next publish.
"""

import json
import socket
from collections.abc import Iterable, Mapping, Sequence

from ...audit.model.messages import PublishedHour
from ...audit.model.tiers import WAREHOUSE
from ...audit.publisher import ReportSender, see_to_audit_topic
from ...audit.publisher.sending import send_and_flush
from ...client.connection.cluster import Cluster
from ...client.producer.producer import Producer
from ...errors import HeadraceError
from ...runtime.clock import Clock, SystemClock
from ...runtime.layout import Layout
from ...runtime.logs import get_logger
from ..warehouse.hours import hour_name
from ..warehouse.proofs import AUDITED, COMPACTED, EXPIRED, REMOVED, Proof
from ..warehouse.store import StorePath, replace
from ..warehouse.topic_table import TopicTable
from ..warehouse.warehouse import Warehouse

log = get_logger(__name__)

NAME = "told.json"
VERSION = 1
SEND_MS = 20_000
FIRST_HOURS = 14 * 24
"""The newest hours that the first report of a table covers; the audit keeps no windows of older ones."""


def report_main(warehouse: Warehouse, table: TopicTable, sender: ReportSender, *, instance: str, clock: Clock) -> int:
    """Report the hours that have a new revision since the last report; return how many. Raises ReportNotSent, WarehouseError."""
    last = table.last_publish
    hours = _unreported_hours(warehouse, table)
    proofs = warehouse.proofs(table.topic).read(up_to_publish=last, hours=hours, words=True)
    reported = [one for _, history in sorted(proofs.items()) if (one := published(history, instance, clock.now_ms())) is not None]
    if reported:
        send_and_flush(sender, clock, reported, SEND_MS)
    replace(table.records_folder / NAME, json.dumps({"v": VERSION, "publish": last}).encode())
    return len(reported)


def report_main_if_new(layout: Layout, warehouse: Warehouse, topic: str) -> None:
    """Report to the audit of a local platform what the publishes of a topic have read back.

    On a failure it logs a warning; the next publish reports again.
    """
    table = warehouse.table(topic)
    if table is None or is_reported(table):
        return
    cluster = Cluster(layout.live_bootstrap, client_id="headrace-publish")
    try:
        see_to_audit_topic(cluster, timeout_ms=SEND_MS)  # raises at once where a producer would try for as long as it may
        producer = Producer(cluster)
        try:
            report_main(warehouse, table, producer, instance=f"{socket.gethostname()}/publish", clock=SystemClock())
        finally:
            producer.close(0)
    except HeadraceError as error:
        log.warning("main_not_reported", topic=topic, reason=str(error))
    finally:
        cluster.close()


def is_reported(table: TopicTable) -> bool:
    """Return whether every publish was reported to the audit."""
    return _reported_publish(table.records_folder) == table.last_publish


def _unreported_hours(warehouse: Warehouse, table: TopicTable) -> set[int]:
    reported = _reported_publish(table.records_folder)
    hours = warehouse.proofs(table.topic).hours_since(publish=reported or 0, up_to_publish=table.last_publish)
    newest = max(hours, default=0)
    return {hour for hour in hours if reported is not None or hour > newest - FIRST_HOURS}


def _reported_publish(folder: StorePath) -> int | None:
    try:
        words = json.loads((folder / NAME).read_text())
        return int(words["publish"]) if words["v"] == VERSION else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def published(history: Sequence[Proof], instance: str, at_ms: int) -> PublishedHour | None:
    """Return the report of an hour; None if the audit had no window of it, or retention has dropped it."""
    last = history[-1]
    windows = _counted(last)
    if not windows or last.verdict == EXPIRED:
        return None
    verdict = last.verdict
    if verdict == COMPACTED:
        verdict = next((one.verdict for one in reversed(history) if one.verdict != COMPACTED), AUDITED[0])
    return PublishedHour(
        topic=last.topic,
        instance=instance,
        at_ms=at_ms,
        revision=last.revision,
        verdict=verdict,
        row_count=last.row_count,
        missing=max(0, sum(windows.values()) - last.row_count) if verdict == REMOVED else 0,
        doubled=0,
        reason=f"{hour_name(last.hour)}: {last.reason}",
        windows=windows,
    )


def _counted(proof: Proof) -> dict[int, int]:
    words: Iterable[Mapping[str, object]] = json.loads(proof.windows)
    found = {}
    for window in words:
        start, tiers = window.get("window_start_ms"), window.get("tiers")
        count = tiers.get(WAREHOUSE) if isinstance(tiers, dict) else None
        if isinstance(start, int):
            found[start] = count if isinstance(count, int) else 0
    return found
