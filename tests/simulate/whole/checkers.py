"""What a run must not show. They share nothing with the brokers' code: they read the history, the final records, the files of the
logs, and ZooKeeper's transactions. The names are those of Jepsen's workload for Kafka.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from .ensemble import Transaction
from .history import History

Final = Mapping[int, Sequence[tuple[int, bytes]]]
"""By partition every record that can be read in the end: offset and value."""


class Wrong(Exception):
    """A promise was broken."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(f"{kind}: {what}")
        self.kind = kind


def check_records(history: History, final: Final, starts: Mapping[int, int] | None = None) -> None:
    """`starts`: by partition where the log begins in the end; what was before has been deleted. Raises Wrong."""
    starts = starts or {}
    at: dict[bytes, tuple[int, int]] = {}
    for partition, records in final.items():
        offsets = [offset for offset, _ in records]
        if offsets != sorted(set(offsets)):
            raise Wrong("inconsistent-offsets", f"partition {partition}: offsets do not rise")
        for offset, value in records:
            if value in at:
                raise Wrong("duplicate", f"{value!r} is at {at[value]} and {(partition, offset)}")
            at[value] = partition, offset
    values = {(partition, offset): value for value, (partition, offset) in at.items()}
    sent = {one.value for one in history.sent}
    for value in at:
        if value not in sent:
            raise Wrong("unexpected", f"{value!r} was never sent")
    _check_acknowledged(history, at, starts)
    _check_seen(history, final, values, starts)
    _check_order(history, at)
    for refused in history.refused:
        if refused.asked_offset >= starts.get(refused.partition, 0):
            raise Wrong("refused", f"{refused}: this was not deleted, and a reader asks for what it was shown")
    for value in history.returned:
        raise Wrong("returned", f"{value!r} was acknowledged in a topic that was deleted, and read from the next one of its name")


def check_starts(
    history: History, starts: Mapping[int, int], high_watermarks: Mapping[int, int], retention_bytes: int | None
) -> None:
    """Only what was to be deleted is, and what was deleted stays so. Raises Wrong."""
    for partition, start in starts.items():
        mine = [one for one in history.deletions if one.partition == partition]
        if start < (least := max((one.offset for one in mine if one.is_answered), default=0)):
            raise Wrong("deleted-records-return", f"partition {partition} begins at {start}, and was deleted before {least}")
        most = max((one.offset for one in mine), default=0)
        if retention_bytes is not None:
            most = max(most, high_watermarks[partition] - retention_bytes)
        if start > most:
            raise Wrong("lost-write", f"partition {partition} begins at {start}; nothing after {most} was to be deleted")


def _check_acknowledged(history: History, at: Mapping[bytes, tuple[int, int]], starts: Mapping[int, int]) -> None:
    for acknowledged in history.acknowledged:
        start = starts.get(acknowledged.partition, 0)
        if start > 0 and acknowledged.base_offset < start:
            continue  # deleted, or perhaps: a batch that the broker had already is acknowledged without its offset
        for value in acknowledged.values:
            if value not in at:
                raise Wrong("lost-write", f"{value!r} of {acknowledged}")
        if acknowledged.base_offset >= 0:
            found = at[acknowledged.values[0]]
            if found != (acknowledged.partition, acknowledged.base_offset):
                raise Wrong("inconsistent-offsets", f"{acknowledged} is at {found}")


def _check_seen(history: History, final: Final, values: dict[tuple[int, int], bytes], starts: Mapping[int, int]) -> None:
    """What a reader saw is there, or was deleted, without a gap: each answer continues the one before."""
    place = {partition: {offset: index for index, (offset, _) in enumerate(records)} for partition, records in final.items()}
    next_index: dict[tuple[str, int], int] = {}
    for seen in history.seen:
        for offset, value in seen.records:
            is_deleted = offset < starts.get(seen.partition, 0)
            key = seen.partition, offset
            found = values.setdefault(key, value) if is_deleted else values.get(key)
            if found != value:
                raise Wrong("inconsistent-offsets", f"{seen.reader} saw {value!r} at {seen.partition}, {offset}: {found!r} now")
            if is_deleted:
                continue
            index = place[seen.partition][offset]
            expected = next_index.get((seen.reader, seen.partition), 0)
            if index > expected:
                raise Wrong("poll-skip", f"{seen.reader} left out {index - expected} records before {offset} of {seen.partition}")
            if index < expected:
                raise Wrong("nonmonotonic-poll", f"{seen.reader} saw {offset} of {seen.partition} again")
            next_index[seen.reader, seen.partition] = index + 1


def _check_order(history: History, at: Mapping[bytes, tuple[int, int]]) -> None:
    last: dict[tuple[str, int], tuple[int, int]] = {}
    for sent in history.sent:
        if sent.value in at:
            offset = at[sent.value][1]
            number, before = last.get((sent.producer, sent.partition), (-1, -1))
            if sent.number > number and offset < before:
                raise Wrong("nonmonotonic-send", f"{sent} is before number {number}, at {before}")
            last[sent.producer, sent.partition] = sent.number, offset


def check_groups(history: History, transactions: Iterable[Transaction]) -> None:
    """Raises Wrong."""
    owners: dict[tuple[str, str, str, int, int], str] = {}
    for owned in history.owned:
        for partition in owned.partitions:
            key = (owned.group, owned.coordinator, owned.leader, owned.generation, partition)
            other = owners.setdefault(key, owned.member)
            if other != owned.member:
                raise Wrong("owned-twice", f"{key}: {other} and {owned.member}")
    present: dict[str, int] = {}
    for transaction in transactions:
        for act in transaction.acts:
            if act.what in ("create", "write") and act.path.startswith("/consumers/") and act.path.split("/")[3:4] == ["offsets"]:
                number = act.data.split(b"\n")[0].split(b" ")[0]
                if number:
                    if int(number) < present.get(act.path, -1):
                        raise Wrong("commit-went-back", f"{act.path}: {present[act.path]}, then {int(number)}")
                    present[act.path] = int(number)
    for found in history.found:
        for committed in history.committed:
            is_before = committed.partition == found.partition and committed.answered_us < found.asked_us
            if is_before and found.offset < committed.offset:
                raise Wrong("stale-commit", f"{found} after {committed}")


def bytes_of_log(folder: Path) -> tuple[int, bytes]:
    """Return where a partition's files begin, and their bytes one behind the other."""
    files = sorted(folder.glob("*.log"), key=lambda path: int(path.stem))
    begin = int(files[0].stem)
    content = bytearray()
    for path in files:
        data = path.read_bytes()
        at = int(path.stem) - begin
        content[at:] = data
    return begin, bytes(content)


def check_files(folders: Mapping[int, Path], high_watermark: int, start_offset: int = 0) -> None:
    """The replicas of one partition have the same bytes from the log's start up to the watermark. Raises Wrong."""
    logs = {broker_id: bytes_of_log(folder) for broker_id, folder in folders.items()}
    begin = max(start_offset, *(start for start, _ in logs.values()))
    parts = {broker_id: content[begin - start : high_watermark - start] for broker_id, (start, content) in logs.items()}
    if len(set(parts.values())) > 1:
        sizes = {broker_id: len(part) for broker_id, part in parts.items()}
        first, *others = parts.values()
        at = next((at for at in range(len(first)) if any(one[at : at + 1] != first[at : at + 1] for one in others)), len(first))
        raise Wrong(
            "different-bytes", f"{next(iter(folders.values())).name} from {begin + at} on, below {high_watermark}: {sizes}"
        )
