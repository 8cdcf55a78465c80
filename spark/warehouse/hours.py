"""Names of hours for people and proofs: `2015-05-17T10`, in UTC. Inside the program, hours are counted since the epoch. Pure."""

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta


def hour_name(hour: int) -> str:
    """Return an hour as `2015-05-17T10`, in UTC."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=hour)).strftime("%Y-%m-%dT%H")


def hour_of_name(name: str) -> int:
    """Return the hour since the epoch of a name that `hour_name` wrote."""
    at = datetime.strptime(name, "%Y-%m-%dT%H").replace(tzinfo=UTC)
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(hours=1)


def hours_names(hours: Collection[int]) -> list[str]:
    """Return hours as names, consecutive ones joined as `first/last`: years of hours stay a short text."""
    found: list[str] = []
    ordered = sorted(hours)
    for at, hour in enumerate(ordered):
        if at == 0 or ordered[at - 1] != hour - 1:
            begin = hour
        if at + 1 == len(ordered) or ordered[at + 1] != hour + 1:
            found.append(hour_name(hour) if begin == hour else f"{hour_name(begin)}/{hour_name(hour)}")
    return found


def hours_of_names(names: Iterable[str]) -> set[int]:
    """Return the hours that `hours_names` wrote."""
    found: set[int] = set()
    for name in names:
        first, _, last = name.partition("/")
        found.update(range(hour_of_name(first), hour_of_name(last or first) + 1))
    return found
