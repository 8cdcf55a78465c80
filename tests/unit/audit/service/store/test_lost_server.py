"""The books while their PostgreSQL server is away, and when somebody else wrote them meanwhile."""

import pytest

from headrace.audit.service.errors import StoreError
from tests.support.audit_parts import T0, Service, W, complete, mirror, producer
from tests.support.postgresql import PostgresqlServer

pytestmark = pytest.mark.needs("postgresql")


def test_a_report_that_the_server_did_not_keep_is_in_neither_books_nor_memory(postgresql_alone: PostgresqlServer) -> None:
    service = Service(postgresql_alone.new_database())
    service.report(producer({T0: 5}, closed=False), mirror(0, 100, {T0: 5}))
    service.database.do("SET synchronous_commit = on")
    service.report(b"not a report", offset=2)
    postgresql_alone.kill()
    for _ in range(2):
        with pytest.raises(StoreError, match="connection to"):
            service.report(b"nor is this", offset=3)
    assert "connection to" in (service.ledger.books.failure or "")
    with pytest.raises(StoreError, match="connection to"):
        service.ledger.logs.positions("live")
    postgresql_alone.start()
    assert service.ledger.collector_positions() == {0: 3}
    assert service.ledger.hearing()["malformed_reports"] == 1
    assert service.ledger.take_reports([], {0: 4}, {0: 5}) is False  # who stood elsewhere begins again
    service.report(b"nor is this", offset=3)
    assert service.ledger.books.failure is None
    assert service.ledger.hearing()["malformed_reports"] == 2
    service.read("live", 0, 100, {T0: 5})
    service.hear()
    assert set(service.verdicts()) == {T0}
    service.database.close()


def test_who_lost_the_store_to_another_service_loads_what_that_one_wrote(postgresql_alone: PostgresqlServer) -> None:
    store = postgresql_alone.new_database()
    first = Service(store)
    first.report(producer({T0: 5, T0 + W: 3}), offset=0)
    postgresql_alone.kill()
    postgresql_alone.start()
    second = Service(store)
    taken_over = second.ledger.collector_positions()
    complete(second)
    with pytest.raises(StoreError, match=r"lost|another audit service"):
        first.report(mirror(0, 100, {T0: 5}), offset=1)
    with pytest.raises(StoreError, match="another audit service"):
        first.report(mirror(0, 100, {T0: 5}), offset=1)
    second.database.close()
    assert first.ledger.collector_positions() != taken_over
    first.hear()
    assert set(first.verdicts().values()) == {"OPEN"}  # what was known of the logs' ends is not known of the other's positions
    first.read("live", 100, 100, {})
    first.hear()
    assert first.verdicts() == {T0: "COMPLETE", T0 + W: "COMPLETE"}
    first.database.close()
