"""What bounds a page: so many messages, so long a search, so much of unread records."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.console import unread
from headrace.console.answers import Answers
from headrace.console.asked import Asked
from headrace.console.pages import groups, messages
from headrace.runtime.clock import ManualClock
from headrace.runtime.layout import Layout
from tests.support.group_reading import consume
from tests.support.raw_kafka import RawClient, batch, create_topic

from .conftest import TOPIC, Platform


@pytest.fixture
def answers(platform: Platform, tmp_path: Path) -> Iterator[Answers]:
    """Answers of this process, so that a test may lower the bounds."""
    places = {"LIVE_BOOTSTRAP": platform.broker.address, "REGISTRY_URL": platform.registry.url, "AUDIT_URL": platform.audit.url}
    layout = Layout(home=tmp_path, elsewhere=tuple((f"HEADRACE_{name}", place) for name, place in places.items()))
    made = Answers(layout, ManualClock(1), is_read_only=False)
    yield made
    made.close()


def looked_at(page: str) -> tuple[int, int]:
    """Return how many messages a page shows, and at how many it has looked."""
    found = re.search(r"<caption>(\d+) messages; ([\d,]+) were looked at", page)
    assert found, page
    return int(found[1]), int(found[2].replace(",", ""))


def test_a_page_shows_so_many_messages_and_says_that_there_are_more(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MOST_SHOWN", 3)
    page = messages.page(answers, Asked({"topic": TOPIC, "from": "earliest"}))
    assert looked_at(page) == (3, 3)
    assert "The search stopped there" in page


def test_a_search_looks_at_so_many_messages_and_for_so_long(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = Asked({"topic": TOPIC, "from": "earliest", "where": "status = 1"})
    monkeypatch.setattr(messages, "MOST_LOOKED_AT", 5)
    page = messages.page(answers, nothing)
    assert looked_at(page) == (0, 5)
    assert "The search stopped there" in page
    monkeypatch.setattr(messages, "MOST_LOOKED_AT", 1_000_000)
    monkeypatch.setattr(messages, "LOOK_S", -1.0)
    page = messages.page(answers, nothing)
    assert looked_at(page) == (0, 0)
    assert "The search stopped there" in page


def test_what_a_group_has_not_read_is_estimated_beyond_a_bound_and_partitions_are_cut(
    platform: Platform, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(platform.broker.port, "unread", 1, {})
    with RawClient(platform.broker.port) as client:
        for value in (b"first", b"second"):
            assert client.produce("unread", batch(value)).error_code == 0
    assert len(consume(platform.broker.address, "unread", "slow", 2)) == 2
    assert ">0</td>" in groups.group_page(answers, Asked({"group": "slow"}))
    from_start = Asked({"group": "slow", "to": "earliest"})
    assert "Nothing has moved yet" in groups.group_page(answers, from_start)
    order = {"group": "slow", "offsets": [["unread", 0, 0]]}
    assert groups.move(answers, order) == order
    monkeypatch.setattr(unread, "COUNTED_BYTES", 1)
    assert "about " in groups.group_page(answers, Asked({"group": "slow"})).partition("<tbody>")[2]
    monkeypatch.setattr(groups, "MOST_PARTITIONS", 0)
    assert "more partitions:" in groups.group_page(answers, Asked({"group": "slow"}))
