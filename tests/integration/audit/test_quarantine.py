"""The audit looks quarantined records up on a real broker, and finds that one is not there."""

from collections.abc import Callable

from headrace.audit.model.messages import QUARANTINED
from headrace.client.admin import create_topic
from headrace.client.quarantine import send_quarantined
from headrace.wire.quarantine_record import ProcessOrigin, QuarantineRecord
from tests.support.audit_service import AuditService
from tests.support.audited_application import AuditedApplication, W
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually

Start = Callable[..., AuditService]


def refused(application: AuditedApplication, sequence: int, start: int) -> QuarantineRecord:
    return QuarantineRecord(
        topic="clicks", stage="sdk", code="schema_mismatch", reason="it does not fit", window_start_ms=start,
        window_from="record", at_ms=1, payload=b"x",
        origin=ProcessOrigin(instance=application.reporter.instance, sequence=sequence),
    )  # fmt: skip


def test_what_an_application_put_in_quarantine_is_looked_up_there(live: BrokerProcess, audit: Start) -> None:
    service = audit(live.address)
    application = AuditedApplication(live.address, "clicks")
    create_topic(application.cluster, "clicks.quarantine", 2)
    application.log([1, 2, W + 1])
    for sequence, start in enumerate((0, 0, W)):
        application.reporter.lost("clicks", start, QUARANTINED)
        if start == 0:
            send_quarantined(application.side, refused(application, sequence, start))
    application.side.flush(20_000)
    application.seal()
    application.close()

    def verdicts() -> dict[int, tuple[str, int, str | None]]:
        found = service.windows("clicks")
        return {start: (one["verdict"], one["missing"], one["first_bad_tier"]) for start, one in found.items()}

    expected = {0: ("COMPLETE", 0, None), W: ("INCOMPLETE", 1, "quarantine")}
    eventually(lambda: verdicts() == expected, what=f"{expected}, not {verdicts()}", within_ms=60_000)
