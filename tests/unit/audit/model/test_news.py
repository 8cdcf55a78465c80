"""What a report changes is judged again, and what it takes back is gone."""

from headrace.audit.model.facts import Kind
from headrace.audit.model.messages import ProducerReport, ProducerWindow
from headrace.audit.model.runs import Run, RunKey

from ..stories import TOPIC, Story, W


def news_of(story: Story) -> set[int]:
    """Return the windows with news, and begin again."""
    news = story.books.news.pop(TOPIC, None)
    return set() if news is None else set(news.windows)


def told() -> Story:
    story = Story(("producer", "live", "mirror")).producer(windows={0: {0: 5}}, closed=True).read("live", 100, {0: {7: 5}})
    story.tell("mirror", 0, 100, {0: 5})
    assert news_of(story) == {0}
    return story


def test_a_window_that_a_tier_no_longer_mentions_in_a_range_told_anew_holds_nothing_of_it() -> None:
    story = told()
    assert story.verdict().kind is Kind.COMPLETE
    story.tell("mirror", 0, 100)
    assert news_of(story) == {0}
    verdict = story.verdict()
    assert (verdict.kind, verdict.missing, verdict.tiers["mirror"]) == (Kind.INCOMPLETE, 5, 0)


def test_records_that_are_told_again_are_news_of_their_window_though_the_books_hold_the_same() -> None:
    story = told()
    story.tell("mirror", 0, 100, {0: 5})
    assert news_of(story) == {0}
    assert story.books.book(TOPIC).window(0).redelivered == 5


def test_a_loss_that_grew_is_news_and_one_that_is_told_again_is_none() -> None:
    story = Story(("producer", "live")).producer(windows={0: {0: 5}}, losses={0: {"dropped": 2}})
    news_of(story)
    assert news_of(story.again(sequence=1)) == set()
    window = ProducerWindow(topic=TOPIC, window_start_ms=0, sent=(), losses={"dropped": 3})
    assert news_of(story.again(sequence=2, windows=(window,))) == {0}
    assert story.verdict().losses == {"dropped": 3}


def run_of(*reports: ProducerReport, every_ms: int = 1) -> Run:
    run = Run(key=RunKey("app", 1), first_heard_ms=0, heard_ms=0)
    for at, one in enumerate(reports, 1):
        run.take(one, at * every_ms)
    return run


def report(sequence: int, *, past_ms: int | None = None, windows: tuple[ProducerWindow, ...] = ()) -> ProducerReport:
    return ProducerReport(
        instance="app", epoch=1, sequence=sequence, at_ms=0, state="open", producer_ids=(7,), topics=("clicks",),
        moved_past_ms=past_ms, windows=windows,
    )  # fmt: skip


def test_a_run_has_the_topics_of_its_windows_too() -> None:
    window = ProducerWindow(topic="views", window_start_ms=0, sent=(), losses={"dropped": 1})
    assert run_of(report(0, windows=(window,))).topics == {"clicks", "views"}


def test_each_seal_counts_from_when_it_was_heard_however_old_the_events_are() -> None:
    """A replay of last year's log seals windows that are long over."""
    run = run_of(report(0, past_ms=W), report(1, past_ms=2 * W), report(2, past_ms=W), every_ms=1_000 * W)
    assert run.seals == [(W, 1_000 * W), (2 * W, 2_000 * W)]
    assert (run.sealed_ms(W), run.sealed_ms(2 * W), run.sealed_ms(2 * W + 1)) == (1_000 * W, 2_000 * W, None)
