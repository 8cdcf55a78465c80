"""Every verdict says how much it compared: COMPLETE over nothing must not look like COMPLETE over a thousand records."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from headrace.audit.service.store.verdicts import added
from headrace.audit.service.web.endpoints import application
from headrace.audit.service.web.report import compared_words, why_words
from headrace.cli.audit_table import _cells
from tests.support.audit_parts import T0, Service, complete, mirror, producer


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path / "books.sqlite")
    yield made
    made.database.close()


def test_the_api_the_words_and_the_command_line_say_how_much_was_compared(service: Service) -> None:
    complete(service)
    service.windows()
    with TestClient(application(service.ledger, service.judge, service.clock, service.site())) as http:
        first, second = http.get("/api/completeness").json()
    assert [(one["compared_identities"], one["compared_tiers"]) for one in (first, second)] == [(5, 3), (3, 3)]
    assert why_words(first) == "5 records compared in 3 tiers"
    _, rows = _cells([first, second])
    assert [row[-1] for row in rows] == ["5 records compared in 3 tiers", "3 records compared in 3 tiers"]


def test_what_is_not_settled_is_not_among_what_was_compared(service: Service) -> None:
    service.report(producer({T0: 5}, closed=False), mirror(0, 100, {T0: 5}))
    service.read("live", 0, 100, {T0: 5})
    service.hear()
    (window,) = service.windows()
    assert (window["verdict"], window["compared_tiers"]) == ("OPEN", 0)
    assert why_words(window).endswith("0 records compared in 0 tiers")


def test_a_day_adds_up_and_older_verdicts_say_nothing(service: Service) -> None:
    complete(service)
    first, second = service.windows()
    day = added(added(None, first), second)
    assert (day["compared_identities"], day["compared_tiers"]) == (8, 3)
    older = {name: value for name, value in first.items() if not name.startswith("compared")}
    assert compared_words(older) == compared_words(added(added(None, second), older)) == ""
