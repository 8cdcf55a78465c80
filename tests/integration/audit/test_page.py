"""The audit's pages in a real browser, over a real broker's windows."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.audit_service import AuditService
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually

from .producers import AuditedApplication

Start = Callable[..., AuditService]


def seen(url: str, profile: Path, *flags: str) -> "subprocess.CompletedProcess[str]":
    """Return the page as the browser has it once its script ran (stdout), and what the browser says of errors (stderr)."""
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--enable-logging=stderr"]
    return subprocess.run(
        [*command, *flags, "--virtual-time-budget=3000", "--dump-dom", url],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.needs("chromium")
@pytest.mark.parametrize(
    "flags", [["--window-size=1200,800"], ["--window-size=400,800", "--blink-settings=preferredColorScheme=0"]]
)
def test_a_browser_shows_topics_windows_and_records_without_an_error(
    live: BrokerProcess, audit: Start, tmp_path: Path, flags: list[str]
) -> None:
    service = audit(live.address)
    application = AuditedApplication(live.address, "clicks")
    application.log([5, 6, 7])
    application.seal()
    application.close()
    eventually(lambda: service.windows("clicks").get(0, {}).get("verdict") == "COMPLETE", what="COMPLETE")
    for path, words in (
        ("/", 'href="/?topic=clicks"'),
        ("/?topic=clicks", ">1970-01-01 00:00 – 00:10</a>"),
        ("/window?topic=clicks&start=0", "No record of this window is known to be missing"),
    ):
        page = seen(service.url + path, tmp_path / "profile", *flags)
        assert words in page.stdout, page.stderr
        assert "CONSOLE" not in page.stderr
