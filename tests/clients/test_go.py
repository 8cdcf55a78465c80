"""Go clients: franz-go, segmentio's kafka-go and sarama (their tests are in go/)."""

import os
import subprocess
from pathlib import Path

from tests.support.broker import BrokerProcess

GO = Path(__file__).parent / "go"


def test_go_clients(broker: BrokerProcess) -> None:
    environment = {**os.environ, "BOOTSTRAP": broker.address}
    command = ["go", "test", "-count=1", "-timeout=10m", "./..."]
    done = subprocess.run(command, cwd=GO, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
