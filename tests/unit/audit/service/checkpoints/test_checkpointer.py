"""A store lost at any moment is rebuilt from checkpoint and rest of the audit topic, whatever was killed while it was written.

Faults of the issue: 'the audit topic grows for ever'; 'after records expired on live, a rebuild of the store turns COMPLETE into
missing, first at live'.
"""

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audit.model.codec import encode
from headrace.audit.model.messages import Report
from headrace.audit.service.checkpoints.checkpointer import Checkpointer
from headrace.audit.service.settings import AuditSettings, TopicTiers
from headrace.audit.service.store.ledger import Message
from headrace.audit.service.store.log_books import LogRead
from headrace.client.fetch.fetched import TopicPartition
from tests.support.audit_parts import T0, Service, W, mirror, producer, read_of
from tests.unit.audit.service.checkpoints.topic_in_memory import Killed, TopicInMemory

LIVE_LOG = TopicPartition("clicks", 0)
STEP = 10


class History:
    """What all tiers say of `length` ranges of one partition. Some records are lost on the way."""

    def __init__(self, chance: random.Random, length: int) -> None:
        reports: list[Report] = []
        self.reads = []
        for at in range(length):
            window, count, first = T0 + chance.randrange(3) * W, chance.randrange(1, 5), at * STEP
            reports.append(producer({window: count}, closed=at == length - 1, sequence=at, first=first))
            lost_on_live, lost_by_mirror = chance.random() < 0.1, chance.random() < 0.1
            on_live = {} if lost_on_live else {window: count}
            self.reads.append(LogRead(found=read_of("live", first, first + STEP, on_live)))
            reports.append(mirror(first, first + STEP, {} if lost_by_mirror else on_live))
        self.audit = [Message(0, at, encode(report), 1_000 + at) for at, report in enumerate(reports)]


class Story:
    """A service that hears a history, checkpoints, is killed, and loses its store."""

    def __init__(self, folder: Path, history: History, store: Callable[[], str] | None = None) -> None:
        self.history = history
        self.topic = TopicInMemory()
        self.live_start = 0
        """What of the live log is left, as the number of a read."""
        self._count = 0
        self._new_store = store or (lambda: str(folder / f"books-{self._count}.sqlite"))
        self.service = Service(self._new_store())
        self.begin()

    def begin(self) -> None:
        self.checkpointer = Checkpointer(self.service.ledger, self.topic, self.service.clock)
        self.checkpointer.nothing_lost()

    @property
    def heard(self) -> int:
        return self.service.ledger.collector_positions().get(0, 0)

    @property
    def read(self) -> int:
        return self.service.ledger.logs.positions("live")[1].get(LIVE_LOG, 0) // STEP

    def hear(self, most: int) -> None:
        at = self.heard
        assert at >= self.topic.audit_start.get(0, 0), "the audit topic has no more what the store has not heard"
        taken = self.history.audit[at : at + most]
        assert self.service.ledger.take_reports(taken, {0: at}, {0: at + len(taken)})

    def read_on(self, most: int) -> None:
        for one in self.history.reads[self.read : self.read + most]:
            assert self.read >= self.live_start, "what is read next has expired"
            generation, _ = self.service.ledger.logs.positions("live")
            self.service.clock.advance(1)
            assert self.service.ledger.logs.take_reads("live", generation, [one], {LIVE_LOG: self.service.clock.now_ms()})
        generation, _ = self.service.ledger.logs.positions("live")
        self.service.ledger.logs.take_reads("live", generation, [], {LIVE_LOG: self.service.clock.now_ms()})

    def expire(self) -> None:
        """Let everything of the live log expire that the older of the kept checkpoints has counted."""
        kept = self.checkpointer._seen(None)
        if len(kept) == 2:
            self.live_start = self._live_of_older

    def checkpoint(self, lives: int | None) -> None:
        self.topic.lives = lives
        reads = self.read
        try:
            if self.checkpointer.write():
                self._live_of_older, self._live_of_newer = getattr(self, "_live_of_newer", 0), reads
        except Killed:
            self.restart()
        finally:
            self.topic.lives = None

    def restart(self) -> None:
        """A kill, with the store left."""
        self.service.restart()
        self.begin()

    def lose_store(self) -> bool:
        self.service.database.close()
        self._count += 1
        clock = self.service.clock
        self.service = Service(self._new_store())
        self.service.clock.advance(clock.now_ms() - self.service.clock.now_ms())
        self.begin()
        return self.checkpointer.rebuild({0: self.topic.audit_start.get(0, 0)}, {0: len(self.history.audit)})

    def finish(self) -> list[dict[str, Any]]:
        self.hear(len(self.history.audit))
        self.read_on(len(self.history.reads))
        self.service.hear()
        return shown(self.service)

    def close(self) -> None:
        self.service.database.close()


def shown(service: Service) -> list[dict[str, Any]]:
    """Return the windows; `late` depends on when somebody judged."""
    return [{name: value for name, value in one.items() if name != "late"} for one in service.windows()]


def books(service: Service) -> dict[int, Any]:
    """Return which records each tier has reported, without the times at which it did."""
    found: dict[int, Any] = {}
    for start, window in service.ledger.books.book("clicks").windows.items():
        held = {
            (tier, partition): [list(rows) for rows in one.parts]
            for tier, by_partition in window.found.items()
            for partition, one in by_partition.items()
        }
        sent = {
            (run, key): [list(rows) for rows in one.parts]
            for run, mine in window.producers.items()
            for key, one in mine.sent.items()
        }
        found[start] = held, sent, {run: mine.losses for run, mine in window.producers.items()}
    return found


def undisturbed(folder: Path, history: History) -> tuple[list[dict[str, Any]], dict[int, Any]]:
    story = Story(folder / "undisturbed", history)
    windows = story.finish()
    known = books(story.service)
    story.close()
    return windows, known


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=40)
def test_rebuilt_books_are_the_books(seed: int) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="headrace-story-") as name:
        folder = Path(name)
        history = History(chance, chance.randrange(2, 12))
        story = Story(folder, history)
        for _ in range(chance.randrange(1, 25)):
            match chance.choice(
                ["hear", "read", "hear", "read", "judge", "checkpoint", "checkpoint", "killed", "expire", "restart", "lose"]
            ):
                case "hear":
                    story.hear(chance.randrange(1, 5))
                case "read":
                    story.read_on(chance.randrange(1, 3))
                case "judge":
                    story.service.hear()
                    story.service.windows()
                case "checkpoint":
                    story.checkpoint(None)
                case "killed":
                    story.checkpoint(chance.randrange(5))
                case "expire":
                    story.expire()
                case "restart":
                    story.restart()
                case "lose":
                    had_one = bool(story.topic.audit_start) or bool(story.checkpointer._seen(None))
                    assert story.lose_store() == had_one
        windows = story.finish()
        known = books(story.service)
        story.close()
        assert (windows, known) == undisturbed(folder, history)


def a_story(folder: Path, store: Callable[[], str] | None = None) -> Story:
    """A history of which all but the end is heard, read, judged, and held by two checkpoints."""
    story = Story(folder, History(random.Random(3), 8), store)
    for _ in range(2):
        story.hear(6)
        story.read_on(3)
        story.service.hear()
        story.service.windows()
        story.checkpoint(None)
    return story


def test_a_lost_store_is_rebuilt_with_its_verdicts_after_live_data_has_expired(
    tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    stores = [store] if "://" not in store else [store, request.getfixturevalue("postgresql").new_database()]
    story = a_story(tmp_path, (lambda: stores.pop(0)) if len(stores) > 1 else None)
    before = shown(story.service)
    story.expire()
    assert story.live_start == 3
    assert story.topic.audit_start == {0: 6}
    assert story.lose_store()
    assert (story.heard, story.read) == (12, 6)
    assert shown(story.service) == before
    assert story.finish() == undisturbed(tmp_path, story.history)[0]
    story.close()


def test_a_damaged_checkpoint_is_skipped_for_the_one_before_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    story = a_story(tmp_path)
    newest = story.checkpointer._seen(None)[-1]
    value = story.topic.values[newest.from_offset + 1]
    assert value is not None
    story.topic.values[newest.from_offset + 1] = value[:-1]
    assert story.lose_store()
    assert (story.heard, story.read) == (6, 3)
    assert story.finish() == undisturbed(tmp_path, story.history)[0]
    story.close()
    assert "checkpoint_skipped" in caplog.text
    assert any("checksum" in getattr(record, "fields", {}).get("reason", "") for record in caplog.records)


def test_nothing_is_deleted_before_a_second_checkpoint_is_read_back(tmp_path: Path) -> None:
    story = Story(tmp_path, History(random.Random(3), 8))
    story.hear(4)
    story.checkpoint(None)
    assert (story.topic.audit_start, story.topic.start) == ({}, 0)
    story.hear(4)
    whole = story.topic.append

    def loses_one(values: Any) -> None:
        whole([value for at, value in enumerate(values) if at != 1])

    story.topic.append = loses_one  # type: ignore[method-assign]
    with pytest.raises(Exception, match="cannot be read back: part 1 is missing"):
        story.checkpointer.write()
    assert (story.topic.audit_start, story.topic.start) == ({}, 0)
    story.topic.append = whole  # type: ignore[method-assign]
    story.checkpoint(None)
    assert story.topic.audit_start == {0: 4}
    story.close()


def test_nothing_new_is_no_checkpoint(tmp_path: Path) -> None:
    story = a_story(tmp_path)
    held = len(story.topic.values)
    assert story.checkpointer.write() is False
    assert len(story.topic.values) == held
    story.hear(1)
    assert story.checkpointer.write() is True
    story.close()


def test_an_empty_store_writes_no_checkpoint(tmp_path: Path) -> None:
    story = Story(tmp_path, History(random.Random(3), 2))
    assert story.checkpointer.write() is False
    story.close()


def test_a_checkpoint_of_other_windows_is_not_used(tmp_path: Path) -> None:
    story = a_story(tmp_path)
    story.close()
    other = Service(tmp_path / "other.sqlite", AuditSettings(window_ms=60_000, default_topic=TopicTiers(required=("live",))))
    assert Checkpointer(other.ledger, story.topic, other.clock).rebuild({0: 0}, {0: 16}) is False
    assert other.ledger.collector_positions() == {}
    other.database.close()


def test_a_checkpoint_of_another_audit_topic_is_not_used(tmp_path: Path) -> None:
    story = a_story(tmp_path)
    story.close()
    fresh = Service(tmp_path / "fresh.sqlite")
    assert Checkpointer(fresh.ledger, story.topic, fresh.clock).rebuild({0: 0}, {0: 3}) is False
    fresh.database.close()


def test_a_stop_waits_for_a_checkpoint_and_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = a_story(tmp_path)
    held = len(story.topic.values)
    story.hear(1)
    monkeypatch.setattr("headrace.audit.service.checkpoints.checkpointer.AT_STOP_MS", -1)
    story.checkpointer.start()
    story.checkpointer._thread.join(0.1)
    story.checkpointer._stop.set()
    story.checkpointer._thread.join(10)
    monkeypatch.setattr("headrace.audit.service.checkpoints.checkpointer.AT_STOP_MS", 5_000)
    story.checkpointer.took_ms = 6_000
    story.checkpointer.stop()
    assert len(story.topic.values) == held
    story.checkpointer.took_ms = 100
    story.checkpointer.stop()
    assert len(story.topic.values) > held
    story.close()
