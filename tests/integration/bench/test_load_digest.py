"""`python -m bench.load_digest`, small: both sides load all rows, one with digests and one without, and a pair gives a ratio."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]


@pytest.mark.whole
def test_a_pair_is_measured_and_nothing_is_left(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "bench.load_digest", "--rows", "300", "--pairs", "1"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(words, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["rows"] == 300
    assert [one["side"] for one in result["loads"]] == ["with", "without"]
    assert all(one["processor_s"] > 0 for one in result["loads"])
    assert len(result["processor"]["ratios"]) == 1
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("headrace-")] == []
