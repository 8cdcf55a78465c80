"""Transports on small journals, for the tests."""

from pathlib import Path
from typing import Any

from headrace.runtime.clock import SystemClock
from headrace.sdk.journal import Journal
from headrace.sdk.journal.settings import JournalSettings
from headrace.sdk.journal.transport import JournalTransport
from headrace.sdk.transport import LoggerRun
from headrace.wire.quarantine_record import ProcessOrigin, QuarantineRecord

SMALL = {"segment_bytes": 4096, "quota_bytes": 16384, "root_quota_bytes": 65536}
WINDOW = 1_200_000
"""The start of a window, in ms."""


def run_of(instance: str = "host/app/1") -> LoggerRun:
    return LoggerRun(
        topic="clicks",
        schema='"bytes"',
        record_name="clicks",
        application="app",
        instance=instance,
        server_name="host",
        lateness_ms=60_000,
    )


def started(root: Path, instance: str = "host/app/1", **settings: Any) -> JournalTransport:
    """Return a transport that has made its journal."""
    transport = JournalTransport(run_of(instance), JournalSettings(root=root, **{**SMALL, **settings}), SystemClock())
    transport.start()
    return transport


def journal_of(root: Path) -> Journal:
    """Return the only journal of the root."""
    (head,) = root.glob("*/*/journal.json")
    return Journal(head.parent)


def refused(number: int, payload: bytes = b"{}") -> QuarantineRecord:
    return QuarantineRecord(
        topic="clicks",
        stage="sdk",
        code="schema_mismatch",
        reason="a reason",
        origin=ProcessOrigin(instance="host/app/1", sequence=number),
        window_start_ms=WINDOW,
        window_from="clock",
        at_ms=WINDOW + 1,
        payload=payload,
    )
