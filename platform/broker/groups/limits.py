"""How much memory all groups together may take, and the bounds of what members may ask for. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """Settings of the group protocol, by Kafka's names where it has them."""

    initial_rebalance_delay_ms: int = 500
    """`group.initial.rebalance.delay.ms`: how long an empty group waits for more members after its first one and after each
    further one, so that processes started together form one generation and not one each."""
    min_session_timeout_ms: int = 6_000
    """`group.min.session.timeout.ms`."""
    max_session_timeout_ms: int = 1_800_000
    """`group.max.session.timeout.ms`."""
    members_per_group: int = 1_000
    """`group.max.size`; pending members, which have an id and have not joined yet, count too."""
    groups: int = 10_000
    """Groups with members. A group that only has offsets takes no memory here."""
    bytes: int = 64 << 20
    """Memory of all members' metadata, assignments and names together."""
