"""A topic deleted and made anew under its name, with a longer log: what the new log holds is not mixed with the old one.

Issue: two logs were mixed (live 90, really 60).
"""

import time

from tests.support.platform import Platform
from tests.support.processes import eventually

from .topics import TOLD, WITHIN_S, Topic, in_window


def test_the_new_log_alone_is_counted_and_the_mirror_is_named_that_does_not_copy_it(platform: Platform) -> None:
    topic = Topic(platform, "made_anew").make().log(10, batch=2).await_mirrored()
    topic.delete()
    topic.make().log(20, batch=2)
    since = time.monotonic()
    new = topic.live()
    counts = {start: len(in_window(new, start)) for start in topic.windows}
    assert counts == dict.fromkeys(topic.windows, 20)

    def told() -> bool:
        found = platform.windows(topic.name)
        assert {start: found[start]["tiers"]["live"] for start in found} == counts, found
        assert {found[start]["tiers"]["producer"] for start in found} == {20}, "what the old log's producers said is over"
        assert {found[start]["verdict"] for start in found} == {"UNKNOWN"}, found
        return all(found[start]["silent"] == ["mirror"] for start in found)

    # The offline topic holds the old log: the mirror leaves it as it is, and never mixes two.
    eventually(told, within_ms=WITHIN_S * 1000, every_ms=200, what="the new log told")
    TOLD["live topic: made anew under its name"] = time.monotonic() - since
    reasons = {window["reason"] for window in platform.windows(topic.name).values()}
    assert all(f"headrace topic delete {topic.name} --cluster offline" in reason for reason in reasons), reasons

    # What the reason says to do is enough: the mirror copies the new log, and every window is decided.
    topic.delete_copy()

    def balanced() -> bool:
        found = platform.windows(topic.name)
        assert {found[start]["verdict"] for start in found} == {"COMPLETE"}, found
        return all((one["tiers"]["mirror"], one["tiers"]["offline"]) == (20, 20) for one in found.values())

    eventually(balanced, within_ms=WITHIN_S * 1000, every_ms=200, what="the new copy counted")
