"""The whole pipeline in one go: real events in, the warehouse loaded by Airflow, the books balanced, the result printed.

With a log it replays that; without one it drives the sample frontend with real HTTP requests and stops it cleanly. Every
step is a command of ours run as its own process, as a user would run it.
"""

import json
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

from ..audit.model.windows import WINDOW_MS, window_start_ms
from ..errors import HeadraceError
from ..runtime.layout import Layout
from . import airflow, books, commands, control

FRONTEND_REQUESTS = 3_000
FRONTEND_CLIENTS = 4
FRONTEND_READY_MS = 30_000
MIRRORED_MS = 60_000
LOADED_MS = 180_000
DECIDED_MS = 90_000
PATHS = ("/", "/products", "/products/7", "/api/time", "/about", "/missing")


class DemoError(HeadraceError):
    """A step of the demo failed; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What went in."""

    topic: str
    event_count: int
    quarantined_count: int
    window_starts_ms: tuple[int, ...]
    is_running_hour: bool
    """The events are of the hour that has not ended: counted and loaded, not published yet."""


class Demo:
    """One run. `say` takes lines of progress, `show` lines of the result."""

    def __init__(
        self, layout: Layout, *, log: Path | None, topic: str, keep: bool, say: Callable[[str], None], show: Callable[[str], None]
    ) -> None:
        self._layout = layout
        self._log = log
        self._topic = topic
        self._keep = keep
        self._tell = say
        self._show = show
        self._began = time.monotonic()

    def run(self) -> bool:
        """Bring the platform up if it is not, send, load, wait for the verdicts, show them; bring down what was brought up.

        Return whether every window it made is COMPLETE in every tier.
        """
        if self._log is not None and not self._log.is_file():
            raise DemoError(f"no log at {self._log}: LOG names a web server's access log in combined format")
        self._say("platform: starting" if control.state(self._layout) is None else "platform: the running one is used")
        started_here = control.up(self._layout, progress=self._say)
        try:
            sent = self._replay(self._log) if self._log is not None else self._drive_frontend()
            self._await_mirror(sent)
            self._load()
            return self._result(sent)
        finally:
            if started_here and not self._keep:
                self._say("platform: stopping (KEEP=1 leaves it running)")
                control.down(self._layout)

    def _say(self, line: str) -> None:
        self._tell(f"[{time.monotonic() - self._began:5.1f} s] {line}")

    def _headrace(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        environment = commands.environment(self._layout)
        return subprocess.run(commands.command(*words), env=environment, text=True, check=False, **options)

    def _replay(self, log: Path) -> Sent:
        self._say(f"replay: {log} with its own time stamps → topic {self._topic}")
        done = self._headrace("replay", str(log), "--topic", self._topic, "--json", stdout=subprocess.PIPE)
        if done.returncode != 0:
            raise DemoError(f"the replay of {log} failed (exit {done.returncode}); what it said stands above")
        words = json.loads(done.stdout)
        starts = tuple(words["window_starts_ms"])
        self._say(f"replay: {words['sent']:,} events sent, {words['quarantined']} quarantined, {len(starts)} windows")
        hour_ms = 3_600_000
        running = bool(starts) and starts[-1] // hour_ms == time.time_ns() // 1_000_000 // hour_ms
        return Sent(
            topic=self._topic,
            event_count=words["sent"],
            quarantined_count=words["quarantined"],
            window_starts_ms=starts,
            is_running_hour=running,
        )

    def _drive_frontend(self) -> Sent:
        first_ms = time.time_ns() // 1_000_000
        port = self._layout.port(8000)
        command = commands.command("frontend", "run", "--port", str(port), "--topic", self._topic)
        self._layout.logs.mkdir(parents=True, exist_ok=True)
        with (self._layout.logs / "frontend.log").open("ab") as output:
            frontend = subprocess.Popen(command, stdout=output, stderr=output, env=commands.environment(self._layout))
        try:
            self._await_frontend(frontend)
            self._say(f"frontend: {self._layout.frontend_url}, {FRONTEND_REQUESTS:,} real HTTP requests")
            answers = self._drive()
            self._say(f"frontend: answered {', '.join(f'{n:,} × {code}' for code, n in sorted(answers.items()))}; stopping it")
            frontend.send_signal(signal.SIGTERM)
            code = frontend.wait(timeout=30)
        finally:
            if frontend.poll() is None:
                frontend.kill()
        if code != 0:
            raise DemoError(f"the frontend did not seal its windows (exit {code}): see {self._layout.logs / 'frontend.log'}")
        last_ms = time.time_ns() // 1_000_000
        starts = tuple(range(window_start_ms(first_ms), last_ms + 1, WINDOW_MS))
        return Sent(
            topic=self._topic,
            event_count=sum(answers.values()) + 1,  # the probe that found it ready is a request too
            quarantined_count=0,
            window_starts_ms=starts,
            is_running_hour=True,
        )

    def _await_frontend(self, frontend: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + FRONTEND_READY_MS / 1000
        while frontend.poll() is None and time.monotonic() < deadline:
            try:
                urllib.request.urlopen(self._layout.frontend_url, timeout=2).close()
                return
            except OSError:
                time.sleep(0.1)
        raise DemoError(f"the sample frontend did not answer: see {self._layout.logs / 'frontend.log'}")

    def _drive(self) -> Counter[int]:
        answers: Counter[int] = Counter()
        lock = threading.Lock()

        def client(number: int) -> None:
            for turn in range(FRONTEND_REQUESTS // FRONTEND_CLIENTS):
                url = self._layout.frontend_url + PATHS[(turn + number) % len(PATHS)]
                try:
                    with urllib.request.urlopen(url, timeout=10) as answer:
                        answer.read()
                        code = answer.status
                except urllib.error.HTTPError as error:
                    code = error.code
                    error.close()
                with lock:
                    answers[code] += 1

        clients = [threading.Thread(target=client, args=(number,)) for number in range(FRONTEND_CLIENTS)]
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join()
        return answers

    def _await_mirror(self, sent: Sent) -> None:
        last = (-1, -1)

        def progress(found: dict[int, dict[str, Any]]) -> None:
            nonlocal last
            now = tuple(books.count(found, tier, sent.window_starts_ms) for tier in ("live", "offline"))
            if now != last:
                self._say(f"mirror: {now[0]:,} counted live, {now[1]:,} offline")
            last = now[0], now[1]

        def mirrored(found: dict[int, dict[str, Any]]) -> bool:
            live, offline = (books.count(found, tier, sent.window_starts_ms) for tier in ("live", "offline"))
            return live == offline and live >= sent.event_count

        held, _ = books.wait_until(self._layout, sent.topic, mirrored, within_ms=MIRRORED_MS, seen=progress)
        if not held:
            self._say(f"mirror: not level after {MIRRORED_MS // 1000} s; loading what is there, the books will tell")

    def _load(self) -> None:
        self._say("airflow: triggering load_events ahead of its schedule")
        run_id = airflow.trigger(self._layout, "load_events")
        state = airflow.wait(self._layout, "load_events", run_id, timeout_ms=LOADED_MS, progress=self._say)
        self._say(f"airflow: {run_id} ended: {state}")

    def _result(self, sent: Sent) -> bool:
        def decided(found: dict[int, dict[str, Any]]) -> bool:
            made = [found[start] for start in sent.window_starts_ms if start in found]
            return bool(made) and all(window["verdict"] != "OPEN" for window in made)

        _, found = books.wait_until(self._layout, sent.topic, decided, within_ms=DECIDED_MS)
        self._headrace("audit", "report", "--topic", sent.topic)
        view = f"{sent.topic}_all" if sent.is_running_hour else sent.topic
        if sent.is_running_hour:
            self._show(f"The running hour is not published yet: the queries below read {view}, every row that is loaded.")
        for title, sql in _queries(view):
            self._show(f"\n{title}")
            self._headrace("query", sql)
        made = [found[start] for start in sent.window_starts_ms if start in found]
        complete = [window for window in made if window["verdict"] == "COMPLETE"]
        self._show(f"\n{sent.event_count:,} events sent, {sent.quarantined_count} quarantined; in the books of these windows:")
        for tier in dict.fromkeys(tier for window in made for tier in window["tiers"]):
            self._show(f"  {tier:<24} {books.count(found, tier, sent.window_starts_ms):>10,}")
        self._show(f"{len(complete)} of {len(made)} windows are COMPLETE; page: {self._layout.audit_url}/?topic={sent.topic}")
        return bool(made) and len(complete) == len(made)


def _queries(view: str) -> list[tuple[str, str]]:
    return [
        ("Top paths", f'SELECT path, count(*) AS requests FROM "{view}" GROUP BY path ORDER BY requests DESC, path LIMIT 8'),
        ("Status codes", f'SELECT status, count(*) AS requests FROM "{view}" GROUP BY status ORDER BY requests DESC, status'),
    ]
