"""Rounds of kills on one platform. A round is one `kill -9`: of an application, of one process of a forked pair, of broker, agent
or audit. The check comes at the end of an episode: the applications that live are ended, every topic is read, and the audit is
asked for its verdicts.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos_sdk import rows, verdicts
from tests.chaos_sdk.application import Load
from tests.chaos_sdk.campaign import Planned
from tests.chaos_sdk.claims import violations
from tests.chaos_sdk.ledgers import ProcessLedger, read_ledger
from tests.chaos_sdk.platform import Platform
from tests.chaos_sdk.verdicts import WINDOW_MS
from tests.support.processes import eventually

APPLICATIONS = 2
"""How many are at work at once."""
BUFFER_BYTES = 128 << 10
SLOW_US = 200_000
"""The pause of an application that has reported of each event before the next one."""
SMALLEST_RECORD_BYTES = 40
"""An event's id and the server's name are longer."""
SHIPPED_WITHIN_MS = 120_000
WINDOWS_AGO = 40
"""The first application's window lies so far back; each further one has the next window, or shares an earlier one."""
MOST_PROGRESS_BYTES = 40_000
"""A round waits until the ledgers have grown by up to this: about 2,000 lines."""


@dataclass
class Running:
    """An application at work, and which of its processes were killed."""

    load: Load
    pid: int
    killed: set[str] = field(default_factory=set)
    """Names of its ledgers."""

    @property
    def names(self) -> list[str]:
        return [self.load.name, f"{self.load.name}-child"] if self.load.forks else [self.load.name]

    @property
    def may_give_up(self) -> bool:
        return self.load.journal is not None and self.load.journal["when_full"] == "drop_oldest"

    @property
    def paths(self) -> list[Path]:
        return [Path(self.load.folder) / f"{name}.ledger" for name in self.names]


def _counts(of: Mapping[str, int]) -> str:
    return ", ".join(f"{what} {count}" for what, count in sorted(of.items()))


def _window_now_ms() -> int:
    now_ms = time.time_ns() // 1_000_000
    return now_ms - now_ms % WINDOW_MS


class Episode:
    """Kills on one topic. The seed decides all that is left to chance here."""

    def __init__(self, running: Platform, planned: Planned) -> None:
        self.planned = planned
        self.topic = f"chaos-{planned.seed}"
        self._live = running.live
        self._agent = running.agent
        self._nursery = running.nursery
        self._audit = running.audit
        self._verifier = running.verifier
        self._folder = running.folder / self.topic
        self._chance = random.Random(planned.seed)
        self._all: list[Running] = []
        self._at_work: list[Running] = []
        self._attempts = 0
        self._windows = [_window_now_ms() - WINDOWS_AGO * WINDOW_MS]
        self.kills: dict[str, int] = {}
        """What was killed, how often."""
        self.verdicts: dict[str, int] = {}
        """What the audit said at the end, of how many windows."""
        self._folder.mkdir()

    def __str__(self) -> str:
        transport = "journal" if self.planned.has_journal else "direct"
        return (
            f"{transport}, seed {self.planned.seed}, {self._attempts} events; killed: {_counts(self.kills)}; "
            f"windows: {_counts(self.verdicts)}"
        )

    def play(self) -> None:
        """Kill as often as planned, end the rest, and check. Fails with all that does not hold."""
        try:
            for _ in range(self.planned.rounds):
                self._fill_up()
                self._await_progress()
                self._kill_something()
            self._end_all()
            found = self._check()
        finally:
            self._kill_the_rest()
        assert not found, "\n".join([f"{self}; ledgers in {self._folder}:", *found])

    def _fill_up(self) -> None:
        while len(self._at_work) < APPLICATIONS:
            load = self._new_load()
            self._at_work.append(Running(load, self._nursery.start(load)))
            self._all.append(self._at_work[-1])

    def _new_window(self) -> int:
        if self._all and self._chance.random() < 0.3:
            return self._chance.choice(self._windows)
        self._windows.append(self._windows[-1] + WINDOW_MS)
        return self._windows[-1]

    def _new_load(self) -> Load:
        chance = self._chance
        is_impatient = chance.random() < 0.3
        window_start_ms = self._new_window()
        return Load(
            name=f"app{len(self._all)}",
            topic=self.topic,
            folder=str(self._folder),
            seed=chance.randrange(1 << 32),
            threads=chance.randint(1, 3),
            pause_us=self._new_pause_us(is_impatient),
            window_start_ms=window_start_ms,
            forks=chance.random() < 0.3,
            bad_one_in=chance.choice((0, 50)),
            logger={**self._logger_arguments(is_impatient), **self._times(window_start_ms)},
            journal=self._journal_words() if self.planned.has_journal else None,
        )

    def _new_pause_us(self, is_impatient: bool) -> int:
        """One at a time may be slow: between two of its events all is acknowledged and told, and it is killed there."""
        if self._chance.random() < 0.3 and not any(one.load.pause_us == SLOW_US for one in self._at_work):
            return SLOW_US
        return self._chance.choice((500, 2_000) if is_impatient else (0, 200, 2_000))

    def _logger_arguments(self, is_impatient: bool) -> dict[str, Any]:
        return {
            "bootstrap": self._live.bootstrap,
            "registry_url": self._live.registry_url,
            "buffer_bytes": BUFFER_BYTES,
            "max_block_ms": 0 if is_impatient else 60_000,
            "linger_ms": self._chance.choice((1, 20)),
            "batch_bytes": self._chance.choice((4_000, 64_000)),
            "start_timeout_ms": self._chance.choice((0, 5_000)),
            "report_every_ms": self._chance.choice((100, 1_000)),
        }

    def _times(self, window_start_ms: int) -> dict[str, Any]:
        """A replay seals its window at its end alone; what logs as things happen has passed so old a window from the start. That
        an agent finds its journals is then all that keeps the window open: it is decided once all is told.
        """
        if self.planned.has_journal and self._chance.random() < 0.5:
            return {}
        return {"lateness_ms": None, "only_between_ms": (window_start_ms, window_start_ms + WINDOW_MS)}

    def _journal_words(self) -> dict[str, Any]:
        return {
            "root": str(self._agent.journals),
            "segment_bytes": self._chance.choice((16_384, 262_144)),
            "quota_bytes": self._chance.choice((2 * 262_144, 64 << 20)),
            "when_full": self._chance.choice(("drop_newest", "drop_oldest", "block")),
            "is_durable": self._chance.random() < 0.25,
        }

    def _await_progress(self) -> None:
        """Return once the ledgers of those at work have grown by a random amount, or a random, short time after a start."""
        goal = self._ledger_bytes() + int(self._chance.random() ** 3 * MOST_PROGRESS_BYTES) + 1
        eventually(lambda: self._ledger_bytes() >= goal, within_ms=60_000, every_ms=5, what="the applications log")
        # An application that sends for itself is announced some tenths of a second after its first event.
        longest_s = 0.05 if self.planned.has_journal else self._chance.choice((0.05, 0.5))
        time.sleep(self._chance.random() ** 2 * longest_s)

    def _ledger_bytes(self) -> int:
        return sum(path.stat().st_size for one in self._at_work for path in one.paths if path.exists())

    def _kill_something(self) -> None:
        drawn = self._chance.random()
        if drawn < 0.1:
            self._kill_broker()
        elif drawn < 0.13:
            self._kill_audit()
        elif self.planned.has_journal and drawn < 0.35:
            self._kill_agent()
        else:
            self._kill_application(self._chance.choice(self._at_work))

    def _kill_broker(self) -> None:
        self._count("broker")
        self._live.broker.await_ready()
        self._live.broker.kill()
        time.sleep(self._chance.random() ** 3 * 0.5)
        self._live.broker.launch()

    def _kill_agent(self) -> None:
        self._count("agent")
        self._agent.process.kill()
        time.sleep(self._chance.random() ** 3 * 0.5)
        self._agent.launch()

    def _kill_audit(self) -> None:
        self._count("audit")
        self._audit.process.kill()
        self._audit.process.start()

    def _kill_application(self, one: Running) -> None:
        children = self._nursery.children_of(one.pid) if one.load.forks and not one.killed else []
        way = self._chance.choice(("all", "parent", "child")) if children else "all"
        self._count(f"application: {way}")
        if way == "all":
            self._nursery.signal(one.pid, signal.SIGKILL, whole_group=True)
            self._nursery.await_end(one.pid)
            one.killed.update(one.names)
            self._at_work.remove(one)
        elif way == "parent":
            self._nursery.signal(one.pid, signal.SIGKILL, whole_group=False)
            one.killed.add(one.names[0])
        else:
            self._nursery.signal(children[0], signal.SIGKILL, whole_group=False)
            one.killed.add(one.names[1])

    def _end_all(self) -> None:
        self._live.broker.await_ready()
        for one in self._at_work:
            self._nursery.signal(one.pid, signal.SIGTERM, whole_group=True)
        for one in list(self._at_work):
            self._nursery.await_end(one.pid)
            self._at_work.remove(one)

        if self.planned.has_journal:
            try:
                eventually(lambda: not self._journals(), within_ms=SHIPPED_WITHIN_MS, every_ms=100, what="the agent ships all")
            except AssertionError:
                left = [str(head.parent) for head in self._journals()]
                raise AssertionError(f"{self}: not shipped: {left}\n{self._agent.say('status')[1]}") from None

    def _journals(self) -> list[Path]:
        """Return the journals of this topic that the agent has not removed: it has not shipped and told all of them."""
        return [head for head in self._agent.journals.glob("*/*/journal.json") if self._is_of_topic(head)]

    def _is_of_topic(self, head: Path) -> bool:
        try:
            # A folder with a dot was never a journal: its application was killed while it made it.
            return not head.parent.name.startswith(".") and self.topic in head.read_text()
        except FileNotFoundError:
            return False  # removed meanwhile

    def _check(self) -> list[str]:
        held = rows.held(self._live.bootstrap, self.topic)
        told = rows.told_of(self._live.bootstrap, self.topic)
        most = BUFFER_BYTES // SMALLEST_RECORD_BYTES
        ledgers = self._ledgers()
        self._attempts = sum(len(one.attempted) for one in ledgers)
        found = violations(ledgers, held, told, has_journal=self.planned.has_journal, buffer_records=most)
        in_topic, in_quarantine = {event_id for _, event_id in held.rows}, set(held.quarantined)
        window_of = {name: one.load.window_start_ms for one in self._all for name in one.names}
        allowed = {
            start: verdicts.allowed(
                [one for one in ledgers if window_of[one.name] == start],
                in_topic,
                in_quarantine,
                told,
                has_journal=self.planned.has_journal,
            )
            for start in set(window_of.values())
        }
        found += self._verifier.faults(self.topic, allowed)
        self.verdicts = Counter(self._verifier.ask(self.topic).values())
        return found

    def _ledgers(self) -> list[ProcessLedger]:
        return [
            read_ledger(path, was_killed=path.stem in one.killed, may_give_up=one.may_give_up)
            for one in self._all
            for path in one.paths
            if path.exists()
        ]

    def _kill_the_rest(self) -> None:
        for one in self._at_work:
            self._nursery.signal(one.pid, signal.SIGKILL, whole_group=True)
            self._nursery.await_end(one.pid)

    def _count(self, what: str) -> None:
        self.kills[what] = self.kills.get(what, 0) + 1
