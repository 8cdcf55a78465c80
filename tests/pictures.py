"""Makes the pictures of README from a running platform: `make pictures`, after `make demo KEEP=1`. Needs Chromium.

The overview shows what stands in the audit. For the window page a loss drill takes one record out of the offline log of a topic of
its own; the picture is taken when the audit has named the record, before the drill removes the topic.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from headrace.audit.client import completeness
from headrace.runtime.layout import SCRATCH_PREFIX, Layout
from tests.support.chromium import Chromium
from tests.support.machine import lacking_chromium
from tests.support.processes import eventually

FOLDER = Path(__file__).parents[1] / "docs" / "figures"
WIDTH, OVERVIEW_HEIGHT, WINDOW_HEIGHT = 1_200, 560, 520
WITHIN_MS = 600_000
ASK_MS = 10_000


def main() -> int:
    """Write docs/figures/audit.png and docs/figures/lost_record.png."""
    if (why := lacking_chromium()) is not None:
        print(f"no pictures: {why}", file=sys.stderr)
        return 1
    url = Layout.from_environment().audit_url
    with tempfile.TemporaryDirectory() as scratch, Chromium(Path(scratch) / "profile", Path(scratch) / "log") as browser:
        browser.screen(WIDTH, OVERVIEW_HEIGHT)
        browser.open(f"{url}/")
        (FOLDER / "audit.png").write_bytes(browser.picture())
        with subprocess.Popen([sys.executable, "-m", "headrace.cli.main", "audit", "drill", "loss"]) as drill:
            eventually(lambda: _lost(url) is not None, what="the audit names the record", within_ms=WITHIN_MS)
            topic, start_ms = _lost(url) or ("", 0)
            browser.screen(WIDTH, WINDOW_HEIGHT)
            browser.open(f"{url}/window?{urlencode({'topic': topic, 'start': start_ms})}")
            (FOLDER / "lost_record.png").write_bytes(browser.picture())
            return drill.wait(WITHIN_MS / 1_000)


def _lost(url: str) -> tuple[str, int] | None:
    """Return topic and start (ms) of a scratch topic's window that is INCOMPLETE."""
    windows = [one for one in completeness(url, timeout_ms=ASK_MS) if one["topic"].startswith(SCRATCH_PREFIX)]
    return next(((one["topic"], one["window_start_ms"]) for one in windows if one["verdict"] == "INCOMPLETE"), None)


if __name__ == "__main__":
    sys.exit(main())
