"""Which topics a group's members read now, for callers that must not remove what is being read. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...coordination.group_note import Readers
from .group import Group, GroupState
from .subscription import CONSUMER, subscribed_topics


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReaders:
    """Collected cheaply on the loop thread; `as_known` parses it on any thread."""

    is_there: bool
    had_members: bool
    subscriptions: Sequence[bytes]
    """Each member's subscription, in a stable group of consumers; empty for any other group."""
    is_known: bool

    @classmethod
    def of(cls, group: Group | None, *, had_members: bool) -> "GroupReaders":
        """Return the readers of a group. `had_members`: it has had members since the last look."""
        if group is None:
            return cls(is_there=False, had_members=had_members, subscriptions=(), is_known=False)
        is_known = group.state is GroupState.STABLE and group.protocol_type == CONSUMER
        subscriptions = [member.metadata(group.protocol) for member in group.members.values()] if is_known else []
        return cls(is_there=True, had_members=had_members, subscriptions=subscriptions, is_known=is_known)

    def as_known(self) -> Readers:
        """Return the readers with their topics. Parses every subscription."""
        if not self.is_known:
            return Readers(has_members=self.is_there, had_members=self.had_members)
        topics = [subscribed_topics(one) for one in self.subscriptions]
        known = None if None in topics else frozenset().union(*(one for one in topics if one is not None))
        return Readers(has_members=True, topics=known)
