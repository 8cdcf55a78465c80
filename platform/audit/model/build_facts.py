"""Builds the facts for the verdict from the tier reports: of a topic, and of one of its windows."""

from collections.abc import Mapping

from .facts import TopicFacts, WindowFacts
from .packed_rows import PRODUCER_ID
from .tier_reports import TierReports
from .tiers import LIVE, TierRule


def topic_facts(
    reports: TierReports,
    topic: str,
    *,
    rules: tuple[TierRule, ...],
    heard_all_ms: int | None,
    listening_since_ms: int,
    presumed_dead_ms: int,
    is_made_anew: bool = False,
    unheard: Mapping[int, tuple[int, int]] | None = None,
    quarantine_gone_ms: int | None = None,
) -> TopicFacts:
    """Return what is true of all windows of the topic."""
    mine = reports.runs.of(topic)
    going = [run for run in mine if not run.has_said_all]
    logs = reports.book(topic).logs
    read_ms = min((log.caught_up_ms or 0 for log in logs.get(LIVE, {}).values()), default=0)
    return TopicFacts(
        topic=topic,
        rules=rules,
        logs=logs,
        runs=going,
        ended=[run for run in mine if run.has_said_all and (run.closed_ms or 0) >= read_ms],
        has_producers=bool(mine),
        superseded_at={run.key: latest for run in going if (latest := reports.runs.epochs[run.key.instance][-1]) > run.key.epoch},
        heard_all_ms=heard_all_ms,
        listening_since_ms=listening_since_ms,
        presumed_dead_ms=presumed_dead_ms,
        is_made_anew=is_made_anew,
        unheard=unheard or {},
        quarantine_gone_ms=quarantine_gone_ms,
    )


def window_facts(reports: TierReports, topic: str, window_start_ms: int) -> WindowFacts:
    """Return what is known of one window."""
    book = reports.book(topic).windows[window_start_ms]
    ids = {key.producer_id for one in book.producers.values() for key in one.sent}
    for entry in book.found.get(LIVE, {}).values():
        ids.update(entry.held.column(PRODUCER_ID))
    owners = {}
    for producer_id in ids:
        owner = reports.runs.owner_of(producer_id)
        if owner is not None:
            # Also one that announced other topics only: its batch here is a stray of theirs (KAFKA-19012), and of no report.
            owners[producer_id] = reports.runs[owner]
    for key, one in book.producers.items():
        for sent_key in one.sent:
            owners.setdefault(sent_key.producer_id, reports.runs[key])
    return WindowFacts(
        window_start_ms=window_start_ms,
        window_end_ms=window_start_ms + reports.window_ms,
        found=book.found,
        producers=book.producers,
        owners=owners,
        known=book.known,
        redelivered=book.redelivered,
    )
