"""Builds the facts for the verdict from the tier reports: of a topic, and of one of its windows."""

from .facts import Progress, TopicFacts, WindowFacts
from .messages import SEND_FAILED
from .runs import RunKey
from .tier_reports import TierReports
from .tiers import TierRule


def topic_facts(
    books: TierReports,
    topic: str,
    *,
    rules: tuple[TierRule, ...],
    heard_all_ms: int | None,
    listening_since_ms: int,
    presumed_dead_ms: int,
) -> TopicFacts:
    """Return what is true of all windows of the topic."""
    mine = [run for run in books.runs.values() if topic in run.topics]
    ended = [run.closed_ms for run in mine if run.closed_ms is not None and run.has_said_all]
    going = sorted((run for run in mine if not run.has_said_all), key=lambda run: run.key)
    latest: dict[str, int] = {}
    for run in books.runs.values():
        latest[run.key.instance] = max(latest.get(run.key.instance, 0), run.key.epoch)
    return TopicFacts(
        topic=topic,
        rules=rules,
        progress={
            tier: {
                partition: Progress(
                    coverage=log.ranges.coverage(),
                    begins_at=log.begins_at,
                    moved_ms=log.moved_ms,
                    caught_up_ms=log.caught_up_ms,
                )
                for partition, log in logs.items()
            }
            for tier, logs in books.topics[topic].logs.items()
        },
        runs=going,
        closed_ms=max(ended, default=None),
        superseded_at={run.key: latest[run.key.instance] for run in going if latest[run.key.instance] > run.key.epoch},
        heard_all_ms=heard_all_ms,
        listening_since_ms=listening_since_ms,
        presumed_dead_ms=presumed_dead_ms,
    )


def window_facts(books: TierReports, topic: str, window_start_ms: int) -> WindowFacts:
    """Return what is known of one window."""
    book = books.topics[topic].windows[window_start_ms]
    arrived: dict[RunKey, dict[int, int]] = {}
    unaudited = 0
    for producer_id, by_partition in book.live.items():
        owner = books.owner_of(producer_id)
        if owner is None or topic not in books.runs[owner].topics:
            unaudited += sum(by_partition.values())
            continue
        mine = arrived.setdefault(owner, {})
        for partition, count in by_partition.items():
            mine[partition] = mine.get(partition, 0) + count
    losses: dict[str, int] = {}
    failed: dict[str, int] = {}
    for key, cell in book.producers.items():
        for name, count in cell.losses.items():
            losses[name] = losses.get(name, 0) + count
            if name == SEND_FAILED:
                failed[key.instance] = failed.get(key.instance, 0) + count
    return WindowFacts(
        window_start_ms=window_start_ms,
        window_end_ms=window_start_ms + books.window_ms,
        cells={tier: cells for tier, cells in book.cells.items() if cells},
        acknowledged={key: cell.counts for key, cell in book.producers.items()},
        arrived=arrived,
        unaudited=unaudited,
        losses=losses,
        send_failed=failed,
        reported_ms=max((cell.heard_ms for cell in book.producers.values()), default=None),
        redelivered=book.redelivered,
    )
