"""The audit's store deleted: the service rebuilds it from its topics and the logs, and says of every topic what it said before.

Runs last: by then the other files have left topics with every kind of fault. Of two nobody need be able to say the same again
(a checkpoint may): the live log of one no longer holds what was read, the name of the other belonged to two logs. They are never
COMPLETE.
"""

import shutil
import time
from typing import Any

from headrace.local import control
from tests.support.platform import Platform
from tests.support.processes import eventually

from .topics import TOLD, WITHIN_S, Topic

TOLD_AGAIN = (
    "verdict",
    "tiers",
    "missing",
    "doubled",
    "altered",
    "first_bad_tier",
    "differences",
    "quarantined",
    "losses",
    "silent",
)
NOT_AGAIN = {"deleted_early": 0, "made_anew": 0}
"""Topic → its window, by number, in which it shows."""


def told(platform: Platform, topics: list[str]) -> dict[str, dict[int, dict[str, Any]]]:
    """Return what the audit says of each window of the topics, without times."""
    return {
        topic: {start: {name: window[name] for name in TOLD_AGAIN} for start, window in platform.windows(topic).items()}
        for topic in topics
    }


def test_a_deleted_store_is_rebuilt_with_the_same_word_on_every_window(platform: Platform) -> None:
    Topic(platform, "store_whole").make().log(10, batch=5).await_mirrored()
    platform.await_complete("store_whole")
    topics = sorted(platform.report_topics() - set(NOT_AGAIN))
    before = told(platform, topics)
    of_the_others = {topic: sorted(platform.windows(topic).items()) for topic in NOT_AGAIN}
    control.stop(platform.layout, "audit")
    shutil.rmtree(platform.layout.home / "audit")
    control.start(platform.layout, "audit")
    since = time.monotonic()

    def same() -> bool:
        after = told(platform, topics)
        different = {topic: (before[topic], after[topic]) for topic in topics if after[topic] != before[topic]}
        assert not different, different
        return True

    eventually(same, within_ms=WITHIN_S * 1000, every_ms=500, what="every window as before")
    TOLD["store: deleted and rebuilt"] = time.monotonic() - since

    def same_or_unknown() -> bool:
        """With a checkpoint the same word, without one that nobody can say it any more; nothing else."""
        for topic, start in NOT_AGAIN.items():
            windows = sorted(platform.windows(topic).items())
            if windows:
                allowed = {"UNKNOWN", "INCOMPLETE", of_the_others[topic][start][1]["verdict"]} - {"COMPLETE"}
                assert windows[start][1]["verdict"] in allowed, (allowed, windows)
        return True

    eventually(same_or_unknown, within_ms=WITHIN_S * 1000, every_ms=500, what="the two others decided")
