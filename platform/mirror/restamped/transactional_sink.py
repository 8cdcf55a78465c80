"""Apache Kafka as destination: portions and their ledger entries in one transaction under the mirror's own transactional id.

So the ledger never says anything of batches that are not there, nor leaves out one that is; and a mirror that was replaced can
commit nothing more. Towards the producers' own ids this is not possible: Kafka forgets them, and two clusters number alike.
"""

from collections.abc import Iterable, Iterator, Sequence

from ...client.connection.cluster import Cluster
from ...client.fetch.fetched import TopicPartition
from ...client.mirror_ledger import LedgerReader
from ...client.transactions.errors import PartitionFailed
from ...client.transactions.writer import Batch, TransactionalWriter
from ...runtime.clock import Clock
from ...wire.batch.record_batch import BatchBuilder, read_header
from ...wire.mirror_ledger import LedgerEntry, ledger_topic
from ..errors import CopyDiffers
from .sink import Outcome, Portion

LEDGER_BATCH_BYTES = 256 * 1024


class TransactionalSink:
    """One destination cluster, written by one mirror."""

    def __init__(self, cluster: Cluster, mirror: str, clock: Clock, *, transaction_timeout_ms: int = 60_000) -> None:
        self._ledger = TopicPartition(ledger_topic(mirror), 0)
        self._clock = clock
        self._reader = LedgerReader(cluster, mirror)
        self._writer = TransactionalWriter(cluster, transactional_id(mirror), transaction_timeout_ms=transaction_timeout_ms)

    @property
    def is_open(self) -> bool:
        return self._writer.is_open

    def open(self) -> list[LedgerEntry]:
        """Fence every earlier session, then return what the ledger holds since the last call. Raises ClientError."""
        self._writer.open()
        try:
            return list(self._reader.read())
        except BaseException:
            self._writer.is_open = False
            raise

    def catch_up(
        self,
        name: TopicPartition,
        there: TopicPartition,
        last: LedgerEntry | None,
        *,
        source_start: int,
        destination: tuple[int, int],
    ) -> LedgerEntry | None:
        """Return `last`: the ledger says all that is committed. Raises CopyDiffers if the destination holds less."""
        end = destination[1]
        if last is not None and end < last.destination_end:
            why = f"it ends at {end} and the ledger says {last.destination_end}: it has lost its tail"
            raise CopyDiffers(name.topic, name.partition, why)
        return last

    def write(self, portions: Sequence[Portion]) -> list[Outcome]:
        """Commit the portions together. Raises ClientError; then none of them, or all, are committed: the ledger says."""
        work = {portion.there: [(one.header, one.batch) for one in portion.batches] for portion in portions if portion.batches}
        self._writer.begin([*work, self._ledger])
        try:
            written = self._writer.write(work)
        except PartitionFailed as error:
            names = {portion.there: portion.name for portion in portions}
            raise PartitionFailed(names[error.name], error.base_offset, error.error) from error
        outcomes = []
        for portion in portions:
            stands = written.get(portion.there, ())
            copied = [one.copied(at.base_offset, at.crc) for one, at in zip(portion.batches, stands, strict=True)]
            outcomes.append(Outcome(portion, portion.entry(copied)))
        entries = [one.entry for one in outcomes if one.entry is not None]
        self._writer.write({self._ledger: list(ledger_batches(entries, self._clock.now_ms()))})
        self._writer.commit()
        return outcomes


def transactional_id(mirror: str) -> str:
    return f"headrace-mirror-{mirror}"


def ledger_batches(entries: Iterable[LedgerEntry], now_ms: int) -> Iterator[Batch]:
    """Yield the entries as record batches of a bounded size."""
    builder = BatchBuilder()
    for entry in entries:
        for part in entry.parts():
            builder.append(now_ms, part.key(), part.to_json())
            if builder.size_bytes >= LEDGER_BATCH_BYTES:
                yield _built(builder)
                builder = BatchBuilder()
    if builder.record_count:
        yield _built(builder)


def _built(builder: BatchBuilder) -> Batch:
    batch = memoryview(builder.build())
    return read_header(batch), batch
