"""Long work for a worker's thread, a piece at a time: between two pieces the jobs of others run, which may not wait that long."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ..errors import Overloaded
from .worker import Worker

Key = TypeVar("Key")
Result = TypeVar("Result")


def submit_in_chunks(
    worker: Worker,
    keys: Sequence[Key],
    job: Callable[[Sequence[Key]], Mapping[Key, Result | Exception]],
    done: Callable[[Mapping[Key, Result | Exception]], None],
    failed: Callable[[Exception], None],
    *,
    at_once: int,
    instead: Callable[[Key], Result | None] = lambda key: None,
) -> bool:
    """Have `job` run for all keys, `at_once` of them in one piece, each but those for which `instead` has a result just before
    the piece begins: much may have happened since the first one. Then `done` with all results, or `failed` with the first
    piece's error that is raised. Keys that the worker has no room for by the time they are due get `Overloaded`. Return False
    when it has none for the first: nothing will run.
    """
    results: dict[Key, Result | Exception] = {}

    def begin(at: int) -> bool:
        def finished(found: Mapping[Key, Result | Exception]) -> None:
            results.update(found)
            following = at + at_once
            if following < len(keys) and begin(following):
                return
            results.update((key, Overloaded()) for key in keys[following:])
            done(results)

        still: list[Key] = []
        for key in keys[at : at + at_once]:
            if (result := instead(key)) is None:
                still.append(key)
            else:
                results[key] = result
        return worker.submit(lambda: job(still), finished, failed)

    return begin(0)
