"""Every example of docs/READER.md is run as it stands, but for addresses, against a real cluster, and the README's reader."""

import re
import sys
import uuid
from pathlib import Path

import pytest

from headrace.sdk import EventLogger, event_schema
from tests.support.live_side import LiveSide
from tests.support.processes import Process, eventually

from .topics import make_topic

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "READER.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```$)?", PAGE, re.MULTILINE | re.DOTALL)
SHARED = BLOCKS[0][0].partition("\nreader = ")[0]
"""What the later examples use of the first one."""


@pytest.fixture(scope="module")
def clicks(live: LiveSide) -> LiveSide:
    """The cluster with three clicks and three orders in it."""
    for topic in ("clicks", "orders"):
        make_topic(live, topic, 1)
    sent = [("ann", "/"), ("bob", "/a"), ("eve", "/b")]
    words = [{"name": "user", "type": "string"}, {"name": "path", "type": "string"}]
    with EventLogger("clicks", event_schema("Click", words), application="page", bootstrap=live.bootstrap,
                     registry_url=live.registry_url) as logger:  # fmt: skip
        for user, path in sent:
            assert logger.log({"user": user, "path": path})
    with EventLogger("orders", event_schema("Order", [{"name": "number", "type": "int"}]), application="page",
                     bootstrap=live.bootstrap, registry_url=live.registry_url) as logger:  # fmt: skip
        for number in range(3):
            assert logger.log({"number": number})
    return live


@pytest.mark.parametrize(("program", "output"), BLOCKS, ids=[str(number) for number in range(len(BLOCKS))])
def test_an_example_prints_what_the_page_says_and_ends_in_order(
    program: str, output: str, clicks: LiveSide, tmp_path: Path
) -> None:
    shared = "" if program.startswith(SHARED) else SHARED + "\n\n"
    _run(shared + program, output.splitlines(), clicks, tmp_path)


def test_every_example_is_run_here() -> None:
    assert len(BLOCKS) == PAGE.count("```python") >= 7


def _run(program: str, expected: list[str], live: LiveSide, folder: Path) -> None:
    ours = {"localhost:9092": live.bootstrap, "http://localhost:8081": live.registry_url}
    ours |= {name: str(folder / name) for name in ("fraud.seen", "visits.sqlite")}
    for there, here in ours.items():
        program = program.replace(there, here)
    program = re.sub(r'group="(\w+)"', rf'group="\1-{uuid.uuid4().hex[:8]}"', program)
    process = Process([sys.executable, "-u", "-c", program], folder / "log")
    process.start()

    def printed() -> list[str]:
        return process.output().splitlines()

    try:
        if expected:
            eventually(lambda: printed()[: len(expected)] == expected, what=f"the example's lines: {expected}", within_ms=60_000)
        else:
            eventually(lambda: sum(line.startswith(("click", "order")) for line in printed()) == 6, what="both", within_ms=60_000)
        runs_on = any(word in program for word in (".run(", ".run_batches(", ".run_async("))
        assert (process.stop() if runs_on else process.wait(30_000)) == 0, process.output()
        assert not expected or printed() == expected
    finally:
        process.kill()
