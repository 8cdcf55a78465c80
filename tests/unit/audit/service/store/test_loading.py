"""What is loaded of a topic's books, and what stays in the store."""

from headrace.audit.service.store.loading import StoredWindows
from tests.support.audit_parts import T0, Service, W, mirror


def test_a_range_told_again_and_a_recount_load_the_windows_that_they_touch_and_no_others(service: Service) -> None:
    """Fault: a mirror that repeated its last range had the audit load three days of the topic."""
    for at in range(20):
        service.report(mirror(at * 10, at * 10 + 10, {T0 + at * W: 10}), offset=at)
        service.read("live", at * 10, at * 10 + 10, {T0 + at * W: 10})
    service.restart()
    service.report(mirror(195, 205, {T0 + 19 * W: 10}), offset=20)
    assert loaded(service) == {T0 + 19 * W}
    service.restart()
    service.ledger.logs.recount("live", "clicks", {0: 175})
    assert loaded(service) == {T0 + at * W for at in (17, 18, 19)}
    assert service.ledger.books.book("clicks").windows[T0 + 17 * W].found["live"][0].held.count == 5
    assert service.ledger.books.book("clicks").logs["live"][0].position == 175


def loaded(service: Service) -> set[int]:
    """Return the windows that are in memory."""
    windows = service.ledger.books.book("clicks").windows
    assert isinstance(windows, StoredWindows)
    return {start for start, _ in dict.items(windows)}
