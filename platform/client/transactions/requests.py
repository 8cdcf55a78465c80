"""The requests of a transactional producer to its coordinator. Each is a plain function: values in, values out, one request.

Version 3 of AddPartitionsToTxn (later ones are the brokers' own), EndTxn 1 to 3 and InitProducerId 3 to 4: what Kafka 2.8
to 4.x serve. Version 5 of EndTxn raises the epoch with each transaction; this room does not speak it. Source: KIP-98, KIP-360.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ...wire.errors import WireError
from ...wire.messages import control
from ..connection.connection import Connection
from ..errors import BadAnswer, broker_error
from ..fetch.fetched import TopicPartition

INIT_PRODUCER_ID = 22
ADD_PARTITIONS_TO_TXN = 24
END_TXN = 26
_VERSIONS = {INIT_PRODUCER_ID: (3, 4), ADD_PARTITIONS_TO_TXN: (3, 3), END_TXN: (1, 3)}


class ProducerSession(NamedTuple):
    """The name under which batches are written. A later session of the same transactional id fences an earlier one."""

    producer_id: int
    producer_epoch: int


def init_producer(
    coordinator: Connection, transactional_id: str, timeout_ms: int, own: ProducerSession | None
) -> ProducerSession:
    """Return a new session; an open transaction of an earlier one is aborted. `own`: the session to follow, None to take over.

    With `own` the call is refused (PRODUCER_FENCED) if another process has taken over meanwhile. Raises the broker's refusal;
    CONCURRENT_TRANSACTIONS, retriable, while an earlier transaction is being ended.
    """
    message = {
        "transactional_id": transactional_id,
        "transaction_timeout_ms": timeout_ms,
        "producer_id": -1 if own is None else own.producer_id,
        "producer_epoch": -1 if own is None else own.producer_epoch,
    }
    answer = _ask(coordinator, INIT_PRODUCER_ID, message)
    _check(coordinator, "InitProducerId", transactional_id, int(answer.error_code))
    return ProducerSession(int(answer.producer_id), int(answer.producer_epoch))


def add_partitions(
    coordinator: Connection, transactional_id: str, session: ProducerSession, partitions: Iterable[TopicPartition]
) -> None:
    """Return once the partitions are part of the open transaction, which the first call opens. Raises the first refusal."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    message = {
        "v3_and_below_transactional_id": transactional_id,
        "v3_and_below_producer_id": session.producer_id,
        "v3_and_below_producer_epoch": session.producer_epoch,
        "v3_and_below_topics": [{"name": topic, "partitions": numbers} for topic, numbers in by_topic.items()],
    }
    answer = _ask(coordinator, ADD_PARTITIONS_TO_TXN, message)
    codes = [
        int(partition.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    ]
    # A partition that is refused keeps the others out (OPERATION_NOT_ATTEMPTED): the reason is the other code.
    for code in sorted(codes, key=lambda one: one == _NOT_ATTEMPTED):
        _check(coordinator, "AddPartitionsToTxn", transactional_id, code)


_NOT_ATTEMPTED = 55


def end_transaction(coordinator: Connection, transactional_id: str, session: ProducerSession, *, commit: bool) -> None:
    """Return once the transaction's end is decided. Raises the broker's refusal. If the answer is lost, it may be decided."""
    message = {
        "transactional_id": transactional_id,
        "producer_id": session.producer_id,
        "producer_epoch": session.producer_epoch,
        "committed": commit,
    }
    answer = _ask(coordinator, END_TXN, message)
    _check(coordinator, "EndTxn", transactional_id, int(answer.error_code))


def _check(coordinator: Connection, api: str, transactional_id: str, code: int) -> None:
    if code:
        raise broker_error(f"{api} of {transactional_id!r} to {coordinator.address}", code)


def _ask(connection: Connection, api_key: int, message: Mapping[str, Any]) -> Any:
    version = connection.version(api_key, *_VERSIONS[api_key])
    body = connection.request(api_key, version, control.encode_request(api_key, version, message))
    try:
        return control.decode_response(api_key, version, body)
    except WireError as error:
        raise BadAnswer(connection.address, f"API {api_key}", str(error)) from error
