"""`tests/support/counted_steps.py`: the same count, whatever the garbage collector and its listeners do."""

import gc

from tests.support.counted_steps import steps


def work() -> list[list[object]]:
    kept: list[list[object]] = []
    for _ in range(2_000):
        kept.append([kept])
    return kept


def listener(phase: str, info: dict[str, int]) -> None:
    for number in range(100):
        str(number)


def test_a_collection_of_garbage_is_not_counted() -> None:
    alone = steps(work)
    threshold = gc.get_threshold()
    gc.callbacks.append(listener)
    gc.set_threshold(10)
    try:
        assert steps(work) == alone
        assert gc.isenabled()
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(listener)
