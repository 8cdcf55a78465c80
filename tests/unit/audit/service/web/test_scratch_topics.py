"""A drill's topic is shown to who asks for it by name, and to nobody else: its faults were planted."""

from starlette.testclient import TestClient

from headrace.audit.service.web.endpoints import application
from headrace.runtime.layout import SCRATCH_PREFIX
from tests.support.audit_parts import T0, Service, mirror, producer

SCRATCH = f"{SCRATCH_PREFIX}loss_1"


def test_a_drill_s_windows_are_in_no_list_and_are_there_for_who_names_it(service: Service) -> None:
    for topic in ("clicks", SCRATCH):
        service.report(producer({T0: 5}, topic=topic), mirror(0, 100, {T0: 3}, topic=topic))
        service.read("live", 0, 100, {T0: 5}, topic=topic)
    service.hear()
    service.judge.bring_up_to_date()
    with TestClient(application(service.ledger, service.judge, service.clock, service.site())) as http:
        assert [window["topic"] for window in http.get("/api/completeness").json()] == ["clicks"]
        assert http.get("/api/topics").json() == ["clicks"]
        assert list(http.get("/api/summary").json()) == ["clicks"]
        for path in ("/api/overview", "/api/problems", "/metrics"):
            page = http.get(path).text
            assert "clicks" in page
            assert SCRATCH not in page
        (window,) = http.get("/api/completeness", params={"topic": SCRATCH}).json()
        assert window["topic"] == SCRATCH
