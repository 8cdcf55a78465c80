"""Which quota counts for a client: Kafka's keys and precedence. Pure. Source: KIP-13, KIP-55, KIP-124, `DefaultQuotaCallback`."""

from collections.abc import Mapping

PRODUCE, FETCH, REQUESTS = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
KEYS = (PRODUCE, FETCH, REQUESTS)
"""Bytes a second, bytes a second, and hundredths of the time of the broker's loop."""
DEFAULT = "<default>"
"""The step of every user, or every client id, without a quota of its own. No name is written so."""

Entity = tuple[str | None, str | None]
"""The steps of a user and of a client id; None: the quota is not about one."""
Limits = Mapping[Entity, Mapping[str, float]]


def limit_of(limits: Limits, key: str, user: str, client: str) -> tuple[float, Entity] | None:
    """Return the client's limit and the entity that shares it: all clients of a user, say. None where there is no limit."""
    both, of_user, of_client = (user, client), (user, None), (None, client)
    for entity, shared_by in (
        (both, both),
        ((user, DEFAULT), both),
        (of_user, of_user),
        ((DEFAULT, client), both),
        ((DEFAULT, DEFAULT), both),
        ((DEFAULT, None), of_user),
        (of_client, of_client),
        ((None, DEFAULT), of_client),
    ):
        limit = limits.get(entity, {}).get(key)
        if limit is not None:
            return limit, shared_by
    return None


def fault_of(key: str, value: float) -> str | None:
    """Return why a quota cannot be set, None where it can."""
    if key not in KEYS:
        return f"the quota {key} is not served here: {', '.join(KEYS)} are"
    if not 0 < value < float("inf"):
        return f"{key}={value}: a quota is larger than 0"
    if key != REQUESTS and value != int(value):
        return f"{key}={value}: a whole number of bytes a second"
    return None


def read(config: Mapping[str, str]) -> dict[str, float]:
    """Return the quotas among an entity's settings. One that cannot be read is left out."""
    found = {}
    for key in KEYS:
        try:
            value = float(config[key])
        except (KeyError, ValueError):
            continue
        if fault_of(key, value) is None:
            found[key] = value
    return found


def written(key: str, value: float) -> str:
    """Return the value as Kafka writes it."""
    return repr(value) if key == REQUESTS else str(int(value))
