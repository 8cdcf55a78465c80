"""Rights at the services whose pages are about topics (audit, console): READ on a topic shows what is about it, DESCRIBE on the
cluster shows everything but records, ALTER on the cluster changes something."""

from collections.abc import Collection
from contextlib import AbstractContextManager
from urllib.parse import parse_qs

from ..runtime.http_access import Refused
from .callers import ALTER, DESCRIBE, READ, Caller, Callers

SAFE = ("GET", "HEAD")
MOST_WORDS = 1_000
"""Of a query."""


class TopicLogins:
    """Admits callers (`runtime.serving.guard.Logins`)."""

    def __init__(
        self, callers: Callers, *, of_topic: Collection[str], of_records: Collection[str] = (), for_all: Collection[str] = ()
    ) -> None:
        """Paths: `of_topic` show nothing but the topics of their query, `of_records` records of them, `for_all` only what the
        caller may see. All others show everything.
        """
        self._callers = callers
        self._of_topic = frozenset(of_topic)
        self._of_records = frozenset(of_records)
        self._for_all = frozenset(for_all)

    def admitted(self, authorization: str | None, host: str) -> AbstractContextManager[Caller]:
        return self._callers.admitted(authorization, host)

    def check(self, caller: Caller, method: str, path: str, query: bytes) -> None:
        """Raise Refused when the caller has no right to the request."""
        if method not in SAFE:
            if not caller.may_on_cluster(ALTER):
                raise Refused(f"User:{caller.name} has no right to ALTER the cluster, which a change here wants")
            return
        if path in self._for_all:
            return
        try:
            topics = parse_qs(query.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_WORDS).get("topic", [])
        except ValueError:
            raise Refused(f"the query has more than {MOST_WORDS} words") from None
        if topics and path in self._of_records | self._of_topic:
            for topic in topics:
                if not caller.may(READ, topic) and (path in self._of_records or not caller.may_on_cluster(DESCRIBE)):
                    raise Refused(f"User:{caller.name} has no right to READ the topic {topic[:250]!r}")
            return
        if not caller.may_on_cluster(DESCRIBE):
            raise Refused(
                f"User:{caller.name} has no right to DESCRIBE the cluster, which shows all topics; name one that it may read"
            )
