"""What a round does: determined by the run's seed and the round's number alone, so that any round can be played again."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from .kinds import KINDS

CALM_S = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One round."""

    seed: int
    number: int
    """From 1."""
    kinds: tuple[str, ...]
    """One fault, or two at once."""
    calm_s: float
    """Before the first."""
    apart_s: float
    """Between the two."""
    lasts_s: float
    """From the last to the healing."""

    def chance(self, place: int) -> random.Random:
        """Return the chance from which the fault at this place draws what it hits."""
        return random.Random(f"{self.seed}/{self.number}/{place}")

    def __str__(self) -> str:
        when = f"{self.calm_s:.2f} s, " + f", {self.apart_s:.2f} s, ".join(self.kinds) + f", {self.lasts_s:.2f} s"
        return f"round {self.number} of seed {self.seed}: {when}"


def draw(seed: int, number: int, names: Sequence[str]) -> Plan:
    """Return the plan of a round. `names`: the kinds of faults that this cluster can have."""
    chance = random.Random(f"{seed}/{number}")
    if number <= len(names):
        kinds: tuple[str, ...] = (names[number - 1],)
    else:
        kinds = tuple(chance.sample(names, chance.choice((1, 2))))
    lasts_s = max(chance.uniform(KINDS[name].least_s, KINDS[name].most_s) for name in kinds)
    return Plan(
        seed=seed,
        number=number,
        kinds=kinds,
        calm_s=CALM_S * chance.random(),
        apart_s=2 * chance.random(),
        lasts_s=lasts_s,
    )
