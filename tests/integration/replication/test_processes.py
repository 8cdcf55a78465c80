"""`headrace broker run --processes 3`: one command, a cluster that replicates, and no broker left behind."""

import json
import os
import signal
import sys
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes import Process, eventually


def test_one_command_runs_a_cluster_and_starts_a_killed_broker_again(tmp_path: Path, zookeeper_chroot: str) -> None:
    status = [tmp_path / f"status-{number}.json" for number in (1, 2, 3)]
    command = [sys.executable, "-m", "headrace.cli.main", "broker", "run", "--processes", "3", "--port", "0"]
    command += ["--data", str(tmp_path / "logs"), "--zookeeper", zookeeper_chroot, "--status-file", str(tmp_path / "status.json")]
    whole = Process(command, tmp_path / "log")
    whole.start()
    try:

        def ready() -> list[dict[str, object]]:
            found = [json.loads(file.read_text()) for file in status if file.exists()]
            return found if len(found) == 3 and all(one["state"] == "ready" for one in found) else []

        first = eventually(ready, within_ms=60_000, what="three brokers ready")
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{first[0]['port']}", "log_level": 0})
        eventually(lambda: len(admin.list_topics(timeout=10).brokers) == 3, within_ms=60_000, what="brokers that know each other")
        admin.create_topics([NewTopic("events", 3, replication_factor=3)])["events"].result(30)
        killed = int(str(first[1]["pid"]))
        os.kill(killed, signal.SIGKILL)

        def ready_again() -> list[int]:
            found = [int(str(one["pid"])) for one in ready()]
            return found if found and killed not in found else []

        pids = eventually(ready_again, within_ms=60_000, what="broker 2 started again")
        assert whole.stop() == 0, whole.output()
        assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    finally:
        whole.kill()
