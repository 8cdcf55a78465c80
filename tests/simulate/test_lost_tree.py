"""Random runs in which ZooKeeper loses everything, and an operator brings the partition back."""

from collections import Counter

from .actions import drawn
from .lost_tree import ALSO, AWAY, NOTHING, TWO_DISKS, play_loss

SEEDS = range(300)


def test_no_acknowledged_record_is_lost_with_the_tree() -> None:
    """Found by it: the log of an earlier epoch was chosen before one that began the last epoch and had nothing of it; a log that
    was not flushed got a disk life; a replica that was away kept an epoch that no other one knew.
    """
    outcomes: Counter[tuple[str, bool]] = Counter()
    for seed in SEEDS:
        found = play_loss(drawn(seed), seed)
        if found is not None:
            outcomes[found.also, found.plan.doubt is None] += 1
    for also in ALSO:
        assert outcomes[also, also not in (AWAY, TWO_DISKS)] > 10, f"{also}: {outcomes}"
    assert outcomes[NOTHING, False] < 10, "almost every plan of three whole replicas is without doubt"
    assert outcomes[AWAY, True] == 0, "nothing is claimed of a replica that did not answer"
    assert outcomes[TWO_DISKS, True] == 0, "two replicas may have been the last set"
