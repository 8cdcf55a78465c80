"""The traces of decisions 66 and 73, but the one of groups, each a scenario that plays one history and says what must hold.

They raise when a promise is broken. `test_safeguards.py` shows that each does when its rule is off.
"""

from collections.abc import Callable

from . import damage_and_loss, lost_trees, moves, sets_and_takeovers

TRACES: dict[str, Callable[[], None]] = {
    name.removeprefix("trace_"): value
    for module in (sets_and_takeovers, damage_and_loss, lost_trees, moves)
    for name, value in vars(module).items()
    if name.startswith("trace_")
}
