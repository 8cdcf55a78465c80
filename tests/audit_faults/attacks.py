"""Attacks on the running platform: each does its harm, counts the truth without the audit, and returns what the audit must say.

An attack is a generator function of its topic. It yields what its next part needs: processes that are stopped (`Stopped`), all of
them (`RUNNING`), or a load of every topic (`Loaded`). `play` runs many attacks side by side, so that all of them share each stop
and each load. A new attack:

    def lost(topic: Topic) -> Story:
        topic.log(20).await_mirrored()
        yield Stopped("broker-offline")
        gone = topic.window_batches("broker-offline", 1)[7]
        log_surgery.cut_out(gone)
        yield RUNNING
        assert topic.offsets_only_on("live") == {gone.base_offset}
        return Truth(topic, {topic.windows[1]: differs("offline", missing=[gone.base_offset])})
"""

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.local import control
from headrace.local.drills.expected import VERDICT
from headrace.spark.errors import FAULTS_EXIT_CODE
from tests.support.platform import Platform
from tests.support.processes import eventually

from .topics import TOLD, WITHIN_S, Topic


class Stopped(frozenset[str]):
    """The processes of the platform that are stopped during the next part."""

    def __new__(cls, *names: str) -> "Stopped":
        return super().__new__(cls, names)


RUNNING = Stopped()


class Loaded(tuple[str, ...]):
    """The steps of `headrace load --all` that have been run before the next part."""

    def __new__(cls, *steps: str) -> "Loaded":
        return super().__new__(cls, steps)


Facts = Mapping[str, Any]
"""Names of a window's JSON → what must stand there. Of a mapping only these keys count; `reason` has to contain the words;
`records` are the named ones: tier → kind → offsets (sequence numbers where a record has no offset).
"""


@dataclass(frozen=True, slots=True)
class Truth:
    """What the audit must say of a topic, and how soon after the last attack's end."""

    topic: Topic
    windows: Mapping[int, Facts]
    others: str | None = "COMPLETE"
    """The verdict of every other window; None: any."""
    within_s: float = WITHIN_S
    also: "Truth | None" = None
    """Of another topic."""

    def wait(self, what: str, since: float | None = None) -> None:
        """Return once the audit says it; fail if that is later than `within_s` after `since` (None: now)."""

        def told() -> bool:
            faults = self.unlike()
            assert not faults, "; ".join(faults)
            return True

        began = time.monotonic() if since is None else since
        # At the least a while from now: other attacks of the module may have been waited for in between.
        left_s = max(began + self.within_s - time.monotonic(), 5.0)
        eventually(told, within_ms=int(left_s * 1000), every_ms=200, what=what)
        TOLD.setdefault(what, time.monotonic() - began)

    def unlike(self) -> list[str]:
        """Return how what the audit says differs; empty if it says just this."""
        found = self.topic.platform.windows(self.topic.name)
        faults: list[str] = []
        for start, expected in self.windows.items():
            window = found.get(start)
            if window is None:
                faults.append(f"window {start} of {self.topic.name} is not known")
                continue
            faults += [f"window {start}: {one} ({window['reason']})" for one in _unlike(expected, _with_records(window), "")]
        if self.others is not None:
            other = {start: window["verdict"] for start, window in found.items() if start not in self.windows}
            faults += [f"window {start} is {verdict}" for start, verdict in other.items() if verdict != self.others]
        return faults + (self.also.unlike() if self.also is not None else [])


Story = Generator[Stopped | Loaded, None, Truth]
Attack = Callable[[Topic], Story | Truth]
"""One that needs nothing of the others returns its truth without having yielded."""


@dataclass(slots=True)
class Outcome:
    """An attack that was played: its truth, or the error that ended it."""

    name: str
    since: float = 0.0
    truth: Truth | None = None
    error: Exception | None = None

    def await_told(self) -> None:
        """Return once the audit says the truth; fail if that is later than the attack allows."""
        if self.error is not None:
            raise self.error
        assert self.truth is not None
        self.truth.wait(self.name, self.since)


def play(platform: Platform, attacks: Mapping[str, Attack]) -> dict[str, Outcome]:
    """Play the attacks side by side, each on a topic named after it, and return what came of each."""
    outcomes = {name: Outcome(name) for name in attacks}
    stories: dict[str, Story] = {}
    needs: dict[str, Stopped | Loaded] = dict.fromkeys(attacks, RUNNING)
    down: list[str] = []
    while needs:
        need = _next(needs, down)
        mine = [name for name, one in needs.items() if type(one) is type(need) and one == need]
        wanted = need if isinstance(need, Stopped) else RUNNING
        _stop_just(platform, down, wanted)
        if isinstance(need, Loaded):
            for step in need:
                # Topics of other modules may be damaged on purpose: their faults are told by name, and stop no other topic.
                platform.headrace("load", "--all", "--step", step, "--wait", "5", exit_code=(0, FAULTS_EXIT_CODE))
        for name in mine:
            outcome = outcomes[name]
            try:
                if name not in stories:
                    begun = attacks[name](Topic(platform, name))
                    stories[name] = _over(begun) if isinstance(begun, Truth) else begun
                needs[name] = next(stories[name])
            except StopIteration as ended:
                outcome.truth = ended.value
                del needs[name]
            except Exception as error:
                outcome.error = error
                del needs[name]
    _stop_just(platform, down, RUNNING)
    since = time.monotonic()
    for outcome in outcomes.values():
        outcome.since = since
    return outcomes


def _next(needs: Mapping[str, Stopped | Loaded], down: list[str]) -> Stopped | Loaded:
    """Return what to do next. An attack that wants more processes stopped than are stopped now must not see one of them run in
    between. Otherwise what needs all processes comes first, so that all attacks share each stop and each load.
    """
    further = [one for one in needs.values() if down and isinstance(one, Stopped) and one >= set(down)]
    return further[0] if further else RUNNING if RUNNING in needs.values() else next(iter(needs.values()))


def _stop_just(platform: Platform, down: list[str], wanted: Stopped) -> None:
    """Start what is down and not wanted so, in reverse, and stop the rest. `down`: what is stopped, in the order of the stops."""
    for name in [one for one in reversed(down) if one not in wanted]:
        control.start(platform.layout, name)
        down.remove(name)
    for name in sorted(wanted - set(down), reverse=True):  # the mirror before the broker that it reads from
        control.stop(platform.layout, name)
        down.append(name)


def _over(truth: Truth) -> Story:
    return truth
    yield RUNNING


# -- what the audit must say ---------------------------------------------------------------------------------------------


def complete(count: int) -> Facts:
    """COMPLETE, with so many records at each tier up to the offline log."""
    return {"verdict": "COMPLETE", "tiers": dict.fromkeys(("producer", "live", "mirror", "offline"), count)}


def differs(
    tier: str, *, missing: Iterable[int] = (), doubled: Iterable[int] = (), altered: Iterable[int] = (), **more: Any
) -> Facts:
    """INCOMPLETE, ALTERED or DOUBLED first at this tier, with just these records."""
    records = {"missing": sorted(missing), "altered": sorted(altered), "doubled": sorted(doubled)}
    named = {kind: numbers for kind, numbers in records.items() if numbers}
    verdict = next(VERDICT[kind] for kind in named)
    counts = {kind: len(numbers) for kind, numbers in records.items()}
    return {"verdict": verdict, "first_bad_tier": tier, "records": {tier: named}, **counts, **more}


def unknown(*silent: str, **more: Any) -> Facts:
    """UNKNOWN, because of these participants."""
    return {"verdict": "UNKNOWN", "silent": list(silent), **more}


def accounted(**losses: int) -> Facts:
    return {"verdict": "ACCOUNTED", "accounted": losses, "missing": 0}


def _with_records(window: Mapping[str, Any]) -> dict[str, Any]:
    records: dict[str, dict[str, list[int]]] = {}
    for difference in window["differences"]:
        for one in difference["records"]:
            first = one.get("first_offset", one.get("first_sequence", -1))
            kinds = records.setdefault(difference["tier"], {})
            kinds[one["kind"]] = sorted([*kinds.get(one["kind"], []), *range(first, first + one["count"])])
    return {**window, "records": records}


def _unlike(expected: Any, found: Any, where: str) -> list[str]:
    if isinstance(expected, Mapping):
        if not isinstance(found, Mapping):
            return [f"{where} is {found!r}"]
        return [fault for key, value in expected.items() for fault in _unlike(value, found.get(key), f"{where} {key}".strip())]
    is_like = expected in str(found) if where == "reason" else found == expected
    return [] if is_like else [f"{where} is {found!r}, not {expected!r}"]
