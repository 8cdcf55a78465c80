"""How a logger keeps its journal. Plain values; each has its default and its reason beside it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .errors import JournalRefused
from .files.layout import HEADER_BYTES

WhenFull = Literal["drop_newest", "drop_oldest", "block"]
_LEAST_SEGMENT_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """Where, how large, and what happens when it is full."""

    root: Path
    """A folder on a local disk that all applications of the host share with their agent."""
    segment_bytes: int = 8 << 20
    """A journal takes at least one segment. The largest event is a little smaller than this."""
    quota_bytes: int = 256 << 20
    """The most that one journal takes."""
    root_quota_bytes: int = 4 << 30
    """The most that all journals of the root take. Processes that roll at the same moment may exceed it by a segment each."""
    when_full: WhenFull = "drop_newest"
    """`drop_oldest` gives up whole segments that no agent has under way. `block` waits for room as long as `log` may."""
    is_durable: bool = False
    """Each event is on the disk before it is taken: a power cut loses none. Costs a flush of the disk, shared by the threads that
    wait for it."""

    def check(self) -> None:
        """Raises `JournalRefused` with every fault."""
        faults = []
        if self.segment_bytes < _LEAST_SEGMENT_BYTES or self.segment_bytes % 4096:
            faults.append(f"segment_bytes is {self.segment_bytes}: a multiple of 4096 is needed")
        if self.quota_bytes < 2 * self.segment_bytes:
            faults.append(f"quota_bytes is {self.quota_bytes}: two segments ({2 * self.segment_bytes}) are the least")
        if self.root_quota_bytes < self.quota_bytes:
            faults.append(f"root_quota_bytes is {self.root_quota_bytes}, less than quota_bytes ({self.quota_bytes})")
        if self.when_full not in ("drop_newest", "drop_oldest", "block"):
            faults.append(f"when_full is {self.when_full!r}: drop_newest, drop_oldest or block")
        if faults:
            raise JournalRefused(f"no journal can be kept in {self.root} like this: {'; '.join(faults)}")

    @property
    def largest_record_bytes(self) -> int:
        """What a record, with head and key, may take."""
        return self.segment_bytes - HEADER_BYTES
