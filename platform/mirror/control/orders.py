"""What an operator wishes of a mirror, as values and as JSON. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from ..errors import MirrorError

VERSION = 1
ALL = "*"
"""In place of a topic's name: the whole mirror. No topic can have this name."""
LEAST_BYTES_PER_S = 1_024
LONGEST_WORDS = 300
MOST_TOLD = 3
"""Topics that a notice names; `headrace mirror status` names them all."""


class NotOrders(MirrorError):
    """The file of orders cannot be read."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"the orders in {where} cannot be read ({why}): delete the file (nothing is paused then), or give the orders again"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Since when, who said so, and why."""

    since_ms: int
    by: str = ""
    reason: str = ""

    def words(self) -> str:
        """Return one printable line: it goes to the status file and to the audit."""
        since = datetime.fromtimestamp(self.since_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        words = f"paused since {since}" + (f" by {self.by}" if self.by else "") + (f": {self.reason}" if self.reason else "")
        return "".join(one if one.isprintable() else " " for one in words)[:LONGEST_WORDS]


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """All that holds at a time. Topics are named as in the source."""

    number: int = 0
    """Of the last change; the mirror repeats it in its status."""
    paused: Mapping[str, Pause] = field(default_factory=dict)
    """Topic, or `ALL`."""
    bytes_per_s: Mapping[str, int] = field(default_factory=dict)
    """Topic, or `ALL`, to the most bytes of batches that are copied in a second."""

    def pause_of(self, topic: str) -> Pause | None:
        """Return the pause that holds for a topic: the mirror's, else its own."""
        return self.paused.get(ALL) or self.paused.get(topic)

    def notice(self) -> str | None:
        """Return one line that says what is held back, for `headrace status`; None for nothing."""
        whole = self.paused.get(ALL)
        if whole is not None:
            return whole.words()
        said = [f"{topic} {pause.words()}" for topic, pause in sorted(self.paused.items())]
        said += [
            ("" if topic == ALL else f"{topic} ") + f"throttled to {rate} bytes/s"
            for topic, rate in sorted(self.bytes_per_s.items())
        ]
        left = len(said) - MOST_TOLD
        return "; ".join(said[:MOST_TOLD] + ([f"and {left} more"] if left > 0 else [])) or None

    def pausing(self, topics: Iterable[str], pause: Pause) -> "Orders":
        """Return the orders with these topics (none: the mirror) paused; who is already, stays so since then."""
        added = {topic: pause for topic in list(topics) or [ALL] if topic not in self.paused}
        return replace(self, number=self.number + 1, paused={**self.paused, **added})

    def resuming(self, topics: Iterable[str]) -> "Orders":
        """Return the orders without the pauses of these topics; none: without any pause."""
        gone = set(topics) or set(self.paused)
        left = {topic: pause for topic, pause in self.paused.items() if topic not in gone}
        return replace(self, number=self.number + 1, paused=left)

    def throttling(self, topics: Iterable[str], bytes_per_s: int | None) -> "Orders":
        """Return the orders with this bound for these topics (none: the mirror); None lifts theirs (none: every one)."""
        names = list(topics)
        if bytes_per_s is None:
            gone = set(names) or set(self.bytes_per_s)
            left = {topic: rate for topic, rate in self.bytes_per_s.items() if topic not in gone}
        else:
            left = {**self.bytes_per_s, **dict.fromkeys(names or [ALL], bytes_per_s)}
        return replace(self, number=self.number + 1, bytes_per_s=left)

    def to_json(self) -> bytes:
        words = {
            "v": VERSION,
            "number": self.number,
            "paused": {
                topic: {"since_ms": one.since_ms, "by": one.by, "reason": one.reason} for topic, one in self.paused.items()
            },
            "bytes_per_s": dict(self.bytes_per_s),
        }
        return json.dumps(words, indent=1).encode()

    @classmethod
    def from_json(cls, data: bytes, where: str) -> "Orders":
        """Return the orders that `to_json` wrote. Raises `NotOrders`."""
        try:
            words = json.loads(data)
            if words["v"] != VERSION:
                raise NotOrders(where, f"version {words['v']!r}, this program reads {VERSION}")
            rates = {str(topic): int(rate) for topic, rate in words["bytes_per_s"].items()}
            if any(rate < LEAST_BYTES_PER_S for rate in rates.values()):
                raise NotOrders(where, f"fewer than {LEAST_BYTES_PER_S} bytes a second")
            return cls(
                number=int(words["number"]),
                paused={
                    str(topic): Pause(since_ms=int(one["since_ms"]), by=str(one["by"]), reason=str(one["reason"]))
                    for topic, one in words["paused"].items()
                },
                bytes_per_s=rates,
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise NotOrders(where, f"{type(error).__name__}: {error}") from error
