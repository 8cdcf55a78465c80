"""What can go wrong in a transaction, by what helps: nothing, a new session, or leaving something out."""

from typing import ClassVar

from ...wire.errors import ErrorCode
from ..errors import BrokerError, ClientError
from ..fetch.fetched import TopicPartition


class ProducerFenced(ClientError):
    """Another process opened a session with the same transactional id: this one must end."""

    def __init__(self, transactional_id: str, answer: str) -> None:
        super().__init__(
            f"another process took over the transactional id {transactional_id!r} (or a transaction took longer than its timeout "
            f"and the coordinator ended it): {answer}; stop one of the two, or give them different names"
        )
        self.transactional_id = transactional_id


class TransactionLost(ClientError):
    """The session was lost by an earlier error: open it again."""

    retriable: ClassVar[bool] = True

    def __init__(self, transactional_id: str) -> None:
        super().__init__(f"the session of {transactional_id!r} is not open: open it again")


class PartitionFailed(ClientError):
    """One partition's append failed, and with it the transaction. `base_offset` is the batch's own, in what was handed over."""

    def __init__(self, name: TopicPartition, base_offset: int, error: ClientError) -> None:
        super().__init__(str(error))
        self.name = name
        self.base_offset = base_offset
        self.error = error

    @property
    def is_batch_refused(self) -> bool:
        """Return whether the destination will never take this batch."""
        return isinstance(self.error, BrokerError) and ErrorCode.of(self.error.code) in _OF_THE_BATCH

    @property
    def is_suspect(self) -> bool:
        """Return whether the batch may be to blame: if it fails again and again, it is."""
        return isinstance(self.error, BrokerError) and ErrorCode.of(self.error.code) in _PERHAPS_OF_THE_BATCH

    @property
    def is_passing(self) -> bool:
        return self.error.retriable or self.is_suspect or not isinstance(self.error, BrokerError) or self._is_of_session

    @property
    def _is_of_session(self) -> bool:
        return isinstance(self.error, BrokerError) and ErrorCode.of(self.error.code) in _OF_THE_SESSION


_OF_THE_BATCH = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_RECORD,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
_PERHAPS_OF_THE_BATCH = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_SERVER_ERROR})
_OF_THE_SESSION = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""What a new session mends, or tells permanently (ProducerFenced)."""
