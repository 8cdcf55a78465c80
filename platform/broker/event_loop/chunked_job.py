"""Runs long work on a worker thread in chunks. Other jobs, which must not wait that long, run between two chunks."""

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
    chunk_size: int,
    known_result: Callable[[Key], Result | None] = lambda key: None,
) -> bool:
    """Run `job` for all keys, `chunk_size` of them at a time; return False when the worker has no room, and then run nothing.

    Just before each chunk, on the loop thread, `known_result` is asked for each of its keys: `job` leaves out those that have
    one, since much may have changed since the first chunk. `done` receives all results. When a chunk raises, the rest does not
    run and `failed` receives the error. When the worker has no room for a later chunk, the remaining keys get `Overloaded`.
    """
    results: dict[Key, Result | Exception] = {}

    def begin(at: int) -> bool:
        def finished(found: Mapping[Key, Result | Exception]) -> None:
            results.update(found)
            following = at + chunk_size
            if following < len(keys) and begin(following):
                return
            results.update((key, Overloaded()) for key in keys[following:])
            done(results)

        open_keys: list[Key] = []
        for key in keys[at : at + chunk_size]:
            if (result := known_result(key)) is None:
                open_keys.append(key)
            else:
                results[key] = result
        return worker.submit(lambda: job(open_keys), finished, failed)

    return begin(0)
