"""Which rights the pages about topics want, and callers that show nothing that can be a login."""

from typing import Any

import pytest

from headrace.client.callers import ALTER, DESCRIBE, READ, Callers
from headrace.client.topic_logins import MOST_WORDS, TopicLogins
from headrace.runtime.http_access import NotAdmitted, Refused

LOGINS = TopicLogins(None, of_topic={"/topic"}, of_records={"/messages"}, for_all={"/topics"})  # type: ignore[arg-type]


class Known:
    """A caller whose rights are given."""

    name = "ann"

    def __init__(self, *topics: str, cluster: tuple[int, ...] = ()) -> None:
        self.topics = topics
        self.cluster = cluster

    def may(self, operation: int, topic: str) -> bool:
        return operation == READ and topic in self.topics

    def may_on_cluster(self, operation: int) -> bool:
        return operation in self.cluster


@pytest.mark.parametrize(
    ("request_", "reader", "operator"),
    [
        ("GET /topics", True, True),
        ("GET /topic?topic=clicks", True, True),
        ("GET /topic?topic=other", False, True),
        ("GET /topic?topic=clicks&topic=other", False, True),
        ("GET /topic?topic=", False, True),
        ("GET /topic", False, True),
        ("GET /messages?topic=clicks", True, False),
        ("GET /messages?topic=other", False, False),
        ("GET /messages?topic=clicks&topic=other", False, False),
        ("GET /messages", False, True),
        ("GET /problems?topic=clicks", False, True),
        ("POST /topic?topic=clicks", False, False),
        ("HEAD /topic?topic=cl%69cks", True, True),
        (f"GET /topic?topic=clicks{'&a=b' * MOST_WORDS}", False, False),
    ],
)
def test_read_on_a_topic_shows_it_and_describe_on_the_cluster_everything_but_records(
    request_: str, reader: bool, operator: bool
) -> None:
    def allowed(caller: Any) -> bool:
        method, _, target = request_.partition(" ")
        path, _, query = target.partition("?")
        try:
            LOGINS.check(caller, method, path, query.encode())
        except Refused:
            return False
        return True

    assert (allowed(Known("clicks")), allowed(Known(cluster=(DESCRIBE,)))) == (reader, operator)
    assert allowed(Known(cluster=(ALTER, DESCRIBE))) is (operator or request_.startswith("POST"))


@pytest.mark.parametrize(
    "shown",
    [
        None,
        "",
        "Basic",
        "Basic !!!",
        "Basic YWxpY2U=",
        "Basic OnA=",
        "Basic YTo=",
        "Basic YQA6Yg==",
        "Digest abc",
        "Basic " + "A" * 20_000,
    ],
)
def test_what_cannot_be_a_login_asks_no_broker(shown: str | None) -> None:
    callers = Callers("127.0.0.1:1")  # nothing listens there: asking it would raise BrokerUnreachable
    with pytest.raises(NotAdmitted), callers.admitted(shown, "10.0.0.1"):
        raise AssertionError("nobody is admitted")
