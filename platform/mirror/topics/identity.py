"""Notices that a topic of the source was deleted and created again under its name: its id is another one then.

Offsets cannot tell: a new topic that has grown beyond the copy's end before anybody looked would be copied on from there, and its
beginning skipped silently. So each partition has the id under which it was last known, and how far it was copied by then; only
if the batch before that offset is still the same in the source is the new topic taken for the old one (a copy that was promoted,
say).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ...client.fetch.fetched import TopicPartition


class KeepsIds(Protocol):
    """Where ids outlive the process; `coordination.MirrorSources`."""

    def read_many(self, names: Iterable[tuple[str, int]], /) -> Mapping[tuple[str, int], str]: ...

    def write_many(self, ids: Mapping[tuple[str, int], str], /) -> None: ...


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

    def read(self, there: Mapping[TopicPartition, TopicPartition]) -> None:
        """Learn the kept ids. `there`: partition → its name in the destination. Raises what the keeping raises."""
        unknown = {there[name]: name for name in there if name not in self._known}
        if self._kept is None or not unknown:
            return
        for name, topic_id in self._kept.read_many(unknown).items():
            if topic_id:
                self._known[unknown[TopicPartition(*name)]] = _Known(topic_id, None)

    def is_other(self, name: TopicPartition, topic_id: str) -> tuple[bool, int | None]:
        """Return whether the topic is another than the one that was copied; and up to where what was copied is surely the old
        one's (None: all). Call `read` before.
        """
        known = self._known.get(name)
        if known is None or not topic_id:
            return False, None
        return known.topic_id != topic_id, known.confirmed_to

    def take(self, copied: Mapping[TopicPartition, tuple[TopicPartition, str, int]]) -> None:
        """Note of which topics these partitions are copies from now on: partition → its name in the destination, the topic's id
        (empty: none), how far it is copied. Raises what the keeping raises.
        """
        changed: dict[tuple[str, int], str] = {}
        for name, (there, topic_id, _) in copied.items():
            known = self._known.get(name)
            if topic_id and (known is None or known.topic_id != topic_id):
                changed[there] = topic_id
        if changed and self._kept is not None:
            self._kept.write_many(changed)
        for name, (_, topic_id, copied_to) in copied.items():
            if topic_id:
                self._known[name] = _Known(topic_id, copied_to)
