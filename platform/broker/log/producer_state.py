"""The last batches of idempotent producers, and whether a batch is fresh, a duplicate, out of order or fenced.

Pure: headers in, results out. Rebuilt from batch headers in log order, or a snapshot and the headers after it. Sequences are
counted by record counts. Source: KIP-98, Kafka's `ProducerAppendInfo`.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from ...wire.batch.record_batch import BatchHeader

REMEMBERED_BATCHES = 5
"""As many as Kafka's idempotent producer may have in flight to a partition."""
_SEQUENCES = 0x7FFFFFFF
"""Sequences count to 2**31 - 1 and begin at 0 again."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """Append it."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """It is in the log already, at `base_offset`: acknowledge it with that and append nothing."""

    base_offset: int


@dataclass(frozen=True, slots=True)
class OutOfOrder:
    """A batch before it is missing, or it is older than what is remembered. OUT_OF_ORDER_SEQUENCE_NUMBER."""

    expected_sequence: int
    found_sequence: int


@dataclass(frozen=True, slots=True)
class Fenced:
    """A later epoch of this producer has written. INVALID_PRODUCER_EPOCH."""

    current_epoch: int
    found_epoch: int


SequenceCheck = Fresh | Duplicate | OutOfOrder | Fenced
FRESH = Fresh()

_Batch = tuple[int, int, int]
"""Base sequence, record count, base offset."""


Snapshot = tuple[tuple[int, tuple[int, tuple[_Batch, ...]]], ...]
"""(producer id, (epoch, its last batches)), the longest idle producer first."""


class ProducerStates:
    """The last batches of each of the `capacity` producers that appended most recently."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._producers: OrderedDict[int, tuple[int, tuple[_Batch, ...]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._producers)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._producers

    def snapshot(self) -> Snapshot:
        """Return all that is remembered."""
        return tuple(self._producers.items())

    def restore(self, snapshot: Snapshot) -> None:
        """Remember what a snapshot says, and nothing else."""
        self._producers = OrderedDict(snapshot[-self._capacity :])

    def classify(self, header: BatchHeader) -> SequenceCheck:
        """Return what to do with a producer's batch. Hot: once per produced batch.

        An unknown producer (new, forgotten, or its batches expired) may begin with any sequence, as in Kafka. A known producer
        begins a new epoch with 0.
        """
        if header.producer_id < 0:
            return FRESH
        known = self._producers.get(header.producer_id)
        if known is None:
            return FRESH
        epoch, batches = known
        sequence = header.base_sequence
        if header.producer_epoch != epoch:
            if header.producer_epoch < epoch:
                return Fenced(epoch, header.producer_epoch)
            return FRESH if sequence == 0 else OutOfOrder(0, sequence)
        last_sequence, last_count, _ = batches[-1]
        expected = (last_sequence + last_count) & _SEQUENCES
        if sequence == expected:
            return FRESH
        for base_sequence, record_count, base_offset in batches:
            if base_sequence == sequence and record_count == header.record_count:
                return Duplicate(base_offset)
        return OutOfOrder(expected, sequence)

    def due(self, producer_id: int, producer_epoch: int) -> int | None:
        """Return the next fresh sequence of a producer that is known with this epoch, None for any other."""
        known = self._producers.get(producer_id)
        if known is None or known[0] != producer_epoch:
            return None
        last_sequence, last_count, _ = known[1][-1]
        return (last_sequence + last_count) & _SEQUENCES

    def record_run(self, producer_id: int, run: Sequence[_Batch]) -> None:
        """Record batches that are in the log now, in this order. The caller has asked `due` for the producer before each."""
        epoch, batches = self._producers[producer_id]
        self._producers[producer_id] = (epoch, (*batches, *run[-REMEMBERED_BATCHES:])[-REMEMBERED_BATCHES:])
        self._producers.move_to_end(producer_id)

    def record(self, header: BatchHeader, base_offset: int) -> None:
        """Record a batch that is in the log now, at `base_offset`. Unchecked: a mirror records what its source accepted."""
        producer_id = header.producer_id
        if producer_id < 0 or header.base_sequence < 0:
            return
        producers = self._producers
        batch = (header.base_sequence, header.record_count, base_offset)
        known = producers.get(producer_id)
        if known is None:
            if len(producers) >= self._capacity:
                producers.popitem(last=False)
            producers[producer_id] = (header.producer_epoch, (batch,))
            return
        epoch, batches = known
        batches = (*batches[-(REMEMBERED_BATCHES - 1) :], batch) if epoch == header.producer_epoch else (batch,)
        producers[producer_id] = (header.producer_epoch, batches)
        producers.move_to_end(producer_id)
