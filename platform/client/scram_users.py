"""List, add and remove the users of a cluster that logs in with SCRAM (KIP-554): ours, or Kafka 2.7 and later."""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from ..wire.messages import control
from ..wire.scram_client import HASHES
from .connection.cluster import Cluster
from .errors import broker_error

DESCRIBE, ALTER = 50, 51
NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
SALT_BYTES = 16


def users(cluster: Cluster) -> dict[str, dict[str, int]]:
    """Return each user's mechanisms with their iterations, by the user's sorted name. Raises ClientError."""
    answer = _ask(cluster, DESCRIBE, {"users": None})
    if answer.error_code:
        raise broker_error(f"the users of {cluster.bootstrap}", int(answer.error_code), answer.error_message)
    names = {number: name for name, number in NUMBERS.items()}
    return {
        one.user: {names.get(int(info.mechanism), str(int(info.mechanism))): info.iterations for info in one.credential_infos}
        for one in sorted(answer.results, key=lambda one: str(one.user))
    }


def put_user(cluster: Cluster, user: str, password: str, mechanisms: Sequence[str], iterations: int) -> None:
    """Give a user this password; make the user when there is none. The broker gets it salted and hashed. Raises ClientError."""
    upsertions = []
    for mechanism in mechanisms:
        salt = secrets.token_bytes(SALT_BYTES)
        salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)
        words = {"iterations": iterations, "salt": salt, "salted_password": salted}
        upsertions.append({"name": user, "mechanism": NUMBERS[mechanism], **words})
    _alter(cluster, user, {"deletions": [], "upsertions": upsertions})


def remove_user(cluster: Cluster, user: str, mechanisms: Sequence[str]) -> None:
    """Remove these credentials of a user. Raises ClientError, also for one that the user does not have."""
    deletions = [{"name": user, "mechanism": NUMBERS[mechanism]} for mechanism in mechanisms]
    _alter(cluster, user, {"deletions": deletions, "upsertions": []})


def _alter(cluster: Cluster, user: str, message: Mapping[str, Any]) -> None:
    for one in _ask(cluster, ALTER, message).results:
        if one.error_code:
            raise broker_error(f"user {user!r} on {cluster.bootstrap}", int(one.error_code), one.error_message)


def _ask(cluster: Cluster, api_key: int, message: Mapping[str, Any]) -> Any:
    connection = cluster.controller()
    version = connection.version(api_key, 0, 0)
    answer = connection.request(api_key, version, control.encode_request(api_key, version, message))
    return control.decode_response(api_key, version, answer)
