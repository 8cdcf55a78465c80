"""The verdict against the truth, in thousands of small worlds whose truth is counted record by record."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audit.model.facts import Kind
from headrace.audit.model.tier_reports import LogKey
from headrace.audit.service.store.database import Database
from headrace.audit.service.store.journal import BooksJournal
from headrace.audit.service.store.loading import load

from ..world import TOPIC, WINDOW_MS, World

seeds = st.integers(min_value=0, max_value=1 << 48)
LATER_MS = 100_000


@settings(max_examples=200, deadline=None)
@given(seed=seeds, losses=st.booleans(), doubles=st.booleans())
def test_verdict_equals_the_truth_when_every_tier_has_told_all(seed: int, losses: bool, doubles: bool) -> None:
    world = World(seed, losses=losses, doubles=doubles, silences=False)
    world.tell()
    assert world.all_told
    for window in world.mentioned:
        verdict = world.judge(window)
        missing, extra, first = world.truth(window)
        assert (verdict.missing, verdict.extra, verdict.first_bad_tier) == (missing, extra, first)
        expected = Kind.INCOMPLETE if missing else Kind.OVERCOUNTED if extra else Kind.COMPLETE
        assert verdict.kind is expected
        assert verdict.unaudited == world.unaudited[window]
        for tier, count in verdict.tiers.items():
            assert count == world.count(tier, window), tier


@settings(max_examples=200, deadline=None)
@given(seed=seeds)
def test_complete_never_appears_when_something_is_lost_or_unknown(seed: int) -> None:
    world = World(seed, losses=True, doubles=True, silences=True)
    world.tell()
    for window in world.mentioned:
        missing, extra, first = world.truth(window)
        for later_ms in (0, LATER_MS):
            verdict = world.judge(window, later_ms=later_ms)
            if not world.is_told(window):
                assert not verdict.kind.is_final
            if verdict.kind.is_final:
                assert (verdict.missing, verdict.extra, verdict.first_bad_tier) == (missing, extra, first)
                assert (verdict.kind is Kind.COMPLETE) == (not missing and not extra)


@settings(max_examples=100, deadline=None)
@given(seed=seeds)
def test_what_is_not_decided_becomes_unknown_and_names_somebody_when_deadlines_have_passed(seed: int) -> None:
    world = World(seed, losses=False, doubles=False, silences=True)
    world.tell()
    for window in world.mentioned:
        verdict = world.judge(window, later_ms=LATER_MS)
        assert verdict.kind is not Kind.OPEN
        if not world.is_told(window):
            assert verdict.kind is Kind.UNKNOWN
            assert verdict.silent
            for instance in world.unsealed:
                assert f"producer:{instance}" in verdict.silent


@settings(max_examples=200, deadline=None)
@given(seed=seeds)
def test_with_the_dead_retired_losses_are_exact_and_no_window_that_lacks_their_word_is_complete(seed: int) -> None:
    world = World(seed, losses=True, doubles=True, silences=True)
    world.now_ms = 10_000_000  # every window had begun when they were last heard
    world.tell()
    world.retire_the_dead()
    for window in world.mentioned:
        verdict = world.judge(window, later_ms=LATER_MS)
        assert verdict.kind.is_final or not world.all_told
        assert not verdict.kind.is_final or world.is_told(window)
        if verdict.kind.is_final:
            missing, extra, first = world.truth(window)
            assert (verdict.missing, verdict.extra, verdict.first_bad_tier) == (missing, extra, first)
            balanced = Kind.ACCEPTED if world.retired else Kind.COMPLETE
            assert verdict.kind is (Kind.INCOMPLETE if missing else Kind.OVERCOUNTED if extra else balanced)
            assert len(verdict.retired) == len(world.retired)


@settings(max_examples=40, deadline=None)
@given(seed=seeds)
def test_books_read_back_from_the_file_give_the_same_verdicts(seed: int) -> None:
    world = World(seed, losses=True, doubles=True, silences=True)
    with TemporaryDirectory() as folder:
        database = Database(Path(folder) / "books.sqlite")
        database.open()
        journal = BooksJournal(database)
        with database.transaction():
            world.tell(journal)
            for tier, logs in world.books.topics[TOPIC].logs.items():
                for partition, log in logs.items():
                    journal.put_log(LogKey(tier, TOPIC, partition), log)
        again = load(database, WINDOW_MS)
        database.close()
    for window in world.mentioned:
        for later_ms in (0, LATER_MS):
            assert world.judge(window, later_ms=later_ms, books=again) == world.judge(window, later_ms=later_ms)
