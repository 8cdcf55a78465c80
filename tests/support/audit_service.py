"""A real audit service process for tests, asked over HTTP."""

import json
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from headrace.runtime.status import read_status
from tests.support.processes import Process, eventually, free_port


class AuditService:
    """`headrace audit run` on a folder; the same port and store over restarts."""

    def __init__(self, folder: Path, live: str, offline: str = "", settings: str = "", store: str | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._status = folder / "status.json"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "audit.toml").write_text(settings)
        command = [sys.executable, "-m", "headrace.cli.main", "audit", "run", "--port", str(self.port), "--live", live]
        command += [
            "--offline",
            offline,
            "--store",
            store or str(folder / "books.sqlite"),
            "--settings",
            str(folder / "audit.toml"),
        ]
        self.process = Process([*command, "--status-file", str(self._status)], folder / "log")

    def launch(self) -> "AuditService":
        """Start it without waiting."""
        self._status.unlink(missing_ok=True)
        self.process.start()
        return self

    def start(self) -> "AuditService":
        self.launch()
        eventually(self.is_ready, what="audit service ready")
        return self

    def is_ready(self) -> bool:
        if not self.process.is_running():
            raise RuntimeError(f"the audit service ended:\n{self.process.output()[-4000:]}")
        status = read_status(self._status)
        return status is not None and status["state"] == "ready"

    def get(self, path: str, **query: object) -> Any:
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(query)}", timeout=30) as answer:
            return json.load(answer)

    def post(self, path: str, **query: object) -> Any:
        request = urllib.request.Request(f"{self.url}{path}?{urllib.parse.urlencode(query)}", method="POST")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def lose_store(self) -> None:
        """Delete the SQLite file of a service that was killed."""
        for one in self.folder.glob("books.sqlite*"):
            one.unlink()

    def windows(self, topic: str) -> dict[int, dict[str, Any]]:
        return {one["window_start_ms"]: one for one in self.get("/api/completeness", topic=topic)}
