"""KafkaJS and @platformatic/kafka on Node (their tests are in js/)."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.broker import BrokerProcess

JS = Path(__file__).parent / "js"


def run(folder: Path, environment: Mapping[str, str], *command: str) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]


def test_clients_of_node(broker: BrokerProcess, build_folder: Path) -> None:
    folder = build_folder / "js"
    shutil.copytree(JS, folder)
    environment = {**os.environ, "BOOTSTRAP": broker.address}
    run(folder, environment, "npm", "ci", "--silent", "--no-audit", "--no-fund")
    run(folder, environment, "node", "--test", ".")
