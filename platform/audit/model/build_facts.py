"""Builds the facts for the verdict from the tier reports: of a topic, and of one of its windows."""

from collections.abc import Mapping

from .books import WindowBook
from .facts import TopicFacts, WindowFacts
from .packed_rows import PRODUCER_ID
from .tier_reports import TierReports
from .tiers import LIVE, TierRule

NEAR = 6
"""How many windows around a mentioned one are looked at: the others of its hour are among them."""


def topic_facts(
    reports: TierReports,
    topic: str,
    *,
    rules: tuple[TierRule, ...],
    heard_all_ms: int | None,
    listening_since_ms: int,
    is_made_anew: bool = False,
    unheard: Mapping[int, tuple[int, int]] | None = None,
    quarantine_gone_ms: int | None = None,
    quarantines_seen_ms: int | None = None,
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
        is_made_anew=is_made_anew,
        unheard=unheard or {},
        quarantine_gone_ms=quarantine_gone_ms,
        quarantines_seen_ms=quarantines_seen_ms,
    )


def held_windows(reports: TierReports, topic: str) -> set[int]:
    """Return the starts of the windows that runs hold: they exist, whether or not anybody has mentioned them.

    Of a run that holds more than `MOST_HELD` windows: the first and the last of each of its ranges, and those within an hour of a
    window that is mentioned. The others exist once somebody mentions them.
    """
    width, found = reports.window_ms, set[int]()
    for run in reports.runs.of(topic):
        held = run.held_windows(width)
        if held is None:
            near = {at + n * width for at in reports.book(topic).windows for n in range(-NEAR, NEAR + 1)}
            ends = {edge - edge % width for one in (*(run.holds or ()), *run.unsettled) for edge in (one.from_ms, one.to_ms - 1)}
            held = {at for at in near | ends if run.hold_of(at, at + width) is not None}
        found |= held
    return found


def window_facts(reports: TierReports, topic: str, window_start_ms: int) -> WindowFacts:
    """Return what is known of one window, which nobody may have mentioned."""
    book = reports.book(topic).windows.get(window_start_ms) or WindowBook()
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
        published=book.published,
    )
