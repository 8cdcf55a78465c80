"""The safeguards of the verdict, each with the way to switch it off: what it says then whatever the facts are.

docs/AUDIT.md lists the same names. `test_safeguards.py` proves that the search notices when one is off.
"""

from collections.abc import Callable, Iterator
from typing import Any

from headrace.audit.model import build_facts, comparison, differences, packed_rows, runs, verdict
from headrace.audit.model.case import HopFinding
from headrace.audit.model.checks import later, live, producers
from headrace.audit.model.differences import Findings
from headrace.audit.model.tiers import PRODUCER

Off = tuple[object, str, Callable[..., Any]]


def _nothing(*_: Any, **__: Any) -> list[Any]:
    return []


def _yes(*_: Any, **__: Any) -> bool:
    return True


def _no(*_: Any, **__: Any) -> bool:
    return False


def _zero(*_: Any, **__: Any) -> int:
    return 0


_HOLD_OF = runs.Run.hold_of


def _unless_sealed(run: runs.Run, window_start_ms: int, window_end_ms: int) -> Any:
    return None if run.sealed_ms(window_end_ms) is not None else _HOLD_OF(run, window_start_ms, window_end_ms)


def _as_it_stands(_claims: Any, numbers: Any, piece: Any, _met: Any) -> Iterator[Any]:
    yield numbers, piece


SAFEGUARDS: dict[str, Off] = {
    "every run has sealed the window": (verdict, "check_producers", lambda *_: HopFinding(tier=PRODUCER)),
    "a held window waits for its run": (producers, "holds", _no),
    "a held window exists, mentioned or not": (build_facts, "held_windows", _nothing),
    "a seal takes no held window back": (runs.Run, "hold_of", _unless_sealed),
    "a lost report is waited for": (producers, "has_lost_reports", _no),
    "live is read after the last word": (live, "last_word_ms", _zero),
    "a gap in what a tier told is never complete": (later, "accounts_for", _yes),
    "records are compared by sequence": (differences, "compare_sequences", _nothing),
    "records are compared by offset": (later, "compare_tiers", lambda *_: Findings()),
    "content is compared by CRC": (comparison, "differ", _no),
    "a batch sent again is one batch": (comparison, "_last_numbers", _as_it_stands),
    "what nobody reported is doubled": (differences, "_is_forgiven", _yes),
    "a retired run makes ACCEPTED": (producers, "lacks_a_word_of", _no),
    "losses by name make ACCOUNTED": (verdict, "without_address", lambda *_: {}),
    "what nobody could read is not missing": (differences, "_may_be_hidden", _no),
    "what nobody could read must be proven by a later tier": (differences, "_unproven", _nothing),
    "damage of what nobody reported is noticed": (differences, "_damaged", _nothing),
    "what live held once is remembered": (differences, "lost_from_live", _nothing),
    "a range replaces what was said of it": (packed_rows.Rows, "cut", _nothing),
    "a replay waits for its own windows": (runs.Run, "may_touch", _no),
    "a replay leaves other windows alone": (runs.Run, "may_touch", _yes),
}
