"""The safeguards of the verdict, each with the way to switch it off: what it says then whatever the facts are.

docs/AUDIT_RULES.md lists the same names. `test_safeguards.py` proves that the search notices when one is off.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from headrace.audit.model import build_facts, comparison, differences, packed_rows, runs, tier_reports, verdict
from headrace.audit.model.case import HopFinding
from headrace.audit.model.checks import later, live, producers, quarantine, quarantine_read
from headrace.audit.model.differences import Findings
from headrace.audit.model.tiers import PRODUCER
from headrace.audit.service.hearing import other_audits
from headrace.audit.service.hearing.steady_clock import SteadyClock
from tests.support.audit_world import hearing

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


_WINDOW_FACTS = build_facts.window_facts


def _of_this_topic_alone(reports: Any, topic: str, window_start_ms: int) -> Any:
    facts = _WINDOW_FACTS(reports, topic, window_start_ms)
    owners = {producer_id: run for producer_id, run in facts.owners.items() if topic in run.topics}
    return replace(facts, owners=owners)


class _Whatever(str):
    """A digest that is every other one."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True


def _whole(_topic: Any, window: Any, _rule: Any) -> Any:
    return window


def _nothing_of_it(_topic: Any, window: Any, rule: Any) -> Any:
    return window if rule.is_required else replace(window, found={**window.found, rule.name: {}, rule.before: {}})


SAFEGUARDS: dict[str, Off] = {
    "every run has sealed the window": (verdict, "check_producers", lambda *_: HopFinding(tier=PRODUCER)),
    "a held window waits for its run": (producers, "holds", _no),
    "a held window exists, mentioned or not": (build_facts, "held_windows", _nothing),
    "a seal takes no held window back": (runs.Run, "hold_of", _unless_sealed),
    "a lost report is waited for": (producers, "has_lost_reports", _no),
    "live is read after the last word": (live, "last_report_ms", _zero),
    "a gap in what a tier told is never complete": (later, "accounts_for", _yes),
    "records are compared by sequence": (differences, "compare_sequences", _nothing),
    "records are compared by offset": (later, "compare_tiers", lambda *_: Findings()),
    "content is compared by CRC": (comparison, "differ", _no),
    "a batch sent again is one batch": (comparison, "_last_numbers", _as_it_stands),
    "what nobody reported is doubled": (differences, "_is_forgiven", _yes),
    "a retired run makes ACCEPTED": (producers, "may_lack_reports", _no),
    "losses by name make ACCOUNTED": (verdict, "without_address", lambda *_: {}),
    "what nobody could read is not missing": (differences, "_may_be_hidden", _no),
    "what nobody could read must be proven by a later tier": (differences, "_unproven", _nothing),
    "damage of what nobody reported is noticed": (differences, "_damaged", _nothing),
    "what live held once is remembered": (differences, "lost_from_live", _nothing),
    "a range replaces what was said of it": (packed_rows.Rows, "cut", _nothing),
    "a replay waits for its own windows": (runs.Run, "may_touch", _no),
    "a replay leaves other windows alone": (runs.Run, "may_touch", _yes),
    "reports that were lost are unread reports": (live, "unheard_records", _zero),
    "a batch of another topic is doubled": (hearing, "window_facts", _of_this_topic_alone),
    "who began midway answers for the rest alone": (later, "since_it_began", _whole),
    "who began midway answers for the rest": (later, "since_it_began", _nothing_of_it),
    "a person's word holds for its records": (verdict, "digest_of_tier", lambda _: _Whatever()),
    "time never goes back": (SteadyClock, "now_ms", lambda self: self._clock.now_ms()),
    "what another audit has not read is kept": (other_audits, "least", lambda mine, *_: mine),
    "a quarantined record is looked up": (quarantine_read, "compare_quarantine", lambda *_: Findings()),
    "the quarantine is read behind the claim": (quarantine_read, "behind", lambda *_: None),
    "what the quarantine held once is remembered": (quarantine, "former_crcs", lambda _: {}),
    "what expired in quarantine has no address": (tier_reports.TierReports, "expire", _zero),
}
