"""Which sequence numbers producers named: the fewest ranges, bounded, from the books as they are kept."""

from starlette.testclient import TestClient

from headrace.audit.model.books import ProducerBook, Sent, SentKey, WindowBook
from headrace.audit.model.runs import RunKey
from headrace.audit.service.web.endpoints import MOST_SENT_MS, application
from headrace.audit.service.web.sequences import MOST_RANGES, sequences
from tests.support.audit_parts import T0, Service, W, complete


def book(*batches: tuple[int, int], uncertain: tuple[tuple[int, int], ...] = ()) -> WindowBook:
    sent = Sent()
    sent.acknowledged.add((first, count, 7) for first, count in batches)
    sent.uncertain.add((first, count, 7) for first, count in uncertain)
    sent.renumbered.add([(500, 5, 7, 9, 0, 0)])
    window = WindowBook()
    window.producers[RunKey("host/app/1", 3)] = ProducerBook(0, {SentKey(2, 41, 1): sent})
    return window


def test_batches_one_after_another_are_one_range_and_those_sent_again_are_none() -> None:
    told = sequences(book((0, 10), (10, 5), (20, 1), uncertain=((15, 5),)))
    common = {"partition": 2, "producer_id": 41, "producer_epoch": 1, "instance": "host/app/1"}
    assert told == {
        "ranges": [
            {"end": "acknowledged", **common, "first_sequence": 0, "count": 15},
            {"end": "acknowledged", **common, "first_sequence": 20, "count": 1},
            {"end": "uncertain", **common, "first_sequence": 15, "count": 5},
        ],
        "more": 0,
    }


def test_more_ranges_than_are_told_are_counted() -> None:
    told = sequences(book(*((2 * number, 1) for number in range(MOST_RANGES + 7))))
    assert (len(told["ranges"]), told["more"]) == (MOST_RANGES, 7)


def test_they_are_asked_for_by_topic_and_time(service: Service) -> None:
    http = TestClient(application(service.ledger, service.judge, service.clock, service.site()))
    complete(service)

    def ask(topic: str, from_ms: int, to_ms: int) -> object:
        return http.get("/api/sequences", params={"topic": topic, "from_ms": from_ms, "to_ms": to_ms}).json()

    (window,) = ask("clicks", T0, T0 + W)  # type: ignore[misc]
    assert window["window_start_ms"] == T0
    assert sum(one["count"] for one in window["ranges"]) == 5
    assert ask("clicks", T0 + 2 * W, T0 + 3 * W) == []
    assert ask("nobody", T0, T0 + W) == []
    assert http.get("/api/topics").json() == ["clicks"], "a question makes no topic"
    for wrong in ((T0, T0 - 1), (T0, T0 + MOST_SENT_MS + 1)):
        assert "from_ms and to_ms are needed" in str(ask("clicks", *wrong))
