"""Copies committed offsets of consumer groups: forwards only, and only for groups that have no members at the destination."""

import re
from collections.abc import Callable, Container, Iterable, Sequence

from ...client.connection import control_plane
from ...client.connection.cluster import Cluster
from ...client.consumer import group_requests
from ...client.fetch.fetched import TopicPartition
from ...runtime.logs import get_logger
from ..topics.naming import Naming
from .translation import Translation

log = get_logger(__name__)

EXCLUDE = r"console-consumer-.*,connect-.*,__.*,headrace\..*"
"""MirrorMaker's own default, and how far our tiers have reported."""
LANE = "mirror-groups"


class GroupOffsets:
    """The groups of one pair of clusters. Used by one thread."""

    def __init__(
        self,
        source: Cluster,
        destination: Cluster,
        naming: Naming,
        translation: Translation,
        *,
        groups: Sequence[re.Pattern[str]],
        exclude: Sequence[re.Pattern[str]],
    ) -> None:
        self._source = source
        self._destination = destination
        self._naming = naming
        self._translation = translation
        self._groups = groups
        self._exclude = exclude

    def turn(self, partitions: Callable[[], Iterable[TopicPartition]]) -> dict[str, int]:
        """Bring each group forward to where it is in the source; return group → partitions that were moved.

        `partitions`: those that are copied, by the source's names. Raises ClientError, for a whole turn: the next one continues.
        """
        self._translation.refresh()
        names = set(partitions())
        if not names:
            return {}
        moved = {}
        for group in control_plane.ask_groups(self._source.brokers(lane=LANE)):
            if self._is_wanted(group) and (count := self._one(group, names)):
                moved[group] = count
        return moved

    def _is_wanted(self, group: str) -> bool:
        return any(one.fullmatch(group) for one in self._groups) and not any(one.fullmatch(group) for one in self._exclude)

    def _one(self, group: str, names: Container[TopicPartition]) -> int:
        # All that the group has committed, and not each partition that is copied: most groups read few topics.
        found = group_requests.fetch_offsets(self._source.coordinator(group, lane=LANE), group, None)
        there: dict[TopicPartition, int] = {}
        for name, offset in found.items():
            if name not in names:
                continue
            led = self._translation.destination_offset(name, offset)
            if led is not None:
                there[TopicPartition(self._naming.destination_name(name.topic), name.partition)] = led
        if not there:
            return 0
        coordinator = self._destination.coordinator(group, lane=LANE)
        if control_plane.ask_group_members(coordinator, group)[1]:
            return 0  # its members there commit for themselves
        held = group_requests.fetch_offsets(coordinator, group, list(there))
        ahead = {name: offset for name, offset in there.items() if offset > held.get(name, -1)}
        if ahead:
            group_requests.commit_offsets(coordinator, group, ahead)
        return len(ahead)
