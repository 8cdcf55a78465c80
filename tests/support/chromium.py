"""A real Chromium, driven over the DevTools protocol through a pipe: its keys and its screen are those of a person.

The protocol: one JSON object a message, each ended by a zero byte; Chromium reads descriptor 3 and writes descriptor 4.
"""

import base64
import fcntl
import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ANSWER_S = 60
ABOVE = 10
"""Descriptors from here on are in nobody's way when 3 and 4 are given out."""
KEYS = {
    "Tab": ("Tab", 9, ""),
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
}


class Chromium:
    """One browser with one page; a context manager."""

    def __init__(self, profile: Path, log: Path, *, names: Sequence[str] = ()) -> None:
        """`names` that the browser finds on this machine, as if their DNS said so."""
        self._names = names
        self._profile = profile
        self._log = log
        self._number = 0
        self._pending = b""
        self._session: str | None = None
        self.errors: list[str] = []
        """What the page's scripts have complained of."""

    def __enter__(self) -> "Chromium":
        to_read, self._write = _pipe()
        self._read, to_write = _pipe()

        def hand_over() -> None:
            os.dup2(to_read, 3)
            os.dup2(to_write, 4)

        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self._profile}"]
        if self._names:
            command.append("--host-resolver-rules=" + ", ".join(f"MAP {name} 127.0.0.1" for name in self._names))
        command += ["--no-first-run", "--disable-dev-shm-usage", "--remote-debugging-pipe", "about:blank"]
        with self._log.open("ab") as log:
            self._child = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=hand_over, pass_fds=(3, 4))
        os.close(to_read)
        os.close(to_write)
        (page,) = (one for one in self._call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._write)
        os.close(self._read)
        try:
            self._child.wait(20)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(20)

    def screen(self, width: int, height: int, *, phone: bool = False) -> None:
        """Make the page this large, in CSS pixels."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def scheme(self, scheme: str) -> None:
        """Prefer `light` or `dark` pages."""
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def zone(self, name: str) -> None:
        """Let the browser be in this zone of time."""
        self._call("Emulation.setTimezoneOverride", timezoneId=name)

    def ignore_policies(self) -> None:
        """Load the pages that follow as if they had no content security policy: as an attacker's own page has none."""
        self._call("Page.setBypassCSP", enabled=True)

    def open(self, url: str) -> None:
        """Load the page; return once it is loaded."""
        self._call("Page.navigate", url=url)
        self.await_true(f"document.readyState === 'complete' && location.href === {json.dumps(url)}")

    def picture(self) -> bytes:
        """Return what is on the screen, as PNG."""
        return base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression; a promise is awaited."""
        found = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def await_true(self, script: str) -> None:
        deadline = time.monotonic() + ANSWER_S
        while not self.run(script):
            assert time.monotonic() < deadline, f"{script} did not become true"
            time.sleep(0.02)

    def press(self, *keys: str, shift: bool = False) -> None:
        """Press and release each key: one of `KEYS`, or a character."""
        for key in keys:
            name, code, text = KEYS.get(key, (key, ord(key[0].upper()), key))
            words = {"key": name, "code": name, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
            self._call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **words)
            self._call("Input.dispatchKeyEvent", type="keyUp", **words)

    def _call(self, method: str, **words: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": words}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result
            if answer.get("method") == "Runtime.exceptionThrown" or (
                answer.get("method") == "Log.entryAdded" and answer["params"]["entry"]["level"] == "error"
            ):
                self.errors.append(json.dumps(answer["params"]))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            piece = os.read(self._read, 1 << 20)
            assert piece, f"chromium ended: {self._log.read_text(errors='replace')[-2000:]}"
            self._pending += piece
        words, _, self._pending = self._pending.partition(b"\0")
        found: dict[str, Any] = json.loads(words)
        return found


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    above = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, ABOVE) for end in ends]
    for end in ends:
        os.close(end)
    return above[0], above[1]
