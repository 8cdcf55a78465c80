"""What a cluster's brokers know of damage in their logs. Only brokers of this platform answer that."""

from typing import NamedTuple

from ..wire.errors import WireError
from ..wire.messages import describe_damage
from ..wire.messages.describe_damage import Row
from .cluster_kind import is_headrace
from .connection.cluster import Cluster
from .errors import BadAnswer, ClientError, broker_error


class BrokerDamage(NamedTuple):
    broker_id: int
    row: Row


def damage(cluster: Cluster, *, repaired_since_ms: int = -1) -> tuple[list[BrokerDamage], list[ClientError]]:
    """Return what the brokers say, in their order, and why some of them say nothing. Nothing of brokers of another kind."""
    found: list[BrokerDamage] = []
    errors: list[ClientError] = []
    for connection in cluster.brokers():
        try:
            if not is_headrace(connection):
                continue
            body = connection.request(
                describe_damage.KEY, describe_damage.VERSION, describe_damage.encode_request(repaired_since_ms)
            )
            try:
                response = describe_damage.decode_response(body)
            except WireError as error:
                raise BadAnswer(connection.address, "DescribeDamage", str(error)) from error
            if response.error_code:
                raise broker_error(f"DescribeDamage on {connection.address}", response.error_code)
        except ClientError as error:
            errors.append(error)
            continue
        found += [BrokerDamage(response.broker_id, row) for row in response.rows]
    return found, errors
