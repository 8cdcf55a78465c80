"""What an audit says of an application that logged into two windows, of which the second has lost records on live."""

from pathlib import Path
from typing import Any

from .audit_service import AuditService
from .audited_application import W
from .processes import eventually

SETTINGS = """
[service]
discover_ms = 200
judge_every_ms = 200
[deadlines_ms]
default = 4000
[topics.default]
tiers = ["producer", "live"]
"""


def named_as_missing(live: str, topic: str, folder: Path, *, producer_id: int, kept: int, logged: int, lost: int) -> list[Any]:
    """Run an audit service on `live`. The first window must be COMPLETE with `kept` records, and the second INCOMPLETE with
    exactly `lost` of `logged` missing, all of this producer. Return the runs of records that it names.
    """
    service = AuditService(folder, live, settings=SETTINGS)
    try:
        service.start()

        def is_judged() -> bool:
            found = service.windows(topic)
            assert [one["verdict"] for one in found.values()] == ["COMPLETE", "INCOMPLETE"], found
            return True

        eventually(is_judged, within_ms=60_000, what="both windows are judged")
        first, second = service.windows(topic).values()
    finally:
        service.process.kill()
    assert (first["missing"], first["tiers"]) == (0, {"producer": kept, "live": kept})
    assert (second["window_start_ms"], second["missing"], second["doubled"]) == (W, lost, 0)
    assert second["tiers"] == {"producer": logged, "live": logged - lost}
    named = [one for difference in second["differences"] for one in difference["records"]]
    assert {(one["kind"], one["producer_id"]) for one in named} == {("missing", producer_id)}
    assert sum(one["count"] for one in named) == lost
    return named
