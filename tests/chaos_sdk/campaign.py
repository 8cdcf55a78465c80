"""Many episodes, one seed: which episodes `make chaos-sdk` and CI play."""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass

ROUNDS_OF_AN_EPISODE = 20
CI_SEED = 20_261_123


@dataclass(frozen=True)
class Planned:
    seed: int
    has_journal: bool
    rounds: int


def plan(rounds: int, seed: int) -> Iterator[Planned]:
    """Yield episodes of together `rounds` kills, the transports in turn."""
    number = 0
    while rounds > 0:
        yield Planned(seed + number, number % 2 == 1, min(rounds, ROUNDS_OF_AN_EPISODE))
        rounds -= ROUNDS_OF_AN_EPISODE
        number += 1


def chosen_seed() -> int:
    """Return `HEADRACE_CHAOS_SEED`, else CI's own, else a new one."""
    given = os.environ.get("HEADRACE_CHAOS_SEED")
    return int(given) if given else CI_SEED if os.environ.get("CI") else random.randrange(1 << 31)
