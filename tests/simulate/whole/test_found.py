"""Runs that failed once, shrunk: each is a fault that the search found, and is mended. See decision 87."""

import pytest

from .plans import Fault, Plan
from .play import failure_of

FOUND = {
    "a link that was made again was taken for an earlier connection": Plan(
        seed=128,
        settings=(),
        config=(("flush.ack", "always"), ("segment.bytes", "16384")),
        faults=(
            Fault("die soon", 38, 0, 372),
            Fault("pause", 137, 2, 943),
            Fault("clock", 1_689, 4, 641),
            Fault("alone", 3_156, 1, 995),
            Fault("clock", 7_029, 3, 49),
        ),
    ),
    "a follower began empty inside the leader's first batch, and never caught up": Plan(
        seed=9,
        settings=(),
        config=(("segment.bytes", "16384"),),
        faults=(Fault("pause", 1_471, 2, 520), Fault("delete records", 3_803, 2, 837)),
    ),
    "damage that the leader had deleted was never repaired": Plan(
        seed=2,
        settings=("log.retention.check.interval.ms=700",),
        config=(("retention.bytes", "16384"), ("segment.bytes", "4096")),
        faults=(Fault("power", 2_327, 0, 473), Fault("power", 3_227, 0, 379)),
    ),
    "damage in which a deletion had ended was never repaired": Plan(
        seed=39,
        settings=("log.scrub.interval.ms=1500", "topic.creation.wait.ms=1000"),
        config=(("segment.bytes", "4096"),),
        faults=(
            Fault("from zookeeper", 463, 5, 31),
            Fault("delete records", 777, 0, 653),
            Fault("damage", 848, 0, 554),
            Fault("from clients", 1_763, 4, 891),
            Fault("kill all", 7_004, 1, 607),
        ),
    ),
    "a log was cut right behind its damage, and then passed for undamaged": Plan(
        seed=78,
        settings=(),
        config=(("segment.bytes", "4096"),),
        faults=(Fault("last power", 5_305, 0, 405),),
        has_strays=True,
    ),
}


@pytest.mark.parametrize("plan", FOUND.values(), ids=FOUND.keys())
def test_what_was_found_once_is_mended(plan: Plan) -> None:
    assert failure_of(plan) is None
