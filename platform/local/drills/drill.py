"""A drill: the fault that was planted in the running platform, the claims about the audit, and whether each one holds."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...errors import HeadraceError
from ...runtime.layout import Layout
from .. import commands

HOUR_MS = 3_600_000
DECIDED_MS = 180_000
"""How long a drill waits for stable verdicts."""

Windows = dict[int, dict[str, Any]]
Progress = Callable[[str], None]


class DrillError(HeadraceError):
    """The drill could not be carried out; the message names the step. It says nothing about the audit."""


@dataclass(slots=True)
class DrillResult:
    """What was done, what was claimed, and whether each claim holds."""

    drill: str
    topic: str
    facts: dict[str, Any] = field(default_factory=dict)
    claims: list[tuple[str, bool, str]] = field(default_factory=list)

    @property
    def held(self) -> bool:
        return bool(self.claims) and all(held for _, held, _ in self.claims)

    def claim(self, what: str, held: bool, seen: str = "") -> None:
        """Record whether the claim `what` holds, and what was seen if it does not."""
        self.claims.append((what, held, "" if held else seen))

    def as_json(self) -> dict[str, Any]:
        claims = [{"claim": what, "held": held, "seen": seen} for what, held, seen in self.claims]
        return {"drill": self.drill, "topic": self.topic, "held": self.held, **self.facts, "claims": claims}

    def in_words(self) -> str:
        lines = [f"{'held' if held else 'FAILED':<7} {what}" + (f": {seen}" if seen else "") for what, held, seen in self.claims]
        return "\n".join([*lines, f"drill {self.drill} on {self.topic}: {'held' if self.held else 'FAILED'}"])


def hour_start_ms(at_ms: int) -> int:
    """Return the start of the hour that contains the instant."""
    return at_ms - at_ms % HOUR_MS


def published_hours(layout: Layout, topic: str) -> set[int]:
    """Return the hours (start, ms) of which the published view shows rows. Raises CommandFailed."""
    sql = f'SELECT DISTINCT epoch_ms(_timestamp) // {HOUR_MS} AS hour FROM "{topic}"'
    return {row["hour"] * HOUR_MS for row in json.loads(commands.output_of(layout, "query", sql, "--json"))}
