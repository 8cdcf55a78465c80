"""A log of format 1, with the gap behind a batch's records, is refused before anything in it is taken for damage."""

import shutil
from pathlib import Path

import pytest

from headrace.broker.log import OldFormat
from headrace.broker.log.tools.data_folder import partition_folders
from headrace.cli.main import main
from tests.support.small_logs import NOW_MS, batch, fetched, open_log, set_crc

pytestmark = pytest.mark.usefixtures("no_fsync")
FIRST = f"{0:020d}.log"


def of_format_1(made: bytearray, position: int) -> bytes:
    """Return a batch in format 1."""
    made[:8], made[12:16] = position.to_bytes(8, "big"), bytes(4)
    made[23:27] = (len(made) - 1).to_bytes(4, "big")
    return bytes(set_crc(made))


@pytest.fixture
def old(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "events-0"
    folder.mkdir(parents=True)
    first = of_format_1(batch(b"a", b"b"), 0)
    (folder / FIRST).write_bytes(first + of_format_1(batch(b"c"), len(first)))
    return folder


def test_a_log_of_format_1_is_refused_and_left_as_it_was(old: Path) -> None:
    before = (old / FIRST).read_bytes()
    with pytest.raises(OldFormat, match=r"holds batches of log format 1.*has changed nothing"):
        open_log(old)
    assert [path.name for path in old.iterdir()] == [FIRST]
    assert (old / FIRST).read_bytes() == before


@pytest.mark.parametrize("action", ["check", "dump", "repair"])
def test_the_tools_refuse_it_too(old: Path, action: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = (old / FIRST).read_bytes()
    for folder in (old, old.parent):
        with pytest.raises(OldFormat):
            partition_folders(folder)
        assert main(["log", action, str(folder)]) == 1
        assert "log format 1" in capsys.readouterr().err
    assert (old / FIRST).read_bytes() == before


def test_a_first_batch_that_is_only_damaged_is_no_old_format(tmp_path: Path, old: Path) -> None:
    log = open_log(tmp_path / "log")
    for value in (b"a", b"b", b"c"):
        log.append(batch(value, value), NOW_MS)
    log.close()
    shutil.rmtree(old)
    data = bytearray((tmp_path / "log" / FIRST).read_bytes())
    size = len(data) // 3
    data[:8], data[23:27] = bytes(8), (size - 1).to_bytes(4, "big")  # like one of format 1, but for its CRC
    (tmp_path / "log" / FIRST).write_bytes(data)
    assert len(fetched(open_log(tmp_path / "log"))) == 2
