"""One seat for several processes of a kind: who holds it leads, and each holder has an epoch above all earlier ones.

The seat is an ephemeral node; the epoch a counter beside it. One transaction takes both, so no two holders have the same epoch.
An epoch alone proves nothing about now: who leads asks the session (`is_sure`), and stamps what it writes with its epoch, so that
readers refuse what a deposed leader writes late.
"""

from dataclasses import dataclass

from . import paths
from .operations import Create, Delete, Operation, Write
from .session import Session
from .values import decimal, json_bytes, read_decimal, read_json


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatHolder:
    """Who leads, by its own words."""

    url: str
    epoch: int


class LeaderSeat:
    """The seat of one name."""

    def __init__(self, session: Session, name: str, url: str) -> None:
        """`url` is where this process answers. No two living processes have the same."""
        self._session = session
        self._url = url
        self.path = paths.leader_seat(name)
        self._epoch_path = paths.leader_epoch(name)

    def take(self, *, above: int = 0) -> SeatHolder | None:
        """Return who holds the seat after an attempt to take it; None if it changed meanwhile: try again. Raises
        ConnectionUnsure. `above`: the highest epoch that anybody has seen; a ZooKeeper that lost its tree counts from 0.
        """
        tree = self._session.tree
        held = tree.read(self.path)
        if held is not None and (held.owner_session == tree.session_id or self._holder(held.data).url != self._url):
            return self._holder(held.data)
        counter = tree.read(self._epoch_path)
        if counter is None:
            tree.create(self._epoch_path, decimal(0))
            return None
        mine = SeatHolder(url=self._url, epoch=max(above, read_decimal(self._epoch_path, counter.data)) + 1)
        taking: list[Operation] = [Write(path=self._epoch_path, data=decimal(mine.epoch), version=counter.version)]
        if held is not None:
            # Ours, from before a restart: it lives as long as the old session does.
            taking.append(Delete(path=self.path, version=held.version))
        data = json_bytes({"url": mine.url, "epoch": mine.epoch})
        taking.append(Create(path=self.path, data=data, ephemeral=True))
        return mine if tree.transact(taking) is None else None

    def holder(self) -> SeatHolder | None:
        """Return who holds the seat now, or None. Raises ConnectionUnsure, UnreadableNode."""
        held = self._session.tree.read(self.path)
        return None if held is None else self._holder(held.data)

    def leave(self) -> None:
        """Give the seat up, if this session holds it."""
        held = self._session.tree.read(self.path)
        if held is not None and held.owner_session == self._session.tree.session_id:
            self._session.tree.delete(self.path, version=held.version)

    def _holder(self, data: bytes) -> SeatHolder:
        words = read_json(self.path, data)
        return SeatHolder(url=str(words.get("url", "")), epoch=int(words.get("epoch", 0)))
