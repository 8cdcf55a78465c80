"""One curve of the paper's figures: messages a second over the megabytes that went before. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MESSAGE_BYTES = 200
MB = 1_000_000


@dataclass(slots=True, kw_only=True)
class Series:
    """One subject."""

    subject: str
    how: str
    points: list[tuple[float, float]] = field(default_factory=list)
    """(megabytes up to here, messages a second in the piece that ends here)."""
    messages: int = 0
    seconds: float = 0.0
    note: str = ""
    """Why it has fewer messages than the others."""

    def add(self, messages: int, seconds: float) -> None:
        """Add a piece of the run."""
        self.messages += messages
        self.seconds += seconds
        self.points.append((self.messages * MESSAGE_BYTES / MB, messages / seconds if seconds else 0.0))

    @property
    def messages_per_s(self) -> float:
        """Of the whole run."""
        return self.messages / self.seconds if self.seconds else 0.0

    def words(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "subject": self.subject,
            "how": self.how,
            "messages": self.messages,
            "seconds": round(self.seconds, 3),
            "messages_per_s": round(self.messages_per_s, 1),
            "note": self.note,
            "points": [[round(mb, 3), round(rate, 1)] for mb, rate in self.points],
        }

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> "Series":
        """Return what `words` gave."""
        points = [(mb, rate) for mb, rate in words["points"]]
        names = ("subject", "how", "messages", "seconds", "note")
        return cls(points=points, **{name: words[name] for name in names})


def pieces(progress: Iterable[Sequence[float]], total: int, seconds: float) -> list[tuple[int, float]]:
    """Return (messages, seconds) of each piece of a run, from what was reached when; the last piece ends with the run."""
    found: list[tuple[int, float]] = []
    done, at = 0, 0.0
    for count, when in [*progress, (total, seconds)]:
        if count > done and when > at:
            found.append((int(count) - done, when - at))
            done, at = int(count), when
    return found


def sizes(total: int, count: int, multiple: int) -> list[int]:
    """Return the sizes of about `count` pieces of `total`, each but the last a multiple of `multiple`."""
    size = max(multiple, total // count // multiple * multiple)
    whole, rest = divmod(total, size)
    return [size] * whole + ([rest] if rest else [])
