"""Builds `.venv` from `requirements.lock` and shows the progress: `python3 -I platform/local/environment.py`, run by `make
install`.

Uses only the standard library, because nothing else is installed yet. After an interruption, run it again: it makes an
environment without a working pip anew, and keeps what is installed. pip's output is in `.venv/install.log`.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

CHECKOUT = Path(__file__).resolve().parents[2]
TELL_EVERY_S = 10
"""Between two lines, if the output is not a terminal; on a terminal the line is rewritten every second."""
PIP_ENDS_S = 20
LOG_TAIL_LINES = 15
_PINNED = re.compile(r"^[A-Za-z0-9][\w.-]*==", re.MULTILINE)
_SEEN = re.compile(r"^\s*(?:Collecting|Requirement already satisfied:) ")
_DOWNLOAD = re.compile(r"^\s*Downloading (\S+).*\(([\d.]+ [kMG]B)\)")
_INSTALLING = "Installing collected packages"


class InstallFailed(Exception):
    """A command failed; the message names it and has the end of its output."""


class Progress:
    """pip's progress, read from its output: the packages it has resolved, then those whose files are in place."""

    def __init__(self, package_count: int) -> None:
        self._package_count = package_count
        self._seen = 0
        self._doing = ""
        self.is_installing = False

    def line(self, text: str) -> None:
        """Read one line of pip's output."""
        if _SEEN.match(text):
            self._seen += 1
            self._doing = ""
        elif found := _DOWNLOAD.match(text):
            self._doing = f", downloading {found[1].rpartition('/')[2]} ({found[2]})"
        elif text.startswith(_INSTALLING):
            self.is_installing = True

    def words(self, installed: int) -> str:
        """Return the progress as text; `installed` is how many packages have their files in place."""
        whole = self._package_count
        if self.is_installing:
            return f"installing: {min(installed, whole)} of {whole} packages"
        return f"fetching: {min(self._seen, whole)} of {whole} packages{self._doing}"


class _Screen:
    """One line that is rewritten on a terminal; elsewhere a line at intervals."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._began = self._last_shown = time.monotonic()

    def show(self, words: str) -> None:
        now = time.monotonic()
        line = f"[{now - self._began:4.0f} s] {words}"
        if self._is_terminal:
            self._stream.write(f"\r\033[K{line[:100]}")
        elif now - self._last_shown >= TELL_EVERY_S:
            self._stream.write(f"{line}\n")
            self._last_shown = now
        self._stream.flush()

    def end(self, words: str) -> None:
        line = f"[{time.monotonic() - self._began:4.0f} s] {words}\n"
        self._stream.write(f"\r\033[K{line}" if self._is_terminal else line)
        self._stream.flush()


def build(venv: Path, lock: Path, project: Path) -> None:
    """Return when `venv` holds the packages of `lock` and, in editable form, the project. Raises InstallFailed."""
    screen = _Screen(sys.stderr)
    python = venv / "bin" / "python"
    if not _has_pip(python):
        if venv.is_symlink():
            raise InstallFailed(f"{venv} is a link to an environment of another Python or without pip: remove the link")
        screen.show(f"making {venv}")
        _run([sys.executable, "-m", "venv", "--clear", str(venv)], venv.parent, screen)
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
    progress = Progress(len(_PINNED.findall(lock.read_text())))
    _run([*pip, "--require-hashes", "-r", str(lock)], venv, screen, progress)
    screen.show("installing headrace itself, in place")
    in_place = [*pip, "--no-deps", "--no-build-isolation"]
    _run([*in_place, "--editable", str(project)], venv, screen)
    lacking = lacking_for_native()
    if lacking is None:
        screen.show("compiling the SDK's hot paths")
        _run([*in_place, str(project / "native")], venv, screen)
    else:
        screen.end(f"headrace_native is left out, the SDK's hot paths run in Python: {lacking}")
    (venv / ".installed").touch()
    screen.end(f"{venv} is ready")


def lacking_for_native(include: str | None = None) -> str | None:
    """Return what the compilation of `native/` lacks, with the remedy; None if nothing. `include`: the folder of the headers."""
    if shutil.which(os.environ.get("CC", "cc")) is None:
        return "there is no C compiler (sudo apt install gcc libc6-dev)"
    headers = Path(include or sysconfig.get_path("include"))
    if not (headers / "Python.h").exists():
        return f"{headers} has no Python.h (sudo apt install python3-dev)"
    return None


def _has_pip(python: Path) -> bool:
    """Return whether the environment can be reused: of this Python, with a pip that runs."""
    try:
        said = subprocess.run(
            [str(python), "-c", "import pip, sys; print(sys.version_info[:2])"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return said.returncode == 0 and said.stdout.strip() == str(sys.version_info[:2])


def _run(command: Sequence[str], venv: Path, screen: _Screen, progress: Progress | None = None) -> None:
    """Run a command to its end; write its output to the log and, as pip's progress, to the screen. An interruption ends the
    command first.
    """
    lines: list[str] = []
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)
    reader = threading.Thread(target=_read, args=(child, lines, progress), daemon=True)
    reader.start()
    try:
        while child.poll() is None:
            if progress is not None:
                screen.show(progress.words(_installed(venv) if progress.is_installing else 0))
            try:
                child.wait(timeout=1)
            except subprocess.TimeoutExpired:
                continue
        reader.join()
    finally:
        if child.poll() is None:
            _end(child)
        if venv.joinpath("bin").is_dir():
            with (venv / "install.log").open("a") as log:
                log.writelines(lines)
    if child.returncode != 0:
        tail = "".join(f"  | {line}" for line in lines[-LOG_TAIL_LINES:])
        raise InstallFailed(f"{' '.join(command[:4])} … ended with {child.returncode}:\n{tail}")


def _read(child: "subprocess.Popen[str]", lines: list[str], progress: Progress | None) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        lines.append(line)
        if progress is not None:
            progress.line(line)


def _installed(venv: Path) -> int:
    return sum(1 for _ in venv.glob("lib/python3*/site-packages/*.dist-info"))


def _end(child: "subprocess.Popen[str]") -> None:
    child.terminate()
    try:
        child.wait(timeout=PIP_ENDS_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Build this checkout's `.venv`. Return 0 if it is ready, 1 with a reason if it is not, 130 if it was interrupted."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    os.chdir(CHECKOUT)
    venv = Path(".venv")
    sys.stderr.write(f"setting up {venv}: pinned, hashed packages (once, one to three minutes, 1.6 GB)\n")
    try:
        build(venv, Path("requirements.lock"), CHECKOUT)
    except InstallFailed as error:
        sys.stderr.write(
            f"\nheadrace: {error}\nAll of it: {venv / 'install.log'}. The same command goes on where this one ended.\n"
        )
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nheadrace: interrupted, nothing is left running; the same command goes on where this one ended\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
