"""Where a read begins or ends, as its options say it: under the names and in the words of Spark's Kafka source. Pure."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..errors import BadOption

EARLIEST, LATEST = -2, -1
"""In JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One of: the earliest or the latest offsets, an offset for each partition, a time for all or for each."""

    option: str
    """That names it."""
    offsets: Mapping[int, int] | None = None
    """Partition → offset, `EARLIEST` or `LATEST`."""
    timestamps_ms: Mapping[int, int] | None = None
    timestamp_ms: int | None = None
    everywhere: int = EARLIEST
    """`EARLIEST` or `LATEST`, if nothing else is given."""
    none_is_error: bool = True
    """Whether a time that no record reaches is an error; else it is the log's end."""

    @property
    def is_by_time(self) -> bool:
        return self.timestamp_ms is not None or self.timestamps_ms is not None

    def times(self, partitions: Collection[int]) -> dict[int, int]:
        """Return each partition's time in ms. Raises BadOption for a partition that is not named, or not there."""
        if self.timestamps_ms is not None:
            return {one: self.timestamps_ms[one] for one in _all(self.option, self.timestamps_ms, partitions)}
        assert self.timestamp_ms is not None
        return dict.fromkeys(partitions, self.timestamp_ms)

    def resolved(self, start: Mapping[int, int], end: Mapping[int, int], at_time: Mapping[int, int]) -> dict[int, int]:
        """Return each partition's offset, of a log from `start` to `end`; `at_time`: those of `times`, where the place is by
        time; the end where no record is that young. Raises BadOption.
        """
        if self.is_by_time:
            late = [one for one in sorted(end) if at_time[one] >= end[one]]
            if late and self.none_is_error:
                raise BadOption(
                    self.option,
                    f"no record of partition(s) {late} is that young; startingOffsetsByTimestampStrategy=latest begins there at "
                    f"the end",
                )
            return {one: min(at_time[one], end[one]) for one in end}
        if self.offsets is None:
            return dict(start if self.everywhere == EARLIEST else end)
        words = {EARLIEST: start, LATEST: end}
        return {
            one: words[offset][one] if (offset := self.offsets[one]) < 0 else offset
            for one in _all(self.option, self.offsets, end)
        }


def _all(option: str, named: Mapping[int, int], partitions: Collection[int]) -> list[int]:
    if set(named) != set(partitions):
        raise BadOption(
            option,
            f"it names partitions {sorted(named)} and the topic has {sorted(partitions)}: name each (-2: earliest, -1: latest)",
        )
    return sorted(partitions)


def place_of(words: Mapping[str, str], side: str, *, topic: str, default: int) -> Place:
    """Return the place that the options of one side (`starting`, `ending`) name; `words` has their names in lower case.

    As in Spark, a time for all goes before times by partition, and these before offsets. Raises BadOption.
    """
    by_word = words.get(f"{side}offsetsbytimestampstrategy", "error").lower()
    if by_word not in ("error", "latest"):
        raise BadOption(f"{side}OffsetsByTimestampStrategy", f"{by_word!r} is neither error nor latest")
    is_error = side == "starting" and by_word == "error"
    name = f"{side}Timestamp"
    if (text := words.get(name.lower())) is not None:
        if not text.strip().isdigit():
            raise BadOption(name, f"{text!r} is not a time in milliseconds since 1970")
        return Place(option=name, timestamp_ms=int(text), none_is_error=is_error)
    name = f"{side}OffsetsByTimestamp"
    if (text := words.get(name.lower())) is not None:
        return Place(option=name, timestamps_ms=_by_partition(name, text, topic, least=0), none_is_error=is_error)
    name = f"{side}Offsets"
    text = words.get(name.lower(), "latest" if default == LATEST else "earliest").strip()
    if text.lower() == "latest":
        return Place(option=name, everywhere=LATEST)
    if text.lower() == "earliest":
        if side == "ending":
            raise BadOption(name, "a read that ends at the earliest offsets has no records; name `latest` or offsets")
        return Place(option=name, everywhere=EARLIEST)
    return Place(option=name, offsets=_by_partition(name, text, topic, least=EARLIEST if side == "starting" else LATEST))


def _by_partition(option: str, text: str, topic: str, *, least: int) -> dict[int, int]:
    form = f'{{"{topic}": {{"0": 23, "1": -1}}}}'
    try:
        words = json.loads(text)
        found = {int(partition): _whole(number) for partition, number in words[topic].items()}
        others = [name for name in words if name != topic and not name.startswith(":")]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadOption(option, f"{text[:200]!r} is not of the form {form} ({type(error).__name__}: {error})") from error
    if others:
        raise BadOption(option, f"it names other topics, {', '.join(others)}; a read has one: {topic}")
    for partition, number in found.items():
        if number < least or partition < 0:
            raise BadOption(option, f"partition {partition} at {number} is no place; the form is {form}")
    return found


def _whole(number: object) -> int:
    if type(number) is not int:
        raise ValueError(f"{number!r} is not a whole number")
    return number
