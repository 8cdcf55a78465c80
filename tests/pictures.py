"""Makes README's pictures from a running platform: `make pictures`, after `make up`. Needs Chromium. Three minutes.

lost_record.png: a loss drill takes one record out of the offline log of its topic. The picture is taken when the audit has named
the record, before the drill removes the topic. overview.png: a generated log is replayed and loaded, and the mirror is stopped
while the picture of the home page is taken.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from headrace.audit.client import completeness, overview, topics
from headrace.runtime.layout import SCRATCH_PREFIX, Layout
from tests.support.access_logs import generate
from tests.support.chromium import Chromium
from tests.support.machine import lacking_chromium
from tests.support.processes import eventually

FOLDER = Path(__file__).parents[1] / "docs" / "figures"
WIDTH, HEIGHT = 1_400, 640
WITHIN_MS = 600_000
ASK_MS = 10_000
HEADRACE = [sys.executable, "-m", "headrace.cli.main"]
TOPIC = "page_views"
LINES, HOURS = 3_000, 20


def main() -> int:
    """Write docs/figures/lost_record.png and overview.png."""
    if (why := lacking_chromium()) is not None:
        print(f"no pictures: {why}", file=sys.stderr)
        return 1
    layout = Layout.from_environment()
    with tempfile.TemporaryDirectory() as scratch, Chromium(Path(scratch) / "profile", Path(scratch) / "log") as browser:
        browser.screen(WIDTH, HEIGHT)
        _fill(layout.audit_url, Path(scratch))
        _headrace("stop", "mirror")
        try:
            _take(browser, f"{layout.console_url}/", "overview.png", shows="mirror")
        finally:
            _headrace("start", "mirror")
        return _lost_record(layout, browser)


def _fill(url: str, folder: Path) -> None:
    """Have a topic of twenty hours that are complete in every tier."""
    if TOPIC not in topics(url, timeout_ms=ASK_MS):
        _headrace("replay", str(generate(folder / "access.log", lines=LINES, hours=HOURS, seed=7)), "--topic", TOPIC)
        _headrace("load", TOPIC)
    eventually(lambda: _is_complete(url), what=f"every window of {TOPIC} is COMPLETE", within_ms=WITHIN_MS)


def _is_complete(url: str) -> bool:
    return set(overview(url, q=TOPIC, timeout_ms=ASK_MS)["topics"][TOPIC]["windows"]) == {"COMPLETE"}


def _lost_record(layout: Layout, browser: Chromium) -> int:
    url = layout.audit_url
    with subprocess.Popen([*HEADRACE, "audit", "drill", "loss"], stderr=subprocess.PIPE, text=True) as drill:
        assert drill.stderr is not None
        topic = next(found[0] for line in drill.stderr if (found := re.search(rf"{SCRATCH_PREFIX}\S+", line)))
        eventually(lambda: _lost(url, topic) is not None, what="the audit names the record", within_ms=WITHIN_MS)
        words = urlencode({"topic": topic, "start": _lost(url, topic)})
        _take(browser, f"{layout.console_url}/window?{words}", "lost_record.png", shows="INCOMPLETE")
        for _ in drill.stderr:
            pass  # until its end
        return drill.wait()


def _take(browser: Chromium, address: str, name: str, *, shows: str) -> None:
    def is_shown() -> bool:
        browser.open(address)
        return bool(browser.run(f"document.querySelector('main').textContent.includes('{shows}')"))

    eventually(is_shown, what=f"{address} shows {shows}", within_ms=WITHIN_MS)
    (FOLDER / name).write_bytes(browser.picture())


def _lost(url: str, topic: str) -> int | None:
    """Return the start (ms) of the topic's window that is INCOMPLETE."""
    windows = completeness(url, topic, timeout_ms=ASK_MS)
    return next((one["window_start_ms"] for one in windows if one["verdict"] == "INCOMPLETE"), None)


def _headrace(*words: str) -> None:
    subprocess.run([*HEADRACE, *words], stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    sys.exit(main())
