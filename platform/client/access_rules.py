"""List, add and remove the access rules (ACLs) of a cluster: ours, or Kafka 2.0 and later. Kinds are Kafka's numbers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..wire.messages import control
from .connection.cluster import Cluster
from .errors import broker_error

DESCRIBE, CREATE, DELETE = 29, 30, 31


class Row(NamedTuple):
    """A rule, or a filter: there, None and Kafka's ANY match everything."""

    resource: int
    name: str | None
    pattern: int
    principal: str | None
    host: str | None
    operation: int
    permission: int


def find(cluster: Cluster, wanted: Row) -> list[Row]:
    """Return the rules that the filter finds. Raises ClientError."""
    answer = _ask(cluster, DESCRIBE, _filter(wanted))
    _check(cluster, answer)
    return [
        Row(
            int(one.resource_type),
            one.resource_name,
            int(one.pattern_type),
            acl.principal,
            acl.host,
            int(acl.operation),
            int(acl.permission_type),
        )
        for one in answer.resources
        for acl in one.acls
    ]


def add(cluster: Cluster, rules: Sequence[Row]) -> None:
    """Add the rules, those that are there already, too. Raises ClientError for the first that is refused."""
    creations = [
        {
            "resource_type": one.resource,
            "resource_name": one.name,
            "resource_pattern_type": one.pattern,
            "principal": one.principal,
            "host": one.host,
            "operation": one.operation,
            "permission_type": one.permission,
        }
        for one in rules
    ]
    for one in _ask(cluster, CREATE, {"creations": creations}).results:
        _check(cluster, one)


def remove(cluster: Cluster, filters: Iterable[Row]) -> None:
    """Remove the rules that any of the filters finds. Raises ClientError."""
    for one in _ask(cluster, DELETE, {"filters": [_filter(one) for one in filters]}).filter_results:
        _check(cluster, one)
        for rule in one.matching_acls:
            _check(cluster, rule)


def _filter(one: Row) -> dict[str, Any]:
    return {
        "resource_type_filter": one.resource,
        "resource_name_filter": one.name,
        "pattern_type": one.pattern,
        "pattern_type_filter": one.pattern,
        "principal_filter": one.principal,
        "host_filter": one.host,
        "operation": one.operation,
        "permission_type": one.permission,
    }


def _check(cluster: Cluster, answer: Any) -> None:
    if answer.error_code:
        raise broker_error(f"the access rules of {cluster.bootstrap}", int(answer.error_code), answer.error_message)


def _ask(cluster: Cluster, api_key: int, message: Mapping[str, Any]) -> Any:
    connection = cluster.controller()
    version = connection.version(api_key, 1, 3)
    answer = connection.request(api_key, version, control.encode_request(api_key, version, message))
    return control.decode_response(api_key, version, answer)
