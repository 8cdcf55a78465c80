"""Which verdicts of the audit the ledgers allow for a window, and what the running audit service says of it.

The ledgers know what was taken; the audit knows what it was told. A window in which an announced application that sends for
itself was killed is UNKNOWN if it held the window then: where an event that it took is lost, it did. Every other window gets
decided: COMPLETE, or ACCOUNTED where an event was dropped by name. A held window that nobody logged to is there, and undecided.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.audit.model.messages import QUARANTINED
from tests.chaos_sdk.claims import Told
from tests.chaos_sdk.ledgers import ProcessLedger
from tests.support.processes import eventually

ABSENT = "not there"
"""The audit does not know the window."""
WINDOW_MS = 600_000
DECIDED_WITHIN_MS = 60_000
MOST_SHOWN = 5

Verdicts = Mapping[int, str]
"""Window start (ms) → what the audit says."""


def allowed(
    processes: Sequence[ProcessLedger],
    rows: Collection[str],
    quarantined: Collection[str],
    told: Mapping[str, Told],
    *,
    has_journal: bool,
) -> set[str]:
    """Return the verdicts that a window may have in the end whose events are all of these processes. Pure.

    `rows`, `quarantined`: the ids that are in the topic, and in its quarantine.
    """
    # Nobody can know of an application that was killed before it was announced, nor wait for it (docs/AUDIT.md: handed over).
    there = {*rows, *quarantined}
    known = [one for one in processes if has_journal or not one.was_killed or one.instance in told]
    named = sum(count for one in known for name, count in _losses(one, told) if name != QUARANTINED)
    gone = [event_id for one in known for event_id in {*one.taken, *one.dropped, *one.refused} if event_id not in there]
    # The quarantine is another topic: of what a killed application put there and did not report, no window tells.
    is_empty = not any(event_id in rows for one in processes for event_id in one.attempted)
    is_empty &= not any(True for one in known for _ in _losses(one, told))
    found = {ABSENT} if is_empty else set()
    decided = {"ACCOUNTED"} if gone or named else {"COMPLETE"}
    if not has_journal and any(one.was_killed for one in known):
        # It may have held the window, or let go of it before; it did not let go of what is lost.
        is_lost = any(event_id not in there for one in known if one.was_killed for event_id in one.taken)
        return {"UNKNOWN"} | found | (set() if is_lost else decided)
    return found | decided


def _losses(process: ProcessLedger, told: Mapping[str, Told]) -> Iterable[tuple[str, int]]:
    return told.get(process.instance or "", Told()).losses.items()


@dataclass
class Verifier:
    """Asks a running audit service, once an episode has ended, and again after every later one: a verdict stays."""

    ask: Callable[[str], Verdicts]
    """Of a topic."""
    within_ms: int = DECIDED_WITHIN_MS
    _earlier: dict[str, Mapping[int, set[str]]] = field(default_factory=dict)
    """Topic → its windows' allowed verdicts."""

    def faults(self, topic: str, windows: Mapping[int, set[str]]) -> list[str]:
        """Return what the audit says and the ledgers do not allow: of this topic, and of the earlier ones."""
        self._earlier[topic] = windows
        return [fault for one in list(self._earlier) for fault in self._faults_of(one)]

    def _faults_of(self, topic: str) -> list[str]:
        windows = self._earlier[topic]
        try:
            eventually(lambda: not wrong(windows, self.ask(topic)), within_ms=self.within_ms, every_ms=100)
        except AssertionError:
            del self._earlier[topic]  # told once
            return [f"{topic}: {fault}" for fault in wrong(windows, self.ask(topic))]
        return []


def wrong(windows: Mapping[int, set[str]], said: Verdicts) -> list[str]:
    """Return the windows whose verdict is none of the allowed ones, and those that nobody wrote to. Pure."""
    found = [
        f"window {start} is {said.get(start, ABSENT)}, the ledgers allow {', '.join(sorted(may_be))}"
        for start, may_be in sorted(windows.items())
        if said.get(start, ABSENT) not in may_be
    ]
    others = [start for start in said.keys() - windows.keys() if said[start] not in ("OPEN", "UNKNOWN")]
    return (found + [f"window {start} is {said[start]}, nobody logged to it" for start in others])[:MOST_SHOWN]
