"""The whole pipeline in one run: send real events, load the warehouse with Airflow, wait for the audit's verdicts, print the
result.

With a log file it replays that file. Without one it drives the sample frontend with real HTTP requests and stops it cleanly.
Where the live cluster has three brokers, it kills a leader meanwhile.
Every step is a Headrace command in its own process, as a user would run it. A signal ends the demo at any time, with every
process that it started.
"""

import json
import os
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...audit.model.windows import WINDOW_MS, window_start_ms
from ...audit.service.web import report
from ...errors import HeadraceError
from ...runtime.layout import Layout
from .. import audit_queries, commands, control, preflight
from ..airflow import processes
from ..interrupts import Interrupts, held
from . import comparison, demo_share, source_counts
from .demo_share import Before, Windows
from .leader_kill import LeaderKill
from .source_counts import AnsweredRequests, SourceCounts

FRONTEND_REQUESTS = 3_000
FRONTEND_CLIENTS = 4
FRONTEND_READY_MS = 30_000
MIRRORED_MS = 120_000
LOADED_MS = 600_000
DECIDED_MS = 180_000
"""Bounds for a busy machine of two cores, on which Airflow alone took up to three minutes to begin a task."""
UNDECIDED = ("OPEN", "UNKNOWN")
"""UNKNOWN may still change, when a slow tier reports at last."""
STEP_ENDS_MS = 20_000
"""How long a step of an interrupted demo may take to seal its windows before it is killed."""
NOT_AN_EVENT = "/healthz"
"""The frontend does not log requests to this path."""
PATHS = ("/", "/products", "/products/7", "/api/time", "/about", "/missing")


class DemoError(HeadraceError):
    """A step of the demo failed; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The events that the demo sent."""

    topic: str
    source: SourceCounts
    """Counted at the source, events that went to quarantine included."""
    event_count: int
    quarantined_count: int
    window_starts_ms: tuple[int, ...]
    """All windows that may hold one of them."""
    hour_start_ms: int
    """The hour that ran when the first event was sent: events in it are counted and loaded, and perhaps not published yet."""

    @property
    def is_running_hour(self) -> bool:
        return bool(self.window_starts_ms) and self.window_starts_ms[-1] >= self.hour_start_ms


class Demo:
    """One run. `say` receives lines of progress, `show` lines of the result."""

    def __init__(
        self, layout: Layout, *, log: Path | None, topic: str, keep: bool, say: Callable[[str], None], show: Callable[[str], None]
    ) -> None:
        self._layout = layout
        self._log = log
        self._topic = topic
        self._keep = keep
        self._print_progress = say
        self._show = show
        self._began = time.monotonic()
        self._kill_fault: str | None = None

    def run(self) -> bool:
        """Bring the platform up if needed, send, load, wait for the verdicts and show them; bring down what was brought up.

        Return whether every event of this demo is accounted for: counted at the source, in COMPLETE windows, and as rows. Raises
        KeyboardInterrupt on the first SIGINT, SIGTERM or SIGHUP, after the same clean-up.
        """
        if self._log is not None and not self._log.is_file():
            raise DemoError(f"no log at {self._log}: LOG names a web server's access log in combined format")
        self._refuse_what_lacks()
        with Interrupts(self._say) as interrupts:
            started_here = control.state(self._layout) is None
            self._say("platform: starting" if started_here else "platform: the running one is used")
            is_up = False
            try:
                control.up(self._layout, progress=self._say)
                is_up = True
                os.environ.update(self._layout.as_role("operator"))  # what this process itself asks the clusters
                before = demo_share.look(self._layout, self._topic)
                with LeaderKill(self._layout, self._topic, self._say) as kill:
                    sent = self._replay(self._log) if self._log is not None else self._drive_frontend()
                self._kill_fault = kill.fault
                self._await_mirror(sent, before)
                self._load()
                return self._result(sent, before)
            finally:
                if started_here:
                    self._bring_down(is_up, interrupts)

    def _bring_down(self, is_up: bool, interrupts: Interrupts) -> None:
        if is_up and self._keep:
            self._say("platform: left running (KEEP=1); `make down` stops it")
            return
        hint = "" if interrupts.came else " (KEEP=1 leaves it running)"
        self._say(f"platform: stopping{hint}")
        control.down(self._layout)
        self._say("platform: stopped, nothing that this demo started is left running")

    def _refuse_what_lacks(self) -> None:
        """Raise with everything that the platform lacks, before anything is said or started.

        The sample frontend's port is not in the process table, because the frontend runs for a demo only.
        """
        environment = {**os.environ, **self._layout.environment()}
        faults = preflight.platform_faults(self._layout.home, self._layout.port_shift, environment)
        if self._log is None:
            faults += preflight.port_faults({self._layout.port(preflight.FRONTEND_PORT): "the sample frontend"})
        if faults:
            raise DemoError(preflight.in_lines(faults))

    def _say(self, line: str) -> None:
        self._print_progress(f"[{time.monotonic() - self._began:5.1f} s] {line}")

    def _headrace(self, *words: str, output: int | None = None) -> tuple[int, str]:
        """Run one Headrace command to its end; return its exit code and, with `output` PIPE, its output."""
        step: subprocess.Popen[str] | None = None
        try:
            with held():
                step = subprocess.Popen(
                    commands.command(*words),
                    env=commands.environment(self._layout, "application" if words[0] == "replay" else "operator"),
                    stdout=output,
                    text=True,
                )
            printed, _ = step.communicate()
            return step.returncode, printed or ""
        finally:
            if step is not None:
                _end(step)

    def _replay(self, log: Path) -> Sent:
        self._say(f"replay: {log} with its own time stamps → topic {self._topic}")
        source = source_counts.of_log(log)
        began_ms = _now_ms()
        code, printed = self._headrace("replay", str(log), "--topic", self._topic, "--json", output=subprocess.PIPE)
        if code != 0:
            raise DemoError(f"the replay of {log} failed (exit {code}); its output is above")
        words = json.loads(printed)
        starts = tuple(words["window_starts_ms"])
        self._say(f"replay: {words['sent']:,} events sent, {words['quarantined']} quarantined, {len(starts)} windows")
        return Sent(
            topic=self._topic,
            source=source,
            event_count=words["sent"],
            quarantined_count=words["quarantined"],
            window_starts_ms=starts,
            hour_start_ms=_hour_start(began_ms),
        )

    def _drive_frontend(self) -> Sent:
        first_ms = _now_ms()
        port = self._layout.port(preflight.FRONTEND_PORT)
        command = commands.command("frontend", "run", "--port", str(port), "--topic", self._topic)
        self._layout.logs.mkdir(parents=True, exist_ok=True)
        frontend: subprocess.Popen[bytes] | None = None
        try:
            with held(), (self._layout.logs / "frontend.log").open("ab") as output:
                environment = commands.environment(self._layout, "application")
                frontend = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
            self._await_frontend(frontend)
            self._say(f"frontend: {self._layout.frontend_url}, {FRONTEND_REQUESTS:,} real HTTP requests")
            answers, source = self._drive()
            self._say(f"frontend: answered {', '.join(f'{n:,} × {code}' for code, n in sorted(answers.items()))}; stopping it")
            frontend.send_signal(signal.SIGTERM)
            code = frontend.wait(timeout=30)
        finally:
            if frontend is not None:
                _end(frontend)
        if code != 0:
            raise DemoError(f"the frontend did not seal its windows (exit {code}): see {self._layout.logs / 'frontend.log'}")
        last_ms = _now_ms()
        starts = tuple(range(window_start_ms(first_ms), last_ms + 1, WINDOW_MS))
        return Sent(
            topic=self._topic,
            source=source,
            event_count=source.total,
            quarantined_count=0,
            window_starts_ms=starts,
            hour_start_ms=_hour_start(first_ms),
        )

    def _await_frontend(self, frontend: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + FRONTEND_READY_MS / 1000
        while frontend.poll() is None and time.monotonic() < deadline:
            try:
                urllib.request.urlopen(self._layout.frontend_url + NOT_AN_EVENT, timeout=2).close()
                return
            except OSError:
                time.sleep(0.1)
        raise DemoError(f"the sample frontend did not answer: see {self._layout.logs / 'frontend.log'}")

    def _drive(self) -> tuple[Counter[int], SourceCounts]:
        """Return how often each status came, and the requests by window. A client's error is raised here."""
        answers: Counter[int] = Counter()
        answered = AnsweredRequests()
        lock = threading.Lock()
        is_over = threading.Event()
        failures: list[OSError] = []

        def client(number: int) -> None:
            for turn in range(FRONTEND_REQUESTS // FRONTEND_CLIENTS):
                if is_over.is_set():
                    return
                url = self._layout.frontend_url + PATHS[(turn + number) % len(PATHS)]
                sent_ms = _now_ms()
                try:
                    with urllib.request.urlopen(url, timeout=10) as answer:
                        answer.read()
                        code = answer.status
                except urllib.error.HTTPError as error:
                    code = error.code
                    error.close()
                except OSError as error:
                    failures.append(error)
                    is_over.set()
                    return
                answered.add(sent_ms, _now_ms())
                with lock:
                    answers[code] += 1

        clients = [threading.Thread(target=client, args=(number,), daemon=True) for number in range(FRONTEND_CLIENTS)]
        try:
            for thread in clients:
                thread.start()
            for thread in clients:
                thread.join()
        finally:
            is_over.set()
        if failures:
            raise DemoError(f"the sample frontend stopped answering ({failures[0]}): see {self._layout.logs / 'frontend.log'}")
        return answers, answered.counts()

    def _await_mirror(self, sent: Sent, before: Before) -> None:
        last = (-1, -1)

        def counted(found: Windows) -> tuple[int, int]:
            live, offline = (before.total(found, sent.window_starts_ms, tier) for tier in ("live", "offline"))
            return live, offline

        def progress(found: Windows) -> None:
            nonlocal last
            now = counted(found)
            if now != last:
                self._say(f"mirror: {now[0]:,} counted live, {now[1]:,} offline")
            last = now

        def mirrored(found: Windows) -> bool:
            live, offline = counted(found)
            return live == offline and live >= sent.event_count

        is_level, _ = audit_queries.wait_until(self._layout, sent.topic, mirrored, within_ms=MIRRORED_MS, seen=progress)
        if not is_level:
            self._say(f"mirror: not level after {MIRRORED_MS // 1000} s; loading what is there; the audit will show the rest")

    def _load(self) -> None:
        self._say("airflow: triggering load_events ahead of its schedule")
        run_id = processes.trigger(self._layout, "load_events")
        state = processes.wait(self._layout, "load_events", run_id, timeout_ms=LOADED_MS, progress=self._say)
        if state in ("success", "failed"):
            self._say(f"airflow: {run_id} ended: {state}")
        else:
            self._say(f"airflow: {run_id} is still {state} after {LOADED_MS // 1000} s; the audit will show the rest")

    def _result(self, sent: Sent, before: Before) -> bool:
        """Show what came of the events; return whether each one that was sent is accounted for, window by window."""
        starts = sent.window_starts_ms

        def decided(found: Windows) -> bool:
            is_counted = before.total(found, starts, "live") >= sent.event_count
            made = [found[start] for start in starts if start in found]
            is_known = sent.source.in_window.keys() <= found.keys()
            return is_known and is_counted and all(window["verdict"] not in UNDECIDED for window in made)

        _, found = audit_queries.wait_until(self._layout, sent.topic, decided, within_ms=DECIDED_MS)
        self._show(f"\nEvents of this demo in topic {sent.topic}, by window and tier:")
        for line in demo_share.table(before, found, starts):
            self._show(line)
        shared = before.shared(starts)
        if shared:
            self._show(
                f"{shared} of these windows hold events of earlier demos, too: they are not counted here, the verdict is on all."
            )
        view = f"{sent.topic}_all" if sent.is_running_hour else sent.topic
        if sent.is_running_hour:
            self._show(f"The running hour is not published yet: the queries below read {view}, every row that is loaded.")
        for title, sql in _queries(view, before.rows_since()):
            self._show(f"\n{title}")
            self._headrace("query", sql)
        made = [found[start] for start in starts if start in found]
        self._show(
            f"\n{sent.source.total:,} events at the source, {sent.event_count:,} sent, {sent.quarantined_count} quarantined; "
            "the audit counts of them:"
        )
        for tier in report.tiers(made):
            self._show(f"  {tier:<24} {before.total(found, starts, tier):>10,}")
        faults = comparison.faults(sent.source, starts, before, found, self._rows(sent, before))
        if sent.event_count + sent.quarantined_count != sent.source.total:
            faults.append(f"{sent.source.total:,} events at the source, {sent.event_count + sent.quarantined_count:,} were sent")
        if self._kill_fault is not None:
            faults.append(self._kill_fault)
        for fault in faults:
            self._show(f"FAULT {fault}")
        complete = [window for window in made if window["verdict"] == "COMPLETE"]
        expected = len(sent.source.in_window.keys() | {window["window_start_ms"] for window in made})
        self._show(
            f"{len(complete)} of {expected} windows are COMPLETE; page: {self._layout.console_url}/topic?topic={sent.topic}"
        )
        return bool(made) and not faults

    def _rows(self, sent: Sent, before: Before) -> dict[int, int]:
        """Return this demo's rows by window: those that readers see, and of the running hour those that are loaded.

        None if the warehouse cannot be asked, which is shown.
        """
        start = f"(epoch_ms(_timestamp) // {WINDOW_MS}) * {WINDOW_MS}"
        rows: dict[int, int] = {}
        try:
            for view in (sent.topic, f"{sent.topic}_all"):
                sql = f'SELECT {start} AS start, count(*) AS n FROM "{view}" {before.rows_since()} GROUP BY 1'
                answer = json.loads(commands.output_of(self._layout, "query", sql, "--json"))
                is_shown = view == sent.topic
                rows |= {row["start"]: row["n"] for row in answer if is_shown or row["start"] >= sent.hour_start_ms}
        except commands.CommandFailed as error:
            self._show(f"FAULT {error}")
        return rows


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _hour_start(at_ms: int) -> int:
    return at_ms - at_ms % 3_600_000


def _end(step: "subprocess.Popen[Any]") -> None:
    """End a process that still runs: ask it first, so that it can seal its windows; kill it if it does not end."""
    if step.poll() is not None:
        return
    step.terminate()
    try:
        step.wait(timeout=STEP_ENDS_MS / 1000)
    except subprocess.TimeoutExpired:
        step.kill()
        step.wait()


def _queries(view: str, since: str) -> list[tuple[str, str]]:
    """Return the queries over the rows of `view` that match the condition `since` ('': all rows)."""
    rows = f'FROM "{view}" {since}'
    return [
        ("Top paths", f"SELECT path, count(*) AS requests {rows} GROUP BY path ORDER BY requests DESC, path LIMIT 8"),
        ("Status codes", f"SELECT status, count(*) AS requests {rows} GROUP BY status ORDER BY requests DESC, status"),
    ]
