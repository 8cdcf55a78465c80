"""A drill: the fault that was planted in the running platform, the claims about the audit, and whether each one holds."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ...errors import HeadraceError

REPORT_MS = 60_000
"""How long the audit may take to tell a fault once every word that it needs is in."""

Progress = Callable[[str], None]


class DrillError(HeadraceError):
    """The drill could not be carried out; the message names the step. It says nothing about the audit."""


@dataclass(slots=True)
class DrillResult:
    """What was done, what was claimed, and whether each claim holds."""

    drill: str
    topic: str
    facts: dict[str, Any] = field(default_factory=dict)
    steps: list[tuple[str, float]] = field(default_factory=list)
    """What was done and how long it took, in seconds."""
    claims: list[tuple[str, bool, str]] = field(default_factory=list)

    @property
    def held(self) -> bool:
        return bool(self.claims) and all(held for _, held, _ in self.claims)

    def claim(self, what: str, held: bool, seen: str = "") -> None:
        """Record whether the claim `what` holds, and what was seen if it does not."""
        self.claims.append((what, held, "" if held else seen))

    @contextmanager
    def step(self, what: str, progress: Progress) -> Iterator[None]:
        """Time one step of the drill, and say when it begins."""
        progress(what)
        began = time.monotonic()
        try:
            yield
        finally:
            self.steps.append((what, round(time.monotonic() - began, 1)))

    def as_json(self) -> dict[str, Any]:
        claims = [{"claim": what, "held": held, "seen": seen} for what, held, seen in self.claims]
        steps = [{"step": what, "seconds": seconds} for what, seconds in self.steps]
        return {"drill": self.drill, "topic": self.topic, "held": self.held, **self.facts, "steps": steps, "claims": claims}

    def in_words(self) -> str:
        """Return the claims, then the outcome with its time. The steps were shown by `progress`."""
        lines = [f"{'held' if held else 'FAILED':>8}  {what}" + (f": {seen}" if seen else "") for what, held, seen in self.claims]
        took_s = sum(seconds for _, seconds in self.steps)
        return "\n".join([*lines, f"drill {self.drill} on {self.topic}: {'held' if self.held else 'FAILED'}, {took_s:.1f} s"])
