"""A source that the agent has found, and how far it is read, planned and settled."""

from collections import deque
from dataclasses import dataclass, field

from ..plan.sealing import SourceProgress
from ..source import Position, Source
from ..state.rows import ChunkRow, SourceRow


@dataclass(slots=True, eq=False)
class OpenSource:
    """One source in memory."""

    source: Source
    row: SourceRow
    chunks: deque[ChunkRow] = field(default_factory=deque)
    """Read and not settled, oldest first."""
    may_have_more: bool = True
    """It was named by a scan and has not answered None since."""
    drained_ms: int | None = None
    """Everything that stood in it at this instant (wall clock) is settled."""
    dry_ms: int | None = None
    """When it last answered None; what was read before is perhaps not settled."""
    retry_at_ms: int = 0
    """Monotonic: it is not read before."""
    attempts: int = 0
    trouble: str | None = None
    """Why it is not read now."""
    settled_chunks: set[int] = field(default_factory=set)
    """Chunks that are settled while an earlier one is not."""

    @property
    def is_active(self) -> bool:
        """Return whether it has, or may have, records that are not settled."""
        return self.may_have_more or bool(self.chunks)

    def progress(self) -> SourceProgress:
        """Return how far it is settled."""
        return SourceProgress(drained_ms=self.drained_ms, oldest_unsettled_ms=self.source.lag(self.row.settled).oldest_ms)

    def settle(self, chunk: ChunkRow) -> bool:
        """Note that a chunk is settled. Return whether the settled position has moved."""
        self.settled_chunks.add(chunk.id)
        moved: Position | None = None
        while self.chunks and self.chunks[0].id in self.settled_chunks:
            done = self.chunks.popleft()
            self.settled_chunks.discard(done.id)
            moved = done.plan.end
        if moved is None:
            return False
        # With nothing under way all that was planned is settled: also what was settled out of turn before a crash.
        self.row.settled = moved if self.chunks else self.row.planned
        if not self.chunks and self.dry_ms is not None:
            self.drained_ms = self.dry_ms
        return True
