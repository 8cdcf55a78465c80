"""Runs that failed once, shrunk: each is a fault, of a broker or of the checkers, that the search found, and is mended."""

import pytest

from .actions import Action, Run, failure_of

FOUND = {
    "a recovery brought back records that another replica knew as deleted": Run(
        acks_on_disk=False,
        actions=(
            Action("produce", 29025, 15636),
            Action("stop", 58580, 19597),
            Action("delete records", 6631, 22544),
            Action("silence", 31173, 13431),
            Action("produce", 2791, 13961),
            Action("start", 21008, 62803),
            Action("produce", 5995, 30808),
            Action("deliver all", 40237, 36799),
            Action("delete records", 42227, 43688),
            Action("silence", 54287, 38741),
            Action("deliver", 63418, 21305),
            Action("power", 31137, 26577),
            Action("deliver", 7477, 6548),
            Action("power", 59507, 21622),
        ),
    ),
    "the checkers missed a deletion that only the lost replica had known": Run(
        acks_on_disk=False,
        actions=(
            Action("reassign", 24138, 29049),
            Action("produce", 39409, 59413),
            Action("read node", 36138, 42348),
            Action("produce", 1042, 10642),
            Action("flush", 32346, 34767),
            Action("damage", 42672, 13448),
            Action("delete records", 42579, 23702),
        ),
    ),
    "a retry was acknowledged from memory after flush.ack=always": Run(
        acks_on_disk=False,
        actions=(
            Action("produce", 49860, 24006),
            Action("die soon", 15562, 64517),
            Action("tick", 29630, 44094),
            Action("deliver all", 50397, 39341),
            Action("start", 55209, 52703),
            Action("tick", 28712, 13356),
            Action("suspect", 3819, 60280),
            Action("deliver", 22815, 14463),
            Action("deliver", 42482, 15428),
            Action("silence", 17070, 33272),
            Action("deliver", 40959, 5599),
            Action("configure", 56178, 16589),
            Action("retry", 56092, 62803),
        ),
    ),
}


@pytest.mark.parametrize("run", FOUND.values(), ids=FOUND.keys())
def test_what_was_found_once_is_mended(run: Run) -> None:
    assert failure_of(run) is None
