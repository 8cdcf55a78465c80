"""Which group ids can be kept. Pure: a group is one step of a ZooKeeper path."""

LONGEST = 249


def is_usable(group: str) -> bool:
    """Return whether offsets can be kept under this group id."""
    return 0 < len(group) <= LONGEST and group not in (".", "..") and "/" not in group and group.isprintable()
