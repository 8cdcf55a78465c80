"""The case of one window: the facts it is judged by and as of when, and what a check of it came to. Plain values."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from .books import Found
from .facts import Difference, TopicFacts, WindowFacts
from .reasons import accepted_by
from .runs import Run
from .waits import HEARD, Silence, Subject, Waits, Word, earliest
from .windows import utc


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What every check of a window is given."""

    topic: TopicFacts
    window: WindowFacts
    now_ms: int
    most_records: int | None
    """Stretches of records that a difference names at most; None: all."""

    @property
    def heard_ms(self) -> int:
        """As of when the audit topic was read to its end; now, if it never was."""
        return self.now_ms if self.topic.heard_all_ms is None else self.topic.heard_all_ms

    def still_ms(self, since_ms: int) -> int:
        """Return for how long the audit has listened since then."""
        return self.heard_ms - self.counts_since(since_ms)

    def counts_since(self, since_ms: int) -> int:
        """Return since when a silence that began then counts: the audit must have listened."""
        return max(since_ms, self.topic.listening_since_ms)

    def entries(self, tier: str) -> Collection[Found]:
        """Return what the tier holds of the window, an entry for each partition."""
        return self.window.found.get(tier, {}).values()

    def counted_ms(self, tier: str) -> int:
        """Return when anything was last learnt of the tier's records."""
        return max((one.updated_ms for one in self.entries(tier)), default=0)

    def seen_ms(self) -> int:
        """Return when anything was last learnt about the window."""
        return max([self.window.reported_ms, *(self.counted_ms(tier) for tier in self.window.found)])


@dataclass(frozen=True, slots=True, kw_only=True)
class HopFinding:
    """What one check came to. Nothing of it is changed later: `summed` adds findings up."""

    tier: str
    is_settled: bool = True
    """Whether the tier has said all that it has to say."""
    waiting: tuple[str, ...] = ()
    """What is waited for, in words."""
    silent: Mapping[str, str] = field(default_factory=dict)
    """Who has stood still past its deadline → in words."""
    retired: Mapping[str, str] = field(default_factory=dict)
    """Who will say nothing more → who accepted that, in words."""
    differences: tuple[Difference, ...] = ()
    losses: Mapping[str, int] = field(default_factory=dict)
    """Name → records that were lost under it."""
    unaudited: int = 0
    unread_reports: int = 0
    waits: Waits = field(default_factory=dict)
    """What may change the finding without news of the topic."""


def held_up(
    case: Case, tier: str, who: str, since_ms: int, deadline_ms: int, waiting_for: str, note: str = "", waits: Waits | None = None
) -> HopFinding:
    """Return that the tier waits for `who`, or that `who` is silent: it has stood still since `since_ms` for longer than its
    deadline. `note`: why it makes no progress, in its own words. `waits`: what may end it without news, beside the deadline.
    """
    waits = waits or {}
    if case.still_ms(since_ms) > deadline_ms:
        words = f"{waiting_for} ({note or silent_since(case, since_ms)})"
        return HopFinding(tier=tier, is_settled=False, silent={who: words}, waits=waits)
    ends: Waits = {HEARD: case.counts_since(since_ms) + deadline_ms}
    return HopFinding(tier=tier, is_settled=False, waiting=(waiting_for,), waits=earliest((waits, ends)))


def held_up_by(case: Case, tier: str, who: str, run: Run, deadline_ms: int, waiting_for: str, note: str = "") -> HopFinding:
    """Return the same of a run, which is silent since it was last heard."""
    if case.still_ms(run.heard_ms) > deadline_ms:
        words = f"{waiting_for} ({silent_since(case, run.heard_ms)}{note})"
        waits: dict[Subject, int] = {Word(run.key): run.heard_ms}
        return HopFinding(tier=tier, is_settled=False, silent={who: words}, waits=waits)
    return HopFinding(tier=tier, is_settled=False, waiting=(waiting_for,), waits={Silence(run.key): deadline_ms})


def silent_since(case: Case, since_ms: int) -> str:
    """Return since when a silence counts, in words that stay the same while it lasts."""
    return f"silent since {utc(case.counts_since(since_ms))}"


def not_known(case: Case, who: str, count: int, words: str, *, of: int | None = None) -> HopFinding:
    """Return that it is unknown what became of `count` records; accepted, where an operator has said so of just as many, or of
    the `of` that may be among them.
    """
    known = case.window.known.get(who)
    if count and known is not None and known.missing == (count if of is None else of):
        return HopFinding(tier=who, retired={who: accepted_by(case.window, who)})
    return HopFinding(tier=who, silent={who: words} if count else {})


def summed(tier: str, findings: Iterable[HopFinding]) -> HopFinding:
    """Return the findings as one: settled if all are. Who is silent for several reasons is so for the first."""
    all_settled, waiting, differences = True, list[str](), list[Difference]()
    silent, retired, losses = dict[str, str](), dict[str, str](), Counter[str]()
    unaudited = unread_reports = 0
    waits: list[Waits] = []
    for one in findings:
        all_settled &= one.is_settled
        waiting += one.waiting
        for who, words in one.silent.items():
            silent.setdefault(who, words)
        retired.update(one.retired)
        differences += one.differences
        losses.update(one.losses)
        unaudited += one.unaudited
        unread_reports += one.unread_reports
        waits.append(one.waits)
    return HopFinding(
        tier=tier, is_settled=all_settled, waiting=tuple(waiting), silent=silent, retired=retired, differences=tuple(differences),
        losses=losses, unaudited=unaudited, unread_reports=unread_reports, waits=earliest(waits),
    )  # fmt: skip
