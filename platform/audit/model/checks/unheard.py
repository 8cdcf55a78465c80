"""Records of producers whose reports were lost before the audit read them: it is unknown what else these producers sent. Pure.

Where the audit topic is found without what was to be read next (store, checkpoints and older reports are gone), a producer that
began *and* ended in the lost part is known by its batches alone. Our own builder marks its batches, and a program that logs with
it announces itself before it writes. So a marked batch from before the point of loss, under an id that nobody announced, is an
**unread report**, and its window is UNKNOWN. Batches without the mark (kcat, say) are unaudited as before. So is an id that had
written before the audit had last heard everything: its producer had not announced itself then, and never will.
"""

from collections.abc import Iterable

from ..facts import TopicFacts, WindowFacts
from ..packed_rows import PRODUCER_ID
from ..tier_log import OTHERS
from ..tiers import LIVE


def strange_ids(topic: TopicFacts) -> set[int]:
    """Return the ids of the marked batches that were first written where reports may be lost."""
    found: set[int] = set()
    known_before: set[int] = set()
    for partition, log in topic.logs.get(LIVE, {}).items():
        from_offset, to_offset = topic.unheard.get(partition, (0, 0))
        found.update(name for name, first in log.strangers.items() if from_offset <= first < to_offset)
        known_before.update(name for name, first in log.strangers.items() if first < from_offset)
    return found - (known_before - {OTHERS})


def unheard_records(topic: TopicFacts, window: WindowFacts) -> int:
    """Return how many records of the window on live are of producers whose reports were lost."""
    if not topic.unheard:
        return 0
    strange = strange_ids(topic)
    return sum(
        row[1]
        for partition, entry in window.found.get(LIVE, {}).items()
        for row in entry.held
        if row[PRODUCER_ID] not in window.owners and _is_strange(row[PRODUCER_ID], strange)
    )


def _is_strange(producer_id: int, strange: set[int]) -> bool:
    return producer_id in strange or (OTHERS in strange and producer_id >= 0)


def words_of(count: int) -> str:
    """Return why such a window is not known."""
    return f"the reports of {count} records on live were lost before the audit read them: what else was sent is unknown"


def note_strangers(strangers: dict[int, int], marked: Iterable[tuple[int, int]], most: int) -> None:
    """Note (producer id, offset) of marked batches of ids that nobody has announced; beyond `most` ids, together as `OTHERS`."""
    for producer_id, offset in marked:
        name = producer_id if producer_id in strangers or len(strangers) < most else OTHERS
        strangers[name] = min(offset, strangers.get(name, offset))
