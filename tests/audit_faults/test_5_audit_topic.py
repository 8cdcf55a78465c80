"""The audit topic with a record missing: what it said is not known, so its windows are UNKNOWN and name who said it."""

import time

from headrace.local import control
from headrace.local.drills import log_surgery
from headrace.local.drills.batch_damage import stored_batches
from headrace.runtime.layout import AUDIT_TOPIC
from tests.support.platform import Platform
from tests.support.processes import eventually

from .topics import TOLD, WITHIN_S, Topic


def test_a_report_lost_before_the_audit_read_it_makes_its_windows_unknown(platform: Platform) -> None:
    topic, other = Topic(platform, "report_lost").make(), Topic(platform, "report_kept").make()
    control.stop(platform.layout, "audit")
    other.log(10)
    logger = topic.logger()
    instance = logger.instance
    folder = platform.layout.home / "broker-live"

    def reports() -> list[int]:
        """Return the positions of the batches that speak of the run and of records in the topic."""
        found = stored_batches(folder, AUDIT_TOPIC)
        contents = [one.path.read_bytes()[one.position : one.position + one.size_bytes] for one in found]
        return [at for at, content in enumerate(contents) if instance.encode() in content and b'"acknowledged"' in content]

    topic.log_window(logger, topic.windows[0], 10)
    eventually(reports, what="a report of what was acknowledged")
    topic.log_window(logger, topic.windows[1], 10)
    logger.close()
    control.stop(platform.layout, "broker-live")
    try:
        log_surgery.cut_out(stored_batches(folder, AUDIT_TOPIC)[reports()[0]])
    finally:
        control.start(platform.layout, "broker-live")
    control.start(platform.layout, "audit")
    since = time.monotonic()

    def told() -> bool:
        found = platform.windows(topic.name)
        assert topic.windows[0] in found, found
        assert found[topic.windows[0]]["verdict"] == "UNKNOWN", found
        assert f"producer:{instance}" in found[topic.windows[0]]["silent"], found
        return True

    eventually(told, within_ms=WITHIN_S * 1000, every_ms=200, what="the lost report told")
    TOLD["audit topic: a record missing"] = time.monotonic() - since
    platform.await_complete(other.name)
