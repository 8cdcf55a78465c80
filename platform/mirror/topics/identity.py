"""Notices that a topic of the source was deleted and made anew under its name: its id is another one then.

Offsets cannot tell: a new topic that has grown beyond the copy's end before anybody looked would be copied on from there, and its
beginning skipped in silence. So each partition has the id under which it was last known, and how far it was copied by then; only
if the batch before that offset is still the same in the source is the new topic taken for the old one (a copy that was promoted,
say).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ...client.fetch.fetched import TopicPartition


class KeepsIds(Protocol):
    """Where ids outlive the process; `coordination.MirrorSources`."""

    def read(self, topic: str, partition: int, /) -> str: ...

    def write(self, topic: str, partition: int, topic_id: str, /) -> None: ...


@dataclass(frozen=True, slots=True)
class _Known:
    topic_id: str
    confirmed_to: int | None
    """What was copied up to here was copied of the topic with this id. None: by an earlier process, all that it copied."""


class Identity:
    """The ids of the source's topics by partition. Used by the forwarder's thread alone."""

    def __init__(self, kept: KeepsIds | None = None) -> None:
        self._kept = kept
        self._known: dict[TopicPartition, _Known] = {}

    def confirm(self, copied_to: Mapping[TopicPartition, int], ids: Mapping[str, str]) -> list[TopicPartition]:
        """Take note of ids that were asked after `copied_to` was read; return the partitions whose topic is another one now."""
        changed = []
        for name, offset in copied_to.items():
            known, present = self._known.get(name), ids.get(name.topic, "")
            if known is None or not present:
                continue
            if known.topic_id == present:
                self._known[name] = _Known(present, offset)
            else:
                changed.append(name)
        return changed

    def is_other(self, name: TopicPartition, there: TopicPartition, topic_id: str) -> tuple[bool, int | None]:
        """Return whether the topic is another than the one that was copied; and up to where what was copied is surely the old
        one's (None: all). Raises what the keeping raises.
        """
        known = self._known.get(name)
        if known is None and self._kept is not None and (kept := self._kept.read(*there)):
            known = self._known[name] = _Known(kept, None)
        if known is None or not topic_id:
            return False, None
        return known.topic_id != topic_id, known.confirmed_to

    def take(self, name: TopicPartition, there: TopicPartition, topic_id: str, copied_to: int) -> None:
        """Note that the partition is a copy of the topic with this id from now on. Raises what the keeping raises."""
        if not topic_id:
            return
        known = self._known.get(name)
        if self._kept is not None and (known is None or known.topic_id != topic_id):
            self._kept.write(*there, topic_id)
        self._known[name] = _Known(topic_id, copied_to)
