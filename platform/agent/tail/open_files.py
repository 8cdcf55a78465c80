"""The open files of one section: at most so many, the one that was not used for longest is closed first."""

from collections import OrderedDict
from collections.abc import Callable, Hashable

from .content import OpenContent


class OpenFiles:
    """Open files by owner."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: OrderedDict[Hashable, OpenContent] = OrderedDict()
        self._pinned: set[Hashable] = set()

    def __len__(self) -> int:
        return len(self._open)

    def of(self, owner: Hashable) -> OpenContent | None:
        """Return the owner's file if it is open."""
        content = self._open.get(owner)
        if content is not None:
            self._open.move_to_end(owner)
        return content

    def open(self, owner: Hashable, opener: Callable[[], OpenContent]) -> OpenContent:
        """Open a file for an owner that has none; may close another owner's. Raises OSError, also where all are pinned."""
        while len(self._open) >= self._most:
            loser = next((one for one in self._open if one not in self._pinned), None)
            if loser is None:
                raise OSError(f"{self._most} deleted files are open already: they are read first")
            self.close(loser)
        content = self._open[owner] = opener()
        return content

    def pin(self, owner: Hashable) -> None:
        """Keep the owner's file open: it has no name any more and could not be opened again."""
        if owner in self._open:
            self._pinned.add(owner)

    def close(self, owner: Hashable) -> None:
        content = self._open.pop(owner, None)
        self._pinned.discard(owner)
        if content is not None:
            content.close()

    def close_all(self) -> None:
        for owner in [*self._open]:
            self.close(owner)
