"""Damage in replicas: found by comparing them, repaired from each other, reported. Puts the parts together."""

from ..event_loop.loop import Loop
from .asking import Peers
from .damage_book import DamageBook
from .mending import Mending
from .replicas import Replicas
from .scrub import Scrub, ScrubSettings


class ReplicaDamage:
    """Lives on the loop thread."""

    def __init__(self, loop: Loop, replicas: Replicas, peers: Peers, settings: ScrubSettings) -> None:
        self.book = DamageBook()
        self.mending = Mending(loop, replicas, peers, self.book)
        self._scrub = Scrub(loop, replicas, peers, self.book, settings, self.mending.found)

    def start(self) -> None:
        """After `Replicas.start`."""
        self.mending.start()
        self._scrub.start()
