"""Copies whose topic is not in the source any more: nobody copies them on, and nobody deletes them.

A copy often outlives its topic on purpose, so nothing here deletes by itself.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from ...runtime.layout import is_internal
from ..errors import MirrorError
from .naming import Naming


class HasTopics(Protocol):
    """A cluster, as far as it is asked here."""

    def topics(self) -> Sequence[str] | set[str]: ...


class EmptySource(MirrorError):
    """The source has no topic: more likely it is another cluster, or one that lost its tree, than that all copies are orphans."""

    def __init__(self) -> None:
        super().__init__("the source has no topic, so every copy would count as orphaned: check the source's address")


def orphans(
    source: HasTopics, destination: HasTopics, naming: Naming, *, is_copy: Callable[[str], bool], is_meant: Callable[[str], bool]
) -> list[str]:
    """Return the copies in the destination, sorted, of which the source has no topic.

    `is_copy` says of a topic of the destination whether a mirror made it; it is asked about those that the source does not have.
    `is_meant` chooses among them by name. Raises EmptySource, InvalidRename, ClientError.
    """
    present = [topic for topic in source.topics() if not is_internal(topic)]
    if not present:
        raise EmptySource
    expected = _names(present, naming)
    candidates = (topic for topic in sorted(destination.topics()) if topic not in expected and not is_internal(topic))
    return [topic for topic in candidates if is_meant(topic) and is_copy(topic)]


def _names(topics: Iterable[str], naming: Naming) -> set[str]:
    """Return what the topics are called in the destination, whether they are copied or not."""
    return {naming.destination_name(topic) for topic in topics}
