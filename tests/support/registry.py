"""A real registry process for tests, on a free loopback port, kept over kills and restarts."""

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from headrace.runtime.layout import SCHEMAS_TOPIC
from tests.support.processes import Process, eventually, free_port

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class RegistryProcess:
    """`headrace registry run`; `start` returns when it is ready."""

    def __init__(self, folder: Path, bootstrap: str, topic: str = SCHEMAS_TOPIC, *words: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.topic = topic
        self.status = folder / "registry.json"
        command = [
            sys.executable,
            "-m",
            "headrace.cli.main",
            "registry",
            "run",
            "--port",
            str(self.port),
            "--topic",
            topic,
            *words,
        ]
        self.process = Process([*command, "--bootstrap", bootstrap, "--status-file", str(self.status)], folder / "registry.log")

    def launch(self) -> "RegistryProcess":
        self.process.start()
        return self

    def start(self) -> "RegistryProcess":
        self.launch()
        eventually(self.is_ready, what=f"registry ready; {self.process.output()[-2000:]}")
        return self

    def is_ready(self) -> bool:
        if not self.process.is_running():
            raise RuntimeError(f"the registry ended:\n{self.process.output()[-4000:]}")
        return self.ask("GET", "/readyz")[0] == 200

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return status and JSON."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": MEDIA_TYPE}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def __enter__(self) -> "RegistryProcess":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.process.kill()

    def register(self, subject: str, schema: Any, **more: Any) -> tuple[int, Any]:
        return self.ask("POST", f"/subjects/{subject}/versions", {"schema": json.dumps(schema), **more})
