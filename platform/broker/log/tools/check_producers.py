"""Check that each idempotent producer's sequences have no gap and no repetition. Pure: headers in, reasons out."""

from collections import OrderedDict

from ....wire.batch.record_batch import BatchHeader
from ..producer_state import REMEMBERED_BATCHES

CAPACITY = 100_000
"""Producers followed at once; the longest idle is forgotten first."""
_SEQUENCES = 0x7FFFFFFF

_Batch = tuple[int, int, int]
"""Base sequence, record count, base offset."""


class ProducerSequences:
    """Follows every producer. After lost batches, a producer's next batch may have any sequence."""

    def __init__(self) -> None:
        self.seen: OrderedDict[int, tuple[int, tuple[_Batch, ...]]] = OrderedDict()
        """Epoch and last batches by producer id."""
        self._forgiven: set[int] = set()

    def take(self, header: BatchHeader) -> str | None:
        """Add the next whole batch; return what is wrong with its sequence, None when it is right."""
        producer_id = header.producer_id
        if producer_id < 0 or header.base_sequence < 0:
            return None
        batch = (header.base_sequence, header.record_count, header.base_offset)
        known = self.seen.get(producer_id)
        reason = None
        if known is None or known[0] != header.producer_epoch:
            if known is not None and producer_id not in self._forgiven:
                reason = _new_epoch(header, known[0])
            batches: tuple[_Batch, ...] = (batch,)
        else:
            batches = (*known[1][-(REMEMBERED_BATCHES - 1) :], batch)
            last_sequence, last_count, last_offset = known[1][-1]
            expected = (last_sequence + last_count) & _SEQUENCES
            if header.base_sequence != expected and producer_id not in self._forgiven:
                reason = (
                    f"producer {producer_id} epoch {header.producer_epoch} wrote sequence {header.base_sequence} at offset "
                    f"{header.base_offset}, and {expected} follows its batch at offset {last_offset}"
                )
        self._forgiven.discard(producer_id)
        self.seen[producer_id] = (header.producer_epoch, batches)
        self.seen.move_to_end(producer_id)
        if len(self.seen) > CAPACITY:
            self.seen.popitem(last=False)
        return reason

    def lose(self) -> None:
        """Record that batches are missing here. They may be any producer's."""
        self._forgiven = set(self.seen)


def _new_epoch(header: BatchHeader, epoch: int) -> str | None:
    if header.producer_epoch < epoch:
        return (
            f"producer {header.producer_id} wrote with epoch {header.producer_epoch} after epoch {epoch} "
            f"at offset {header.base_offset}"
        )
    if header.base_sequence != 0:
        return (
            f"producer {header.producer_id} begins epoch {header.producer_epoch} with sequence {header.base_sequence} "
            f"at offset {header.base_offset}"
        )
    return None
