"""The bytes of a partition's logs on several brokers, compared."""

from collections.abc import Mapping
from pathlib import Path


def log_bytes(folder: Path, from_offset: int = 0) -> dict[int, bytes]:
    """Return the content of a partition's segment files by their base offset: of all that reach behind `from_offset`."""
    files = {int(path.name.partition(".")[0]): path for path in sorted(folder.glob("*.log"))}
    first = max((base for base in files if base <= from_offset), default=0)
    return {base: path.read_bytes() for base, path in files.items() if base >= first}


def differences(logs: Mapping[int, Mapping[int, bytes]], end_offset: int) -> list[str]:
    """Return where the logs of several brokers differ below `end_offset`: a byte of a log lies at the same offset in each."""
    whole = {broker_id: _from_start(segments, end_offset) for broker_id, segments in logs.items()}
    found = []
    (first_id, (first_start, first)), *others = whole.items()
    for broker_id, (start, data) in others:
        begin = max(start, first_start)
        one, other = first[begin - first_start :], data[begin - start :]
        if one != other:
            at = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
            found.append(f"brokers {first_id} and {broker_id} differ at offset {begin + at} of {end_offset}")
    return found


def _from_start(segments: Mapping[int, bytes], end_offset: int) -> tuple[int, bytes]:
    start = min(segments)
    data = bytearray(max(0, end_offset - start))
    for base, content in segments.items():
        part = content[: max(0, end_offset - base)]
        data[base - start : base - start + len(part)] = part
    return start, bytes(data)
