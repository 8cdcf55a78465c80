"""Makes README's picture from a running platform: `make pictures`, after `make up`. Needs Chromium.

A loss drill takes one record out of the offline log of its topic. The picture is taken when the audit has named the record,
before the drill removes the topic.
"""

import re
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
WIDTH, HEIGHT = 1_400, 640
WITHIN_MS = 600_000
ASK_MS = 10_000
DRILL = [sys.executable, "-m", "headrace.cli.main", "audit", "drill", "loss"]


def main() -> int:
    """Write docs/figures/lost_record.png."""
    if (why := lacking_chromium()) is not None:
        print(f"no pictures: {why}", file=sys.stderr)
        return 1
    layout = Layout.from_environment()
    url = layout.audit_url
    with tempfile.TemporaryDirectory() as scratch, Chromium(Path(scratch) / "profile", Path(scratch) / "log") as browser:
        browser.screen(WIDTH, HEIGHT)
        with subprocess.Popen(DRILL, stderr=subprocess.PIPE, text=True) as drill:
            assert drill.stderr is not None
            topic = next(found[0] for line in drill.stderr if (found := re.search(rf"{SCRATCH_PREFIX}\S+", line)))
            eventually(lambda: _lost(url, topic) is not None, what="the audit names the record", within_ms=WITHIN_MS)
            browser.open(f"{layout.console_url}/window?{urlencode({'topic': topic, 'start': _lost(url, topic)})}")
            (FOLDER / "lost_record.png").write_bytes(browser.picture())
            for _ in drill.stderr:
                pass  # until its end
            return drill.wait()


def _lost(url: str, topic: str) -> int | None:
    """Return the start (ms) of the topic's window that is INCOMPLETE."""
    windows = completeness(url, topic, timeout_ms=ASK_MS)
    return next((one["window_start_ms"] for one in windows if one["verdict"] == "INCOMPLETE"), None)


if __name__ == "__main__":
    sys.exit(main())
