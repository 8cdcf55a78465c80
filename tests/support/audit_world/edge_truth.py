"""What is true at the edges of a history, counted record by record as in `truth.py`."""

from typing import TYPE_CHECKING

from headrace.audit.model.tiers import QUARANTINE, WAREHOUSE

if TYPE_CHECKING:
    from .truth import Truth
    from .world import World


def at_the_edges(world: "World", window: int, truth: "Truth") -> None:
    """Add what is true of the window at the edges of the history."""
    _quarantined(world, window, truth)
    _of_other_topics(world, window, truth)
    word = world.edges.words.get(window)
    if word is not None and word == truth.named[WAREHOUSE]:
        truth.accepted.add(WAREHOUSE)


def _quarantined(world: "World", window: int, truth: "Truth") -> None:
    """Each record that the load says it has put aside is in the quarantine topic, or it is not."""
    topic = world.edges.quarantine
    if topic is None or topic.position is None:
        return
    for partition, log in world.warehouse.logs.items():
        for offset in {one.offset for one in log.aside if one.window == window and log.has_told(one.offset)}:
            match topic.fate_of(partition, offset):
                case "altered":
                    truth.altered[QUARANTINE] += 1
                case "expired":
                    truth.lost["expired"] += 1
                case "missing":
                    truth.missing[QUARANTINE] += 1
                case "unknown":
                    truth.missing[QUARANTINE] += 1
                    truth.is_waiting = True


def _of_other_topics(world: "World", window: int, truth: "Truth") -> None:
    """Batches of another topic's run that went astray are there once too often."""
    for run in world.edges.runs:
        astray = [
            one for log in world.live.values() for one in log.held if one.window == window and one.producer_id == run.producer_id
        ]
        if run.is_known and astray:
            truth.doubled["live"] += len(astray)
            truth.may_wait |= not run.is_closed or run.last_heard < run.sequence - 1
