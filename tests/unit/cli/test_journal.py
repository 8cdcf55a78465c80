"""`headrace journal`: what it says of sound, damaged and foreign folders; it changes none."""

import json
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.runtime.clock import SystemClock
from headrace.sdk.journal import JournalSettings, JournalTransport
from headrace.sdk.transport import LoggerRun

WINDOW = 1_200_000


def journal(root: Path) -> JournalTransport:
    run = LoggerRun(
        topic="clicks",
        schema='"bytes"',
        record_name="clicks",
        application="app",
        instance="host/app/1",
        server_name="host",
        lateness_ms=60_000,
    )
    settings = JournalSettings(root=root, segment_bytes=4096, quota_bytes=16_384, root_quota_bytes=65_536)
    transport = JournalTransport(run, settings, SystemClock())
    transport.start()
    for n in range(100):
        assert transport.take(b"event %d" % n, WINDOW + n, None, 0) is None
    transport.lost(WINDOW, "refused_by_schema", 3)
    return transport


def test_a_living_journal_is_shown_and_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    transport = journal(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert main(["journal", "inspect", str(tmp_path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["events"], facts["is_alive"], facts["is_ended"], facts["unreadable"]) == (100, True, False, [])
    assert facts["losses"] == [[WINDOW, "refused_by_schema", 3]]
    assert (facts["first_ms"], facts["last_ms"]) == (WINDOW, WINDOW + 99)
    assert main(["journal", "verify", str(transport.folder)]) == 0
    assert "app → clicks" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_verify_fails_for_damage_and_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    transport = journal(tmp_path)
    transport.close(0)
    with (transport.folder / "00000000000000000000.seg").open("r+b") as file:
        file.seek(1_000)
        file.write(b"damage")
    assert main(["journal", "verify", str(tmp_path)]) == 1
    assert "unreadable: 40 bytes" in capsys.readouterr().out
    (transport.folder / "journal.json").write_text("no head")
    assert main(["journal", "verify", str(tmp_path)]) == 1
    assert "is not a head of a journal" in capsys.readouterr().out


def test_a_folder_without_journals_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "inspect", str(tmp_path)]) == 1
    assert f"no journal is in {tmp_path}" in capsys.readouterr().err
