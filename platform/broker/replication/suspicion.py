"""When a member may take the leadership over. Pure. This is liveness: the swap keeps a wrong suspicion safe, but not cheap.

A leader that answers nobody may be slow, cut off from one follower, or dead. So silence alone is not enough. Otherwise two
members that cannot reach each other would take over from each other without end, and after an outage of ZooKeeper the first
broker to reconnect would take every partition.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """Of the leader, as a member sees them."""

    answers_fetches: bool
    is_port_refusing: bool
    """A new connection to its port was refused: no process listens there."""
    is_registered: bool
    """ZooKeeper has its registration."""
    refusals_acted_on: int = 0
    """How often a refused connection has led to a takeover attempt since this registration."""


def may_take_over(signs: Signs) -> bool:
    """Return whether the signs together are enough."""
    if signs.answers_fetches:
        return False
    return not signs.is_registered or (signs.is_port_refusing and signs.refusals_acted_on == 0)
