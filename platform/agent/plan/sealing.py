"""Which windows a run may say that it has moved past, and the enrolment. Pure: `now_ms` and what was read come in.

A run moves past a window when everything that stood in its sources so long after the window's end is settled. The enrolment is a
run without records. It stands for the sources that the agent has not found yet: it moves past a window when a scan that began so
long after the window's end found only sources whose runs the audit knows. Both fall silent with the agent: an agent that is not
started, or whose host is lost, makes windows UNKNOWN.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ...audit.model.windows import window_start_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProgress:
    """How far one source of a run is settled."""

    drained_ms: int | None
    """Everything that stood in it at this instant is settled; None: not known to be so at any instant."""
    oldest_unsettled_ms: int | None
    """The time of its first record that is not settled, where the source knows it."""


def settled_up_to_ms(sources: Iterable[SourceProgress], *, scanned_ms: int | None) -> int | None:
    """Return the instant before which everything handed over to these sources is settled, None where that is not known.

    `scanned_ms`: when the last scan for sources of this run began; those that it did not name had nothing to read then.
    `sources`: the others. Records that are not settled were handed over after the first of them, and that one not before it
    happened.
    """
    if scanned_ms is None:
        return None
    found = scanned_ms
    for one in sources:
        at = max((ms for ms in (one.drained_ms, one.oldest_unsettled_ms) if ms is not None), default=None)
        if at is None:
            return None
        found = min(found, at)
    return found


def moved_past_ms(settled_ms: int | None, lateness_ms: int | None, undecided_windows: Iterable[int] = ()) -> int | None:
    """Return the border of windows up to which a run has said all; None: it can say nothing yet.

    `undecided_windows`: the starts of windows with batches under way.
    """
    if settled_ms is None or lateness_ms is None:
        return None
    border = window_start_ms(max(0, settled_ms - lateness_ms))
    return min([border, *undecided_windows])


def later(one_ms: int | None, other_ms: int | None) -> int | None:
    """Return the later of two borders; a border never goes back."""
    return max((ms for ms in (one_ms, other_ms) if ms is not None), default=None)


def enrolment_border_ms(*, scan_began_ms: int, lateness_ms: int) -> int:
    """Return the time up to which every source that may still appear is announced to the audit.

    The scan found every source, and all of them are announced to the audit.
    """
    return window_start_ms(max(0, scan_began_ms - lateness_ms))
