"""Groups that operators name: in the store, behind restarts and a lost store, beside the settings; what a stopped one does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.audit.model.messages import TierChange
from headrace.audit.service.checkpoints.rows import fill, lines_of
from headrace.audit.service.settings import AuditSettings, TopicTiers
from headrace.audit.service.store import named_tiers
from tests.support.audit_parts import SHORT, T0, Service, W, complete, mirror

GROUP = "consumer:fraud"
COMPLETE = {T0: "COMPLETE", T0 + W: "COMPLETE"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path / "audit.db")
    yield made
    made.database.close()


def word(change: Any, from_ms: int, at_ms: int = 5) -> TierChange:
    return TierChange(
        topic="clicks", tier=GROUP, change=change, from_ms=from_ms, at_ms=at_ms, by="anna", reason="billing depends on it"
    )


def stop(service: Service) -> None:
    """A trial service tells all of the first window and stops; its deadline passes."""
    complete(service)
    service.report(mirror(0, 5, {T0: 5}, tier=GROUP), offset=2)
    pass_time(service)


def pass_time(service: Service) -> None:
    service.read("live", 100, 100, {})
    for _ in range(10):
        service.clock.advance(4_000)
        service.hear()
        service.judge.bring_up_to_date()


def entry(service: Service) -> dict[str, Any]:
    return next(one for one in service.ledger.tiers("clicks") if one["tier"] == GROUP)


def test_a_stopped_trial_service_shuts_no_window(service: Service) -> None:
    """Fault: every window with new records became UNKNOWN, hours stayed shut, and no command could retire the group."""
    stop(service)
    assert service.verdicts() == COMPLETE
    rows = {one["window_start_ms"]: one["sinks"][GROUP]["verdict"] for one in service.windows()}
    assert rows == {T0: "COMPLETE", T0 + W: "UNKNOWN"}


def test_a_group_that_is_added_shuts_windows_from_its_own_on_and_one_that_is_removed_none(service: Service) -> None:
    stop(service)
    service.report(word("add", T0 + W), offset=3)
    pass_time(service)
    assert service.verdicts() == {T0: "COMPLETE", T0 + W: "UNKNOWN"}
    (window,) = [one for one in service.windows() if one["window_start_ms"] == T0 + W]
    assert (window["silent"], window["sinks"]) == ([GROUP], {})
    service.restart()
    pass_time(service)
    assert service.verdicts() == {T0: "COMPLETE", T0 + W: "UNKNOWN"}, "the word survives a restart"
    service.report(word("remove", T0 + W, at_ms=9), offset=4)
    assert service.verdicts() == COMPLETE, "judged anew, at once"
    assert [(one["change"], one["by"]) for one in entry(service)["changes"]] == [("remove", "anna")]


def test_words_are_listed_with_who_when_and_why(service: Service) -> None:
    complete(service)
    assert [one["tier"] for one in service.ledger.tiers("clicks")] == ["producer", "live", "mirror"]
    assert service.ledger.tiers() == []
    service.report(word("add", T0 + W), word("remove", T0 + 3 * W, at_ms=9), offset=2)
    (listed,) = service.ledger.tiers()
    assert listed == entry(service)
    assert (listed["takes_part"], listed["named_by"], listed["contradiction"]) == (False, None, None)
    who_and_why = {"by": "anna", "reason": "billing depends on it"}
    assert listed["changes"][0] == {"change": "add", "from_ms": T0 + W, "at_ms": 5, **who_and_why}
    service.report(word("add", T0 + 9 * W), offset=4)
    assert (entry(service)["takes_part"], entry(service)["from_ms"], entry(service)["named_by"]) == (True, T0 + 9 * W, "operator")


def test_words_are_in_every_checkpoint_and_so_survive_a_lost_store(service: Service, tmp_path: Path) -> None:
    stop(service)
    service.report(word("add", T0 + W), offset=3)
    with service.ledger.books.snapshot() as read:
        lines = list(lines_of(read))
    other = Service(tmp_path / "rebuilt.db")
    try:
        assert other.ledger.tiers() == [], "known to be none before"
        other.ledger.books.replace_store(lambda database: fill(database, lines, [], "one"))
        assert other.ledger.tiers() == service.ledger.tiers() != []
    finally:
        other.database.close()


def test_a_word_that_the_store_could_not_keep_is_not_taken(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    complete(service)

    def refuse(*_: object) -> None:
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(type(service.ledger.books.reports), "all_is_news", refuse)
    with pytest.raises(RuntimeError):
        service.report(word("add", T0), offset=2)
    assert service.ledger.tiers() == []


def test_a_word_of_a_window_of_another_width_is_malformed(service: Service) -> None:
    service.report(word("add", T0 + 1), offset=2)
    assert (service.ledger.tiers(), service.ledger.hearing()["malformed_reports"]) == ([], 1)


@pytest.mark.parametrize(
    ("tiers", "change", "takes_part", "named"),
    [
        (TopicTiers(required=("producer", "live", GROUP)), "remove", True, "take it out of `tiers` or `adds`"),
        (TopicTiers(required=("producer", "live"), without=frozenset({GROUP})), "add", False, "take it out of `without`"),
        (TopicTiers(required=("producer", "live", GROUP)), "add", True, None),
    ],
)
def test_where_the_settings_say_otherwise_they_hold_and_the_word_is_named_as_without_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiers: TopicTiers, change: str, takes_part: bool, named: str | None
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(named_tiers.log, "warning", lambda event, **words: warned.append(words["reason"]))
    service = Service(tmp_path / "audit.db", AuditSettings(topics={"clicks": tiers}, default_topic=SHORT.default_topic))
    try:
        complete(service)
        service.report(word(change, T0), offset=2)
        service.restart()
        assert len(warned) == (0 if named is None else 2), "when it came, and at the next start"
        assert all(named is not None and named in one and "[topics.clicks]" in one for one in warned)
        assert (entry(service)["takes_part"], entry(service)["contradiction"]) == (takes_part, warned[0] if warned else None)
        (window,) = [one for one in service.windows() if one["window_start_ms"] == T0]
        assert (GROUP in window["tiers"]) == takes_part
    finally:
        service.database.close()
