"""Holds Metadata to the rights: topics without DESCRIBE are left out of the list of all, and refused where they are named.

Whether a refused topic exists is not told. Metadata has a check of its own, because its handler reads the request by hand, and
remembers responses: the list of all becomes a list of those that the client may see.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ....wire.errors import ErrorCode, MalformedFrame
from ....wire.messages import control, metadata
from ...event_loop.response_generators import ResponseGenerator
from ...partitions.catalog import Catalog
from ...rights.rule import Operation, Resource
from ..request import Request
from .asking import Asking
from .checks import Fields
from .guard import Handler, completed, handled
from .table import cluster_operations

if TYPE_CHECKING:
    from ..broker import Broker

KEY = metadata.API_KEY
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
FIRST_WITH_OPERATIONS = 8
MOST_SEEN = 200
"""Lists of topics that clients may see, remembered by client."""

Wanted = str | bytes


class SeenTopics:
    """Remembers which topics a client may see, as long as neither the topics nor the rules change."""

    def __init__(self) -> None:
        self._of: tuple[Catalog, object] | None = None
        self._seen: dict[tuple[str, str], list[str] | None] = {}

    def of(self, asking: Asking, catalog: Catalog, rules: object) -> Generator[None, None, list[str] | None]:
        """Return the topics' names, sorted; None for all."""
        if self._of is None or self._of[0] is not catalog or self._of[1] is not rules:
            self._of = catalog, rules
            self._seen = {}
        known, key = self._seen, (asking.asker.principal, asking.asker.host)
        if key not in known:
            seen = []
            for name in sorted(catalog.topics):
                if asking.could(Operation.DESCRIBE, Resource.TOPIC, name):
                    seen.append(name)
                yield
            if len(known) >= MOST_SEEN:
                known.clear()
            known[key] = None if len(seen) == len(catalog.topics) else seen
            return known[key]
        return known[key]


def guarded_metadata(
    broker: "Broker", handler: Handler, request: Request, asking: Asking, seen: SeenTopics, rules: object
) -> ResponseGenerator:
    """Return the handler's response about what the client may see."""
    from ..metadata import read_request

    version, body, catalog = request.version, bytes(request.body), broker.topics.catalog
    wanted, may_create = yield from read_request(version, body)
    of_topics, of_cluster = _operations_wanted(version, body)
    denied: list[Fields] = []
    shown: list[Wanted] | None
    if wanted is None:
        listed = yield from seen.of(asking, catalog, rules)
        shown = None if listed is None else [*listed]
    else:
        shown = yield from _sorted_out(broker, catalog, wanted, may_create, asking, denied)

    def edit(response: Fields) -> None:
        topics = response["topics"]
        if wanted is None and shown is not None:
            names = set(shown)
            topics[:] = [one for one in topics if str(one["name"]) in names]
        if of_topics:
            for one in topics:
                if one["name"] is not None and one["error_code"] == ErrorCode.NONE:
                    one["topic_authorized_operations"] = asking.operations(Resource.TOPIC, str(one["name"]))
        if of_cluster:
            response["cluster_authorized_operations"] = cluster_operations(asking)
        topics += denied

    is_same = shown is None if wanted is None else not denied
    # Version 0 takes an empty list for all topics: then all are asked for, and what is hidden is taken out of the response.
    if not is_same and not (version == 0 and not shown):
        assert shown is not None
        request = request.with_body(version, _request(version, shown, may_create))
    is_edited = bool(denied or of_topics or of_cluster or (not is_same and version == 0))
    answer = yield from handled(broker, handler, request)
    return (yield from completed(answer, KEY, version, version, edit)) if is_edited else answer


def _sorted_out(
    broker: "Broker", catalog: Catalog, wanted: list[Wanted], may_create: bool, asking: Asking, denied: list[Fields]
) -> Generator[None, None, list[Wanted]]:
    """Return what the client may see of what it names. The rest goes into `denied`."""
    by_id: dict[bytes, str] = {}
    if not all(isinstance(one, str) for one in wanted):
        for entry in catalog.topics.values():
            by_id[entry.topic_id.bytes] = entry.name
            yield
    shown: list[Wanted] = []
    may_make = may_create and broker.settings.auto_create_topics
    for one in dict.fromkeys(wanted):
        yield
        name = one if isinstance(one, str) else by_id.get(one)
        if name is None:
            shown.append(one)  # there is no such id, and the handler says so
        elif asking.may(Operation.DESCRIBE, Resource.TOPIC, name) and (
            not may_make or name in catalog.topics or _may_make(asking, name)
        ):
            shown.append(one)
        else:
            denied.append(_denied(one))
    return shown


def _may_make(asking: Asking, name: str) -> bool:
    return asking.could(Operation.CREATE, Resource.CLUSTER) or asking.may(Operation.CREATE, Resource.TOPIC, name)


def _denied(one: Wanted) -> Fields:
    named: dict[str, Any] = {"name": one, "topic_id": None}
    if isinstance(one, bytes):
        named = {"name": None, "topic_id": UUID(bytes=one)}
    return {**named, "error_code": DENIED, "is_internal": False, "partitions": ()}


def _operations_wanted(version: int, body: bytes) -> tuple[bool, bool]:
    """Return whether the authorized operations of topics and of the cluster are asked for."""
    if version < FIRST_WITH_OPERATIONS:
        return False, False
    try:
        decoded = control.decode_request(KEY, version, body)
    except MalformedFrame:
        return False, False  # librdkafka's short form of a request for all: it asks for none
    of_cluster = getattr(decoded, "include_cluster_authorized_operations", False)
    return bool(decoded.include_topic_authorized_operations), bool(of_cluster)


def _request(version: int, shown: list[Wanted], may_create: bool) -> bytes:
    topics = [
        {"name": one, "topic_id": None} if isinstance(one, str) else {"name": "", "topic_id": UUID(bytes=one)} for one in shown
    ]
    message = {"topics": topics, "allow_auto_topic_creation": may_create}
    operations = {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": False}
    return control.encode_request(KEY, version, message | operations)
