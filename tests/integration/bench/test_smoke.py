"""`python -m bench` as a user runs it, ours alone and small: it measures, checks, writes JSON, leaves nothing behind."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.report import document, figures

_ROOT = Path(__file__).parents[3]


def _bench(tmp_path: Path, only: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    words = ["--ours", "--quick", "--only", only, "--json", str(tmp_path / "result.json")]
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(scratch), "HEADRACE_BENCH_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "bench", *words], cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=120
    )
    assert list(scratch.iterdir()) == [], "the bench leaves no file behind"
    return done, json.loads((tmp_path / "result.json").read_text())


def test_ours_from_python_is_measured_and_written_down(tmp_path: Path) -> None:
    done, result = _bench(tmp_path, "python")
    assert done.returncode == 0, done.stderr
    (row,) = result["measures"]["python"]["rows"]
    assert row["subject"] == "Headrace"
    assert row["median"]["produce_messages_per_s"] > 0
    assert row["median"]["consume_messages_per_s"] > 0
    assert "Headrace" in document.page(result, source="result.json", figures=[])


def test_producing_in_c_is_measured_where_there_is_a_compiler_and_skipped_by_name_where_not(tmp_path: Path) -> None:
    done, result = _bench(tmp_path, "ceiling")
    assert done.returncode == 0, done.stderr
    if shutil.which("cc") or shutil.which("gcc") or shutil.which("clang"):
        assert [row["shape"] for row in result["measures"]["ceiling"]["rows"]] == ["batch 1", "batch 50"]
        assert all(row["median"]["messages_per_s"] > 0 for row in result["measures"]["ceiling"]["rows"])
        assert figures.write(result, tmp_path / "figures") == []
    else:
        assert any("install gcc" in reason for reason in result["skipped"].values())
