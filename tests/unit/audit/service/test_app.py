"""What the service says of itself: when it is not ready, and why."""

from pathlib import Path

import pytest

from headrace.audit.service.app import AuditProcess, _site, why_store_has_no_room
from headrace.audit.service.checkpoints.checkpointer import Checkpointer
from headrace.audit.service.errors import StoreError
from headrace.audit.service.ingest.collector import Collector
from headrace.audit.service.repairs import Repairs
from headrace.audit.service.settings import AuditSettings
from headrace.runtime import disk_room
from tests.support.audit_parts import T0, Service, complete
from tests.unit.audit.service.checkpoints.topic_in_memory import TopicInMemory


def test_a_store_that_cannot_be_written_makes_the_service_not_ready_until_it_can(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    process = AuditProcess(
        host="127.0.0.1",
        port=1,
        live="127.0.0.1:9",
        offline=None,
        store=str(tmp_path),
        status_file=None,
        settings=AuditSettings(),
    )
    checkpointer = Checkpointer(service.ledger, TopicInMemory(), service.clock)
    collector = Collector("127.0.0.1:9", service.ledger, service.clock, checkpointer)
    monkeypatch.setattr(Collector, "is_running", property(lambda self: True))
    site = _site(process, service.ledger, checkpointer, collector, {}, None, Repairs())
    assert site.not_ready() == []

    def full(*arguments: object) -> None:
        raise StoreError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(service.ledger.books.journal, "put_log", full)
        with pytest.raises(StoreError):
            service.read("live", 0, 100, {T0: 9})
    assert site.not_ready() == ["disk full"]
    assert "The store cannot be written now: disk full" in site.faults()
    complete(service)
    assert site.not_ready() == []


def test_a_disk_without_room_is_told_also_where_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names a fault: with a full disk an idle audit answered `ready` until its next write failed."""
    store = tmp_path / "books.sqlite"
    assert why_store_has_no_room(str(store)) is None
    assert why_store_has_no_room("postgresql://somewhere/else") is None
    monkeypatch.setattr(disk_room, "LEAST_BYTES", 1 << 62)
    told = why_store_has_no_room(str(store))
    assert told is not None
    assert told.startswith(f"the disk is full: {tmp_path} has ")
    assert "cannot be read: No such file" in str(why_store_has_no_room(str(tmp_path / "gone" / "books.sqlite")))
