"""What is left of groups in ZooKeeper, asked on the worker's thread: offsets of groups without members, and the paper's own
consumers. Bounded by the worker's queue.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from ...coordination.group_directory import Deletion, GroupTrace
from ..event_loop.chunked_job import submit_in_chunks
from ..event_loop.worker import Worker

GROUPS_A_CHUNK = 20
"""Groups, each some calls one after the other: commits wait behind these."""

Deletions = Mapping[str, Deletion | Exception]
"""What became of each group."""


class Directory(Protocol):
    """What is used of `coordination.group_directory.GroupDirectory`."""

    def groups(self) -> Mapping[str, bool]: ...

    def describe(self, groups: Iterable[str]) -> Mapping[str, GroupTrace]: ...

    def has_members(self, group: str) -> bool: ...

    def delete(self, group: str) -> Deletion: ...


class StoredGroups:
    """Lists, describes and deletes for handlers. Each call returns False when the worker is overloaded: nothing will happen."""

    def __init__(self, directory: Directory, worker: Worker) -> None:
        self._directory = directory
        self._worker = worker

    def groups(self, done: Callable[[Mapping[str, bool]], None], failed: Callable[[Exception], None]) -> bool:
        """Have every group listed, with whether members of the paper's kind live in it."""
        return self._worker.submit(self._directory.groups, done, failed)

    def describe(
        self, groups: Iterable[str], done: Callable[[Mapping[str, GroupTrace]], None], failed: Callable[[Exception], None]
    ) -> bool:
        """Have groups described, those that are not there too."""
        wanted = list(groups)
        return self._worker.submit(lambda: self._directory.describe(wanted), done, failed)

    def has_members(self, group: str, done: Callable[[bool], None], failed: Callable[[Exception], None]) -> bool:
        """Have it told whether members of the paper's kind live in a group."""
        return self._worker.submit(lambda: self._directory.has_members(group), done, failed)

    def delete(
        self,
        groups: Iterable[str],
        has_members: Callable[[str], bool],
        done: Callable[[Deletions], None],
        failed: Callable[[Exception], None],
    ) -> bool:
        """Have groups deleted, each for itself. `has_members` is asked of each just before its turn has come: one that was joined
        while others were being deleted stays.
        """

        def joined(group: str) -> Deletion | None:
            return Deletion.HAS_MEMBERS if has_members(group) else None

        def delete(some: Sequence[str]) -> Deletions:
            outcomes: dict[str, Deletion | Exception] = {}
            for group in some:
                try:
                    outcomes[group] = self._directory.delete(group)
                except Exception as error:
                    outcomes[group] = error  # one group's fault is not another's
            return outcomes

        return submit_in_chunks(self._worker, list(groups), delete, done, failed, chunk_size=GROUPS_A_CHUNK, known_result=joined)
