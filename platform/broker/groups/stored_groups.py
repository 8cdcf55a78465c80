"""Groups as ZooKeeper has them: committed offsets, and consumers of the paper's kind. Calls run on the worker thread, bounded by
its queue."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from ...coordination.group_directory import Deletion, GroupTrace
from ..event_loop.chunked_job import submit_in_chunks
from ..event_loop.worker import Worker

GROUPS_A_CHUNK = 20
"""Groups deleted in one chunk, each by several calls in sequence: commits wait behind a chunk."""

Deletions = Mapping[str, Deletion | Exception]
"""The outcome of each group."""


class Directory(Protocol):
    """The part of `coordination.group_directory.GroupDirectory` that is used here."""

    def groups(self) -> Mapping[str, bool]: ...

    def describe(self, groups: Iterable[str]) -> Mapping[str, GroupTrace]: ...

    def has_members(self, group: str) -> bool: ...

    def delete(self, group: str) -> Deletion: ...


class Claims(Protocol):
    """The part of `coordination.group_claims.GroupClaims` that is used here."""

    def claim(self, group: str) -> str: ...


class StoredGroups:
    """Lists, describes and deletes groups for handlers. Each call passes its result to `done` or its error to `failed`, on the
    loop thread. It returns False when the worker is overloaded: nothing will happen then."""

    def __init__(self, directory: Directory, claims: Claims, worker: Worker) -> None:
        self._directory = directory
        self._claims = claims
        self._worker = worker

    def groups(self, done: Callable[[Mapping[str, bool]], None], failed: Callable[[Exception], None]) -> bool:
        """List every group, with whether it has members of the paper's kind."""
        return self._worker.submit(self._directory.groups, done, failed)

    def describe(
        self, groups: Iterable[str], done: Callable[[Mapping[str, GroupTrace]], None], failed: Callable[[Exception], None]
    ) -> bool:
        """Describe groups, those that do not exist too."""
        wanted = list(groups)
        return self._worker.submit(lambda: self._directory.describe(wanted), done, failed)

    def claim(self, group: str, done: Callable[[str | None], None], failed: Callable[[Exception], None]) -> bool:
        """Claim a group for this broker, and pass on the claim; None, and no claim, where it has members of the paper's kind."""
        return self._worker.submit(
            lambda: None if self._directory.has_members(group) else self._claims.claim(group), done, failed
        )

    def delete(
        self,
        groups: Iterable[str],
        has_members: Callable[[str], bool],
        done: Callable[[Deletions], None],
        failed: Callable[[Exception], None],
    ) -> bool:
        """Delete groups, each for itself. `has_members` is called for each just before its chunk begins: a group that was joined
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
