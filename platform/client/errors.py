"""Errors between a client and a cluster. Each carries its facts as attributes; `retriable` says whether to try again.

Holds no I/O and no policy on how often to retry: that is the caller's.
"""

from collections.abc import Sequence
from typing import ClassVar

from ..errors import HeadraceError
from ..wire.errors import ErrorCode


class ClientError(HeadraceError):
    """The root of this room's errors."""


class InvalidAddress(ClientError):
    """A bootstrap list is not `host:port[,host:port…]`."""


class BrokerUnreachable(ClientError):
    """No connection could be made, or it broke before the response came. It is unknown whether the request was carried out."""

    retriable: ClassVar[bool] = True

    def __init__(self, address: str, api: str, reason: str, *, was_sent: bool) -> None:
        self.address = address
        self.api = api
        self.was_sent = was_sent
        super().__init__(f"{api} to broker {address} failed: {reason}; check that a broker runs there, then try again")


class RequestTimedOut(BrokerUnreachable):
    """The broker did not respond in time. It is unknown whether the request was carried out."""


class ClientConfigRefused(ClientError):
    """A client configuration (properties file) cannot be used. `faults` names every fault; no fault holds a secret."""

    def __init__(self, where: str, faults: Sequence[str]) -> None:
        self.where = where
        self.faults = tuple(faults)
        super().__init__(f"client configuration {where}: " + "; ".join(faults))


class AuthenticationFailed(ClientError):
    """The broker refused the credentials, or the token endpoint did. The same credentials will be refused again."""

    def __init__(self, address: str, mechanism: str, reason: str) -> None:
        self.address = address
        self.mechanism = mechanism
        super().__init__(
            f"login to {address} with {mechanism} failed: {reason}; check the credentials in the client configuration "
            f"(wrong or expired?), and that the broker knows them"
        )


class TlsFailed(ClientError):
    """No TLS connection that can be trusted: the broker's certificate, its name, or ours is not accepted, or it speaks no TLS."""

    def __init__(self, address: str, reason: str, advice: str) -> None:
        self.address = address
        super().__init__(f"TLS to {address} failed: {reason}; {advice}")


LOGIN_REFUSALS = (AuthenticationFailed, TlsFailed)
"""They end only when an operator repairs a file or the broker; clients that were served before wait for that."""


class TokenUnavailable(ClientError):
    """The token endpoint does not answer now."""

    retriable: ClassVar[bool] = True

    def __init__(self, url: str, reason: str) -> None:
        self.url = url
        super().__init__(f"no token from {url}: {reason}; it is asked again later")


class BadAnswer(ClientError):
    """The bytes from the peer are not a response to the request. The connection is closed; a new one may work."""

    retriable: ClassVar[bool] = True

    def __init__(self, address: str, api: str, reason: str) -> None:
        self.address = address
        self.api = api
        super().__init__(
            f"{api} to {address}: the answer cannot be read: {reason}; "
            f"check that a Kafka-wire broker listens there (not TLS, not HTTP)"
        )


class UnsupportedApi(ClientError):
    """The broker does not serve the request in any version that this client speaks."""

    def __init__(self, address: str, api: str, spoken: tuple[int, int], served: tuple[int, int] | None) -> None:
        self.address = address
        self.api = api
        offer = "does not serve it" if served is None else f"serves versions {served[0]} to {served[1]}"
        super().__init__(
            f"{api} to broker {address}: this client supports versions {spoken[0]} to {spoken[1]}, the broker {offer}"
        )


class BrokerError(ClientError):
    """The broker refused a request permanently: it will refuse the same request again."""

    def __init__(self, what: str, code: int, message: str | None = None) -> None:
        self.code = code
        said = f" ({message})" if message else ""
        super().__init__(f"{what}: the broker answered {code_name(code)}{said}{_advice(code, what)}")


class RetriableBrokerError(BrokerError):
    """The broker could not serve the request now: leadership moves, a topic is being created, replicas are behind."""

    retriable: ClassVar[bool] = True


class UnknownTopic(RetriableBrokerError):
    """The cluster does not know the topic (yet)."""

    def __init__(self, topic: str, where: str) -> None:
        self.topic = topic
        super().__init__(f"topic {topic!r} on {where}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class LeaderUnknown(ClientError):
    """The partition has no leader now, or does not exist."""

    retriable: ClassVar[bool] = True

    def __init__(self, topic: str, partition: int, reason: str) -> None:
        self.topic = topic
        self.partition = partition
        super().__init__(f"no leader for {topic}-{partition}: {reason}; it is asked for again when the metadata is refreshed")


class OffsetOutOfRange(ClientError):
    """The log does not hold the offset (any more, or yet)."""

    def __init__(self, topic: str, partition: int, offset: int, log_start_offset: int) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.log_start_offset = log_start_offset
        super().__init__(
            f"fetch of {topic}-{partition} at offset {offset}: the log begins at {log_start_offset} and does not hold it; "
            f"begin again at {log_start_offset} (older records have expired) or at the log's end"
        )


class CorruptRead(ClientError):
    """A batch of the log failed its check, and the caller gave no `on_corrupt`."""

    def __init__(self, topic: str, partition: int, from_offset: int, to_offset: int, reason: str) -> None:
        self.topic = topic
        self.partition = partition
        self.from_offset = from_offset
        self.to_offset = to_offset
        super().__init__(
            f"{topic}-{partition} offsets {from_offset} to {to_offset} cannot be read: {reason}; "
            f"set on_corrupt to continue after them"
        )


class ReadStalled(ClientError):
    """The high watermark is above the offset, yet the broker sends no records."""

    retriable: ClassVar[bool] = True

    def __init__(self, topic: str, partition: int, offset: int, high_watermark: int, waited_ms: int) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        super().__init__(
            f"read of {topic}-{partition} makes no progress at {offset}: the high watermark is {high_watermark}, "
            f"and the broker sent nothing for {waited_ms} ms; look at its log for a range that it cannot serve"
        )


class BufferFull(ClientError):
    """The producer's buffer stayed full for the caller's whole `max_block_ms`. The record was not accepted."""

    retriable: ClassVar[bool] = True

    def __init__(self, topic: str, buffer_bytes: int, max_block_ms: int) -> None:
        self.topic = topic
        self.buffer_bytes = buffer_bytes
        self.max_block_ms = max_block_ms
        super().__init__(
            f"record for {topic!r} not taken: the buffer ({buffer_bytes} bytes) stayed full for {max_block_ms} ms; "
            f"the cluster takes less than is written, or is away: slow down, or allow more buffer_bytes or max_block_ms"
        )


class Unpromised(ClientError):
    """A strict producer takes no record of a window that is not announced to the audit."""

    def __init__(self, topic: str, window_start_ms: int) -> None:
        super().__init__(
            f"a record for {topic} was not taken: the audit topic has not acknowledged that this process may hold records of the "
            f"window at {window_start_ms}; is the live cluster away?"
        )
        self.topic = topic
        self.window_start_ms = window_start_ms


class InvalidRecord(ClientError):
    """A record that no batch can hold: its time, or the name of a header."""


class ProducerReentered(ClientError):
    """A record came from a signal handler or a finalizer that interrupted the producer itself, on the same thread."""

    retriable: ClassVar[bool] = True


class RecordTooLarge(ClientError):
    """One record that can never fit."""

    def __init__(self, topic: str, size_bytes: int, limit_bytes: int, limit: str) -> None:
        self.topic = topic
        self.size_bytes = size_bytes
        super().__init__(f"record of {size_bytes} bytes for {topic!r} is above {limit}={limit_bytes}: split it or raise {limit}")


class DeliveryTimedOut(ClientError):
    """A batch was not acknowledged within `delivery_timeout_ms`; it may or may not be in the log."""

    retriable: ClassVar[bool] = True

    def __init__(self, topic: str, partition: int, record_count: int, waited_ms: int, last: str) -> None:
        self.topic = topic
        self.partition = partition
        self.record_count = record_count
        super().__init__(
            f"{record_count} records for {topic}-{partition} were not acknowledged within {waited_ms} ms; last answer: {last}"
        )


class DeliveryFailed(ClientError):
    """Batches were given up since the last flush; `first` is the first one's error."""

    def __init__(self, record_count: int, first: ClientError) -> None:
        self.record_count = record_count
        self.first = first
        super().__init__(f"{record_count} records were given up; the first because: {first}")


class FlushTimedOut(ClientError):
    """Not every record was acknowledged within the flush's timeout; sending continues."""

    retriable: ClassVar[bool] = True

    def __init__(self, record_count: int, timeout_ms: int, last: HeadraceError | None = None) -> None:
        self.record_count = record_count
        self.last = last
        """The error of the latest attempt; None if none has failed yet."""
        why = f"; the latest try: {last}" if last is not None else ""
        super().__init__(
            f"flush: {record_count} records still wait for an acknowledgement after {timeout_ms} ms and are still being sent{why}"
        )


class ProducerClosed(ClientError):
    """The producer was closed: it accepts no more records, and it gave up what it still held."""


class ProducerForked(ClientError):
    """The producer was created in another process: threads and sockets do not survive a fork."""

    def __init__(self, made_in: int, used_in: int) -> None:
        super().__init__(f"this producer was made in process {made_in} and is used in {used_in}: make a new one after the fork")


def broker_error(what: str, code: int, message: str | None = None) -> BrokerError:
    """Return the error for a broker's code: retriable if the same request may succeed later."""
    return (RetriableBrokerError if ErrorCode.of(code).retriable else BrokerError)(what, code, message)


def code_name(code: int) -> str:
    """Return the code's name and number, or the bare number if this program does not know the code."""
    try:
        return f"{ErrorCode(code).name} ({code})"
    except ValueError:
        return f"error {code}"


_ADVICE = {
    3: "; create the topic, or let auto.create.topics.enable do it",
    10: "; send smaller records or raise the topic's max.message.bytes",
    44: "; the topic takes no ordinary producer (a mirrored one is written by its mirror alone)",
}

_FOR_PRODUCERS = {10, 44}
"""Codes whose advice is true for Produce only: CreateTopics uses the same numbers for a policy's refusal."""


def _advice(code: int, what: str) -> str:
    is_for_producers = code in _FOR_PRODUCERS
    return "" if is_for_producers and not what.startswith("Produce ") else _ADVICE.get(code, "")


class WrongReassignment(ClientError):
    """A file of moves cannot be used."""

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        super().__init__(
            f"cannot read the moves in {path}: {why}. It must be Kafka's JSON: "
            '{"version": 1, "partitions": [{"topic": "clicks", "partition": 0, "replicas": [2, 3]}]}'
        )
