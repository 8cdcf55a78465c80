"""Which rights each API wants: one table, which the guard follows and the manual prints (docs/RIGHTS.md).

As Kafka's `KafkaApis` and `ControllerApis` check them. Produce and Fetch check in their handlers, by topic: `IN_HANDLER`.
"""

from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from ....wire.errors import ErrorCode
from ...rights.rule import Operation, Resource
from .asking import Asking
from .checks import (
    DENIED_ON,
    MESSAGES,
    PLACES,
    Asked,
    Check,
    Edit,
    Fields,
    Need,
    Passed,
    Places,
    Refused,
    Steps,
    adding,
    joined,
    on_cluster,
    on_each,
    on_group,
    on_topics,
    top_level,
)

NONE = ErrorCode.NONE
TOPIC_DENIED, GROUP_DENIED = DENIED_ON[Resource.TOPIC], DENIED_ON[Resource.GROUP]
METADATA = 3
NOT_GIVEN = -(1 << 31)
"""Authorized operations that were not asked for."""

IN_HANDLER: Mapping[int, tuple[Need, ...]] = {
    0: (Need(Operation.WRITE, Resource.TOPIC),),
    1: (
        Need(Operation.READ, Resource.TOPIC),
        Need(Operation.CLUSTER_ACTION, Resource.CLUSTER, "a broker's, instead"),
    ),
}
"""Checked by the handlers of Produce and Fetch."""
METADATA_NEEDS = (
    Need(Operation.DESCRIBE, Resource.TOPIC, "topics without it are left out of the list of all"),
    Need(Operation.CREATE, Resource.TOPIC, "or on the cluster, to create it by first use"),
)
"""Checked by `metadata_check`."""
FREE = {17: "SaslHandshake", 18: "ApiVersions", 36: "SaslAuthenticate"}
"""Wants no right: it says who the client is."""


def _each_creation(asked: Asked, error: ErrorCode) -> Fields:
    return {"throttle_time_ms": 0, "results": [_error(error) for _ in asked.request.creations or ()]}


def _each_filter(asked: Asked, error: ErrorCode) -> Fields:
    results = [{**_error(error), "matching_acls": ()} for _ in asked.request.filters or ()]
    return {"throttle_time_ms": 0, "filter_results": results}


def _each_entry(asked: Asked, error: ErrorCode) -> Fields:
    entries = [
        {
            **_error(error),
            "entity": [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in one.entity or ()],
        }
        for one in asked.request.entries or ()
    ]
    return {"throttle_time_ms": 0, "entries": entries}


def _each_user(asked: Asked, error: ErrorCode) -> Fields:
    users = dict.fromkeys(str(one.name) for one in (*(asked.request.deletions or ()), *(asked.request.upsertions or ())))
    return {"throttle_time_ms": 0, "results": [{"user": user, **_error(error)} for user in users]}


def _each_folder(asked: Asked, error: ErrorCode) -> Fields:
    places, answers = Places(number=""), Places("results", "topic_name")
    topics = [topic for one in asked.request.dirs or () for topic in one.topics or ()]
    return {"throttle_time_ms": 0, "results": [answers.with_error(*places.of(topic), error, {}) for topic in topics]}


def _each_election(asked: Asked, error: ErrorCode) -> Fields:
    places = Places("topic_partitions", "topic", "partitions", "")
    answers = Places("replica_election_results", "topic", "partition_result", "partition_id")
    topics = [
        answers.with_error(*places.of(topic), error, {"error_message": MESSAGES[error]})
        for topic in asked.request.topic_partitions or ()
    ]
    return {"throttle_time_ms": 0, "error_code": error, "replica_election_results": topics}


def _each_committed(asked: Asked, error: ErrorCode) -> Fields:
    topics = [PLACES.with_error(*PLACES.of(one), error, {}) for one in asked.request.topics or ()]
    return {"throttle_time_ms": 0, "topics": topics}


def _error(error: ErrorCode) -> Fields:
    return {"error_code": error, "error_message": MESSAGES[error]}


def _name_and_error(topic: Any, error: ErrorCode) -> Fields:
    return {"name": topic.name, **_error(error)}


def _find_coordinator(asked: Asked) -> Steps:
    request = asked.request
    operation_on = {0: Resource.GROUP, 1: Resource.TRANSACTIONAL_ID}
    kind = operation_on.get(int(getattr(request, "key_type", 0)))
    nobody = {"node_id": -1, "host": "", "port": -1}
    if kind is None:
        return Passed(request)
    if hasattr(request, "key"):
        if asked.asking.may(Operation.DESCRIBE, kind, str(request.key)):
            return Passed(request)
        return Refused({"throttle_time_ms": 0, **nobody, **_error(DENIED_ON[kind])})
    allowed, denied = [], []
    for key in request.coordinator_keys or ():
        if asked.asking.may(Operation.DESCRIBE, kind, str(key)):
            allowed.append(key)
        else:
            denied.append({"key": key, **nobody, **_error(DENIED_ON[kind])})
        yield
    if not denied:
        return Passed(request)
    return Passed(replace(request, coordinator_keys=tuple(allowed)), adding("coordinators", denied))


def _offset_fetch(asked: Asked) -> Steps:
    request = asked.request
    if not hasattr(request, "groups"):
        if not asked.asking.may(Operation.DESCRIBE, Resource.GROUP, str(request.group_id)):
            if asked.version >= 2:
                return Refused(top_level(asked, GROUP_DENIED))
            places = Places(partitions="partition_indexes", number="")
            topics = [PLACES.with_error(*places.of(one), GROUP_DENIED, _NO_OFFSET) for one in request.topics or ()]
            return Refused({"topics": topics})
        passed, edit = yield from _offsets_of(asked, request)
        return Passed(passed, edit)
    groups, denied, edits = [], [], {}
    for one in request.groups or ():
        if asked.asking.may(Operation.DESCRIBE, Resource.GROUP, str(one.group_id)):
            passed, edit = yield from _offsets_of(asked, one)
            groups.append(passed)
            if edit is not None:
                edits[str(one.group_id)] = edit
        else:
            denied.append({"group_id": one.group_id, "topics": (), "error_code": GROUP_DENIED})
        yield

    def of_each(response: Fields) -> None:
        for answer in response["groups"]:
            if (edit := edits.get(str(answer["group_id"]))) is not None:
                edit(answer)

    added = adding("groups", denied) if denied else None
    return Passed(replace(request, groups=tuple(groups)), joined(of_each if edits else None, added))


_NO_OFFSET: Fields = {"committed_offset": -1, "committed_leader_epoch": -1, "metadata": ""}


def _offsets_of(asked: Asked, group: Any) -> Generator[None, None, tuple[Any, Edit | None]]:
    """Return the group's part of the request without the topics that are hidden, and the edit of its part of the response."""
    if group.topics is None:

        def hide(answer: Fields) -> None:
            asking = asked.asking
            answer["topics"] = [
                one for one in answer["topics"] if asking.could(Operation.DESCRIBE, Resource.TOPIC, str(one["name"]))
            ]

        return group, hide
    allowed, denied = [], []
    places = Places(partitions="partition_indexes", number="")
    for topic in group.topics:
        if asked.asking.may(Operation.DESCRIBE, Resource.TOPIC, str(topic.name)):
            allowed.append(topic)
        else:
            denied.append(PLACES.with_error(*places.of(topic), TOPIC_DENIED, _NO_OFFSET))
        yield
    if not denied:
        return group, None
    return replace(group, topics=tuple(allowed)), adding("topics", denied)


def _list_groups(asked: Asked) -> Steps:
    asking = asked.asking
    if asking.could(Operation.DESCRIBE, Resource.CLUSTER):
        return Passed(asked.request)

    def hide(response: Fields) -> None:
        response["groups"] = [
            one for one in response["groups"] if asking.could(Operation.DESCRIBE, Resource.GROUP, str(one["group_id"]))
        ]

    return Passed(asked.request, hide)
    yield


def _group_named(operation: Operation, answered: Fields | None = None) -> Any:
    def answer(name: Any, error: ErrorCode) -> Fields:
        return {"group_id": name, "error_code": error, **(answered or {})}

    def verdict(asked: Asked, name: Any) -> ErrorCode:
        return NONE if asked.asking.may(operation, Resource.GROUP, str(name)) else GROUP_DENIED

    return verdict, answer


def _describe_groups(asked: Asked) -> Steps:
    """Say which operations are authorized, where the request asks for them."""
    if not getattr(asked.request, "include_authorized_operations", False):
        return Passed(asked.request)

    def edit(response: Fields) -> None:
        for one in response["groups"]:
            if one["error_code"] == NONE:
                one["authorized_operations"] = asked.asking.operations(Resource.GROUP, str(one["group_id"]))

    return Passed(asked.request, edit)
    yield


def _create_topics(asked: Asked) -> Steps:
    asking, request = asked.asking, asked.request
    may_all = asking.could(Operation.CREATE, Resource.CLUSTER)
    nothing = {"topic_id": None, "num_partitions": -1, "replication_factor": -1, "configs": ()}
    allowed, denied = [], []
    for topic in request.topics or ():
        if may_all or asking.may(Operation.CREATE, Resource.TOPIC, str(topic.name)):
            allowed.append(topic)
        else:
            denied.append({**_name_and_error(topic, TOPIC_DENIED), **nothing, "topic_config_error_code": TOPIC_DENIED})
        yield
    hidden = {
        str(topic.name) for topic in allowed if not asking.could(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, str(topic.name))
    }

    def hide(response: Fields) -> None:
        for one in response["topics"]:
            if str(one["name"]) in hidden:
                one |= {"configs": None, "topic_config_error_code": TOPIC_DENIED, "num_partitions": -1, "replication_factor": -1}

    edit: Edit | None = hide if hidden and asked.version >= 5 else None
    if not denied:
        return Passed(request, edit)
    return Passed(replace(request, topics=tuple(allowed)), joined(edit, adding("topics", denied)))


def _delete_topics(asked: Asked) -> Steps:
    asking, request, catalog = asked.asking, asked.request, asked.catalog
    if asking.could(Operation.DELETE, Resource.CLUSTER):
        return Passed(request)
    allowed, denied = [], []
    by_id: dict[UUID, str] = {}
    by_name = not hasattr(request, "topics")
    if not by_name and any(topic.topic_id is not None for topic in request.topics or ()):
        for entry in catalog.topics.values():
            by_id[entry.topic_id] = entry.name
            yield
    for one in (request.topic_names if by_name else request.topics) or ():
        yield
        name, topic_id = (one, None) if by_name else (one.name, one.topic_id)
        known = by_id.get(topic_id) if name is None and topic_id is not None else name
        if known is None or asking.may(Operation.DELETE, Resource.TOPIC, str(known)):
            allowed.append(one)  # no such id, or neither name nor id: the handler says so
            continue
        is_seen = asking.could(Operation.DESCRIBE, Resource.TOPIC, str(known))
        if topic_id is not None:
            denied.append({"name": known if is_seen else None, "topic_id": topic_id, **_error(TOPIC_DENIED)})
        elif is_seen and str(known) not in catalog.topics:
            allowed.append(one)  # it may know that there is none
        else:
            denied.append({"name": known, "topic_id": None, **_error(TOPIC_DENIED)})
    if not denied:
        return Passed(request)
    field = "topic_names" if by_name else "topics"
    return Passed(replace(request, **{field: tuple(allowed)}), adding("responses", denied))


def _configured(operation: Operation) -> Any:
    """Return the verdict about a resource of DescribeConfigs and AlterConfigs, and its element of the response."""
    kinds = {2: Resource.TOPIC, 4: Resource.CLUSTER, 8: Resource.CLUSTER, 16: Resource.CLUSTER, 32: Resource.GROUP}

    def verdict(asked: Asked, one: Any) -> ErrorCode:
        kind = kinds.get(int(one.resource_type))
        if kind is None:
            return NONE  # the handler refuses it
        named = () if kind is Resource.CLUSTER else (str(one.resource_name),)
        return NONE if asked.asking.may(operation, kind, *named) else DENIED_ON[kind]

    def answer(one: Any, error: ErrorCode) -> Fields:
        return {"resource_type": one.resource_type, "resource_name": one.resource_name, **_error(error)}

    return verdict, answer


def _described_configs(one: Any, error: ErrorCode) -> Fields:
    return {**_configured(Operation.DESCRIBE_CONFIGS)[1](one, error), "configs": ()}


def _init_producer_id(asked: Asked) -> Steps:
    asking, transactional_id = asked.asking, asked.request.transactional_id
    if transactional_id is not None:
        if asking.may(Operation.WRITE, Resource.TRANSACTIONAL_ID, str(transactional_id)):
            return Passed(asked.request)
        return Refused(top_level(asked, DENIED_ON[Resource.TRANSACTIONAL_ID]))
    if asking.could_some(Operation.WRITE, Resource.TOPIC) or asking.may(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER):
        return Passed(asked.request)
    return Refused(top_level(asked, DENIED_ON[Resource.CLUSTER]))
    yield


def _describe_cluster(asked: Asked) -> Steps:
    if not getattr(asked.request, "include_cluster_authorized_operations", False):
        return Passed(asked.request)

    def edit(response: Fields) -> None:
        response["cluster_authorized_operations"] = cluster_operations(asked.asking)

    return Passed(asked.request, edit)
    yield


def cluster_operations(asking: Asking) -> int:
    """Return which operations on the cluster are authorized, as a bit field; none without DESCRIBE, as in Kafka."""
    return asking.operations(Resource.CLUSTER) if asking.could(Operation.DESCRIBE, Resource.CLUSTER) else 0


def _create_partitions(asked: Asked, topic: Any) -> ErrorCode:
    return NONE if asked.asking.may(Operation.ALTER, Resource.TOPIC, str(topic.name)) else TOPIC_DENIED


_NOT_FOUND: Fields = {"timestamp": -1, "offset": -1, "leader_epoch": -1}
_DESCRIBED_GROUP: Fields = {
    "group_state": "",
    "protocol_type": "",
    "protocol_data": "",
    "members": (),
    "authorized_operations": NOT_GIVEN,
}
_READ_GROUP = on_group(Operation.READ)


def _on_groups(operation: Operation, array: str, answered: str, others: Fields | None = None, *, is_admin: bool = False) -> Check:
    verdict, answer = _group_named(operation, others)
    needs = (Need(operation, Resource.GROUP),)
    return on_each(needs, array, verdict, answered=answered, answer=answer, is_admin=is_admin)


def _on_configs(operation: Operation, answered: str, *, is_admin: bool) -> Check:
    verdict, answer = _configured(operation)
    needs = (Need(operation, Resource.TOPIC, "or the cluster, for a broker's"),)
    shown = _described_configs if operation is Operation.DESCRIBE_CONFIGS else answer
    return on_each(needs, "resources", verdict, answered=answered, answer=shown, is_admin=is_admin)


CHECKS: Mapping[int, Check] = {
    2: on_topics(Operation.DESCRIBE, others=_NOT_FOUND),
    8: on_group(Operation.READ, _each_committed).then(on_topics(Operation.READ)),
    9: Check((Need(Operation.DESCRIBE, Resource.GROUP), Need(Operation.DESCRIBE, Resource.TOPIC)), _offset_fetch),
    10: Check((Need(Operation.DESCRIBE, Resource.GROUP, "or on the transactional id"),), _find_coordinator),
    11: _READ_GROUP,
    12: _READ_GROUP,
    13: _READ_GROUP,
    14: _READ_GROUP,
    15: _on_groups(Operation.DESCRIBE, "groups", "groups", _DESCRIBED_GROUP).then(Check((), _describe_groups)),
    16: Check(
        (
            Need(Operation.DESCRIBE, Resource.CLUSTER, "shows all"),
            Need(Operation.DESCRIBE, Resource.GROUP, "shows this one"),
        ),
        _list_groups,
    ),
    19: Check(
        (
            Need(Operation.CREATE, Resource.TOPIC, "or on the cluster"),
            Need(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, "to see its settings"),
        ),
        _create_topics,
        is_admin=True,
    ),
    20: Check((Need(Operation.DELETE, Resource.TOPIC, "or on the cluster"),), _delete_topics, is_admin=True),
    21: on_topics(Operation.DELETE, others={"low_watermark": -1}, is_admin=True),
    22: Check(
        (
            Need(Operation.WRITE, Resource.TOPIC, "on some topic"),
            Need(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, "instead"),
        ),
        _init_producer_id,
    ),
    23: on_topics(
        Operation.DESCRIBE,
        asked_in=Places(name="topic", number="partition"),
        answered_in=Places(name="topic", number="partition"),
        others={"leader_epoch": -1, "end_offset": -1},
        unless=lambda asking: asking.could(Operation.CLUSTER_ACTION, Resource.CLUSTER),
    ),
    29: on_cluster(Operation.DESCRIBE),
    30: on_cluster(Operation.ALTER, _each_creation, is_admin=True),
    31: on_cluster(Operation.ALTER, _each_filter, is_admin=True),
    32: _on_configs(Operation.DESCRIBE_CONFIGS, "results", is_admin=False),
    33: _on_configs(Operation.ALTER_CONFIGS, "responses", is_admin=True),
    34: on_cluster(Operation.ALTER, _each_folder, is_admin=True),
    35: on_cluster(Operation.DESCRIBE),
    37: on_each(
        (Need(Operation.ALTER, Resource.TOPIC),),
        "topics",
        _create_partitions,
        answered="results",
        answer=_name_and_error,
        is_admin=True,
    ),
    42: _on_groups(Operation.DELETE, "groups_names", "results", is_admin=True),
    43: on_cluster(Operation.ALTER, _each_election, is_admin=True),
    44: _on_configs(Operation.ALTER_CONFIGS, "responses", is_admin=True),
    45: on_cluster(Operation.ALTER, is_admin=True),
    46: on_cluster(Operation.DESCRIBE),
    47: on_group(Operation.DELETE).then(on_topics(Operation.READ, is_admin=True)),
    48: on_cluster(Operation.DESCRIBE_CONFIGS),
    49: on_cluster(Operation.ALTER_CONFIGS, _each_entry, is_admin=True),
    50: on_cluster(Operation.DESCRIBE),
    51: on_cluster(Operation.ALTER, _each_user, is_admin=True),
    60: Check((), _describe_cluster),
    61: on_topics(
        Operation.READ,
        asked_in=Places(partitions="partition_indexes", number=""),
        others={"error_message": MESSAGES[TOPIC_DENIED], "active_producers": ()},
    ),
}
"""By API key, every one of `api_table` but Produce, Fetch, Metadata and those that want no right."""


def needs_of(api_key: int) -> tuple[Need, ...]:
    """Return the rights that an API wants, for the manual."""
    if api_key == METADATA:
        return METADATA_NEEDS
    return IN_HANDLER.get(api_key) or (CHECKS[api_key].needs if api_key in CHECKS else ())
