"""`python -m bench.groups`, small: the group settles, a process of it is killed, and the journal of hand-outs is in order."""

import json
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[3]


def test_a_small_group_settles_loses_members_and_nothing_is_owned_twice_or_skipped() -> None:
    words = ["--members", "6", "--partitions", "24", "--processes", "3", "--session-ms", "2000", "--most-s", "60"]
    done = subprocess.run(
        [sys.executable, "-m", "bench.groups", *words], cwd=_ROOT, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert (result["skipped"], result["owned_twice"], result["out_of_order"], result["died"]) == (0, 0, 0, 2)
    assert result["handed_out"] >= result["records"] > 0
    # Requests, where time would be the machine's: 6 joins, 24 partitions, 3 processes; a rebalance for each join would be more.
    assert result["settle_packets"] < 1_500
