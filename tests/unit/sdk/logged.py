"""What a logger has written to a scripted broker: events, reports, counts of each window; and a peer that hangs up."""

import io
import socket
import threading
from collections.abc import Callable
from typing import Any

import fastavro

from headrace.audit.model.codec import decode
from headrace.audit.model.messages import ProducerReport
from headrace.runtime.layout import AUDIT_TOPIC
from headrace.sdk import EventLogger, event_schema
from headrace.sdk.direct import DirectTransport
from headrace.wire.batch.record_batch import Record, iter_records
from headrace.wire.schema_id import unframe
from tests.support.processes import free_port
from tests.support.scripted_broker import ScriptedBroker
from tests.support.told_by_producers import told

SCHEMA = event_schema("Click", [{"name": "page", "type": "string"}])
WINDOW_MS = 1_000
Make = Callable[..., EventLogger]


def direct(logger: EventLogger) -> DirectTransport:
    """Return the transport of a logger without a journal."""
    assert isinstance(logger._transport, DirectTransport)
    return logger._transport


class HangsUp:
    """Takes every call on a port of its own, counts it, and hangs up."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", free_port()))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.calls = 0

    def __enter__(self) -> "HangsUp":
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            self.calls += 1
            caller.close()


def records_of(broker: ScriptedBroker, topic: str) -> list[Record]:
    batches = [bytes(batch) for held in broker.topics.get(topic, []) for _, batch in held.batches]
    return [record for batch in batches for record in iter_records(batch)]


def events_of(broker: ScriptedBroker) -> list[tuple[int, dict[str, Any]]]:
    """Return (schema id, event), checked against the record's own timestamp, by event time."""
    found = []
    for record in records_of(broker, "clicks"):
        assert record.value is not None
        schema_id, body = unframe(record.value)
        event: Any = fastavro.schemaless_reader(io.BytesIO(body), fastavro.parse_schema(SCHEMA), None)
        assert int(event["event_time"].timestamp() * 1000) == record.timestamp_ms
        found.append((schema_id, {**event, "event_time": record.timestamp_ms}))
    return sorted(found, key=lambda pair: pair[1]["event_time"])


def reports_of(broker: ScriptedBroker) -> list[ProducerReport]:
    reports = [decode(record.value) for record in records_of(broker, AUDIT_TOPIC)]
    assert all(isinstance(report, ProducerReport) for report in reports)
    return [report for report in reports if isinstance(report, ProducerReport)]


def books_of(broker: ScriptedBroker) -> dict[int, tuple[int, dict[str, int]]]:
    """Return window start → (records acknowledged, losses) as the reports tell it."""
    return {start: (len(of.acknowledged), of.losses) for (_, start), of in told(reports_of(broker)).items()}
