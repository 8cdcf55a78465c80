"""Errors of the mirror as a whole. An error of one partition is a phase of its copy (see the status file)."""

from collections.abc import Callable, Mapping

from ..errors import HeadraceError

# The copy may be the only place that still holds records which were acknowledged and which the source has lost since. No advice
# begins with deleting it.
KEEP = "keep the copy: it may hold the only copy of acknowledged records"
LOST_TAIL = f'{KEEP}. docs/OPERATIONS.md, "A live log that lost its tail", brings them back to the source'
WRITTEN_ANEW = (
    f"{KEEP}. `headrace mirror verify` lists what only the copy has. Give the new topic another name; or, once you need nothing "
    f"of the copy, delete the destination's topic, and it is copied again"
)


class MirrorError(HeadraceError):
    """The mirror cannot do what it was asked to."""


class SameCluster(MirrorError):
    """Source and destination have the same address: a cluster cannot be its own copy."""

    def __init__(self, address: str) -> None:
        super().__init__(f"source and destination are both {address}: give the address of another cluster to one of them")
        self.address = address


class FewerPartitions(MirrorError):
    """The destination's topic has fewer partitions than the source's, and they cannot be added."""

    def __init__(self, topic: str, source_count: int, destination_count: int, why: str) -> None:
        super().__init__(
            f"{topic} has {source_count} partitions in the source, {destination_count} in the destination, and they could not be "
            f"added there: {why}"
        )
        self.topic = topic
        self.source_count = source_count
        self.destination_count = destination_count


class UnfitTopic(MirrorError):
    """A topic of the destination has settings under which a copy would not stay a copy."""

    def __init__(self, topic: str, where: str, faults: list[str]) -> None:
        super().__init__(
            f"topic {topic!r} on {where} cannot hold a copy: {'; '.join(faults)}; if you need nothing "
            f"that it holds, delete it: it is created again"
        )
        self.topic = topic
        self.faults = faults


class InvalidPattern(MirrorError):
    """A pattern of topics is not a regular expression."""

    def __init__(self, pattern: str, why: str) -> None:
        super().__init__(
            f"topic pattern {pattern!r} is not a regular expression: {why}; give names or patterns with commas between"
        )
        self.pattern = pattern


class InvalidRename(MirrorError):
    """A renaming of topics cannot be carried out."""

    def __init__(self, words: str, why: str) -> None:
        super().__init__(f"renaming {words!r}: {why}; give FROM=TO, FROM a regular expression for the whole name")
        self.words = words


class NameTaken(MirrorError):
    """Two topics of the source would be one in the destination."""

    def __init__(self, taken: Mapping[str, str], destination_name: Callable[[str], str]) -> None:
        words = (f"{topic!r} and {first!r} would both be {destination_name(topic)!r}" for topic, first in sorted(taken.items()))
        super().__init__(f"not copied, because {'; '.join(words)} in the destination: change --rename or --topics-exclude")
        self.taken = dict(taken)


class ZookeeperNeeded(MirrorError):
    """Both clusters are our brokers, and nobody said where the destination's ZooKeeper is."""

    def __init__(self, destination: str) -> None:
        super().__init__(f"{destination} is a Headrace broker: give the address of its ZooKeeper (--destination-zookeeper)")


class CopyDiffers(MirrorError):
    """The destination's log does not end with batches of the source: whatever is there, this mirror must not continue."""

    def __init__(self, topic: str, partition: int, why: str) -> None:
        super().__init__(f"the copy of {topic}-{partition} is not one of this source: {why}; {WRITTEN_ANEW}")
        self.topic = topic
        self.partition = partition
