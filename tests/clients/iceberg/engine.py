"""Spark with Iceberg as a child process that answers SQL statements, one after another."""

import json
import os
import select
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.clients.spark import pieces

ANSWER_S = 300
"""The longest that one statement may take; the first one waits for the JVM."""


class StatementFailed(Exception):
    """Spark refused the statement; the message is Spark's."""


class IcebergEngine:
    """Answers SQL over one warehouse's catalog, as catalog `warehouse`."""

    def __init__(self, warehouse: Path, log: Path) -> None:
        self._words = [str(pieces.python()), str(Path(__file__).with_name("job.py"))]
        jars = ",".join(map(str, pieces.iceberg_jars()))
        self._words += [str(warehouse / "catalog.db"), f"file://{warehouse}", jars]
        self._log = log

    def __enter__(self) -> "IcebergEngine":
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and not name.startswith("SPARK")}
        python = self._words[0]
        self._child = subprocess.Popen(
            self._words,
            env={**environment, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log.open("wb"),
            cwd=self._log.parent,
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
        try:
            self._child.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def sql(self, statement: str) -> list[list[Any]]:
        """Return the rows. Raises StatementFailed."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(statement).encode() + b"\n")
        self._child.stdin.flush()
        ready, _, _ = select.select([self._child.stdout], [], [], ANSWER_S)
        line = self._child.stdout.readline() if ready else b""
        if not line:
            raise StatementFailed(f"no answer to {statement!r}: {self._log.read_text(errors='replace')[-3000:]}")
        found = json.loads(line)
        if "failed" in found:
            raise StatementFailed(f"{statement}: {found['failed']}")
        rows: list[list[Any]] = found["rows"]
        return rows
