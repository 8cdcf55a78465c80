"""A real S3-compatible server for tests: Versity's gateway over a folder, built once by Go from the module proxy.

An object is a file of the same name in the folder, so that a test reads it without any S3.
"""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bench.harness.cache import cache_folder
from tests.support.processes import Process, accepts, eventually, free_port

VERSION = "v1.8.0"
PROGRAM = "github.com/versity/versitygw/cmd/versitygw"
BUILD_S = 900
KEY, SECRET = "headrace-test", "a-secret-that-nobody-shall-print"
REGION = "us-east-1"
_GO_INSTALLS_TO = "/usr/local/go/bin"


def lacking() -> str | None:
    """Return why the server cannot be had, None if it is built or Go may build it. Builds nothing."""
    if _program().exists() or _go() is not None:
        return None
    return "wants an S3-compatible server: versitygw is not built, and there is no Go to build it (Debian: golang-go)"


def built() -> Path:
    """Return the program; build it if it is not there. Skips the test, with the reason, where that is not possible."""
    program = _program()
    if program.exists():
        return program
    go = _go()
    assert go is not None, lacking()
    program.parent.mkdir(parents=True, exist_ok=True)
    with (program.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several may build at once
        if not program.exists():
            environment = {**os.environ, "GOBIN": str(program.parent), "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
            command = [go, "install", f"{PROGRAM}@{VERSION}"]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BUILD_S, check=False)
            if done.returncode:
                pytest.skip(f"wants an S3-compatible server, and Go cannot build versitygw: {done.stderr.strip()[-300:]}")
    return program


def _program() -> Path:
    return cache_folder() / f"versitygw-{VERSION}" / "versitygw"


def _go() -> str | None:
    return shutil.which("go") or shutil.which("go", path=_GO_INSTALLS_TO)


class S3Server:
    """The gateway on a free loopback port, kept over kills; buckets are folders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "buckets"
        self.folder.mkdir(parents=True)
        self.port = free_port()
        words = [str(built()), "--port", f"127.0.0.1:{self.port}", "--region", REGION]
        secrets = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        self.process = Process([*words, "posix", "--sidecar", str(folder / "meta"), str(self.folder)], folder / "log", secrets)
        (folder / "meta").mkdir()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        """Return AWS's variables for clients of this server."""
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def start(self) -> "S3Server":
        self.process.start()
        eventually(lambda: accepts(self.port), what=f"the S3 server on {self.endpoint}; {self.process.log}")
        return self

    def kill(self) -> None:
        self.process.kill()

    def new_bucket(self, name: str) -> str:
        (self.folder / name).mkdir()
        return name

    def file_of(self, uri: str) -> Path:
        """Return the file in which an object stands."""
        return self.folder / uri.removeprefix("s3://")
