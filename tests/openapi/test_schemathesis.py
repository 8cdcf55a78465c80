"""schemathesis makes up requests from `/openapi.json` and asks a real registry over a real broker: no answer may differ from the
document, none may be a fault of the server's, and nothing may be taken that the document does not allow.

`HEADRACE_SCHEMATHESIS` names the program; without it, the one on the path is run, and where there is none the tests are left out.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess
from tests.support.registry import RegistryProcess

HERE = Path(__file__).parent
PROGRAM = os.environ.get("HEADRACE_SCHEMATHESIS") or shutil.which("schemathesis")
EXAMPLES = os.environ.get("HEADRACE_SCHEMATHESIS_EXAMPLES", "30")
"""How many requests are made up for an operation and phase."""
WITHIN_S = 900
LEFT_OUT_CHECKS = "use_after_free"
"""A deletion is a soft one until it is asked for again with permanent=true: what was deleted may still be asked for."""

pytestmark = pytest.mark.skipif(
    PROGRAM is None,
    reason="schemathesis is not installed: install it (pip install schemathesis) into an environment of its own and name its "
    "program in HEADRACE_SCHEMATHESIS",
)


@pytest.fixture
def registry(tmp_path: Path, zookeeper_chroot: str) -> Iterator[RegistryProcess]:
    with BrokerProcess(tmp_path / "broker", zookeeper_chroot) as broker:
        with RegistryProcess(tmp_path / "registry", broker.address) as running:
            yield running


# Once without the global mode: the first READONLY would have every later write refused.
@pytest.mark.parametrize("left_out", [["--exclude-operation-id", "setMode"], []], ids=["writable", "any-mode"])
def test_every_answer_is_as_the_openapi_document_says(registry: RegistryProcess, tmp_path: Path, left_out: list[str]) -> None:
    assert PROGRAM is not None
    seed = os.environ.get("HEADRACE_SCHEMATHESIS_SEED", "1" if os.environ.get("CI") else str(int.from_bytes(os.urandom(3))))
    options = [
        "--checks",
        "all",
        "--exclude-checks",
        LEFT_OUT_CHECKS,
        "--max-examples",
        EXAMPLES,
        "--continue-on-failure",
        "--seed",
        seed,
        "--no-color",
        *left_out,
    ]
    done = subprocess.run(
        [
            str(Path(PROGRAM).absolute()),
            "--config-file",
            str(HERE / "schemathesis.toml"),
            "run",
            f"{registry.url}/openapi.json",
            *options,
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(HERE), "SCHEMATHESIS_HOOKS": "hooks"},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    assert done.returncode == 0, f"seed {seed}\n{done.stdout[-20_000:]}\n{done.stderr[-4_000:]}"
    print(done.stdout[-700:])
    log = registry.process.output()
    assert "request_failed" not in log, log[-4_000:]
    assert registry.ask("GET", "/readyz")[0] == 200
