"""List, set and remove the quotas of a cluster (KIP-546): ours, or Kafka 2.6 and later."""

from collections.abc import Mapping
from typing import Any

from ..wire.messages import control
from .connection.cluster import Cluster
from .errors import broker_error

DESCRIBE, ALTER = 48, 49
USER, CLIENT_ID = "user", "client-id"
KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")

Entity = tuple[tuple[str, str | None], ...]
"""Types (`user`, `client-id`) and names; None is the default of the type."""


def quotas(cluster: Cluster) -> dict[Entity, dict[str, float]]:
    """Return the quotas of each entity. Raises ClientError."""
    answer = _ask(cluster, DESCRIBE, {"components": [], "strict": False})
    if answer.error_code:
        raise broker_error(f"the quotas of {cluster.bootstrap}", int(answer.error_code), answer.error_message)
    return {
        tuple((str(part.entity_type), part.entity_name) for part in one.entity): {each.key: each.value for each in one.values}
        for one in answer.entries or ()
    }


def change(cluster: Cluster, entity: Entity, values: Mapping[str, float | None], *, is_dry: bool = False) -> None:
    """Set quotas of an entity; None removes one. With `is_dry` the cluster only checks them. Raises ClientError."""
    ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in values.items()]
    named = [{"entity_type": kind, "entity_name": name} for kind, name in entity]
    (entry,) = _ask(cluster, ALTER, {"entries": [{"entity": named, "ops": ops}], "validate_only": is_dry}).entries
    if entry.error_code:
        raise broker_error(f"quotas of {words(entity)} on {cluster.bootstrap}", int(entry.error_code), entry.error_message)


def words(entity: Entity) -> str:
    """Return an entity as a person reads it."""
    return ", ".join(f"{kind} {name}" if name is not None else f"every {kind}" for kind, name in entity)


def _ask(cluster: Cluster, api_key: int, message: Mapping[str, Any]) -> Any:
    connection = cluster.controller()
    version = connection.version(api_key, 0, 1)
    answer = connection.request(api_key, version, control.encode_request(api_key, version, message))
    return control.decode_response(api_key, version, answer)
