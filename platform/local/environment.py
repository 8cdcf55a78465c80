"""Builds `.venv` from `requirements.lock` and shows the progress: `python3 -I platform/local/environment.py`, run by `make
install`. With `hot-paths` as its argument it only compiles `native/`, if that is missing and possible.

Uses only the standard library, because nothing else is installed yet. After an interruption, run it again: it makes an
environment without a working pip again, and keeps what is installed. pip's output is in `.venv/install.log`.
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

CHECKOUT = Path(__file__).resolve().parents[2]
TELL_EVERY_S = 10
"""Between two lines, if the output is not a terminal; on a terminal the line is rewritten every second."""
PIP_ENDS_S = 20
LOG_TAIL_LINES = 15
FIRST = ("pip", "setuptools")
"""Installed before all others, by the pip that came with Python: this pip installs the rest, and setuptools builds the few
packages that are published as source only. So nothing that runs here is without a hash.
"""
NATIVE_PACKAGES = "sudo apt install gcc libc6-dev python3-dev"
PURE_COSTS = "an event logged costs about twice the processor time, 10.5 µs in place of 5.4 (docs/BENCHMARKS.md)"
_HOT_PATHS_IN_C = "import sys\nfrom headrace.runtime.native import native\nsys.exit(0 if native is not None else 3)"
_PINNED = re.compile(r"^([A-Za-z0-9][\w.-]*)==(?:.*\\\n)*.*\n?", re.MULTILINE)
_SEEN = re.compile(r"^\s*(?:Collecting|Requirement already satisfied:) ([\w.-]+)")
_DOWNLOAD = re.compile(r"^\s*Downloading (\S+)")
_BYTES = re.compile(r"^Progress (\d+) of (\d+)$")
_PREPARING = re.compile(
    r"^\s*(?:Preparing metadata|Getting requirements to build wheel|Installing build dependencies).*: started"
)
_BUILDING = re.compile(r"^\s*Building wheel for (\S+) .*: started")
_BUILT = re.compile(r"^\s*(?:Created wheel for|Successfully built) ")
_INSTALLING = "Installing collected packages: "


class InstallFailed(Exception):
    """A command failed; the message names it and has the end of its output."""


class Progress:
    """pip's progress, read from its output: the packages that it has resolved, then those whose files are in place."""

    def __init__(self, package_count: int) -> None:
        self._package_count = package_count
        self._seen = 0
        self._name = ""
        self._file = ""
        self._doing = ""
        self.to_install: list[str] = []
        """The packages whose files pip puts in place, in its order; empty until it begins."""

    def line(self, text: str) -> None:
        """Read one line of pip's output."""
        if found := _SEEN.match(text):
            self._seen += 1
            self._name, self._doing = found[1], ""
        elif text.startswith("Ignoring "):
            self._package_count -= 1  # pinned for another Python or another system
        elif found := _DOWNLOAD.match(text):
            self._file = found[1].rpartition("/")[2]
            self._doing = f", downloading {self._file}"
        elif found := _BYTES.match(text):
            self._doing = f", downloading {self._file} ({_mega(int(found[1]))} of {_mega(int(found[2]))} MB)"
        elif _PREPARING.match(text):
            self._doing = f", unpacking the source of {self._name}"
        elif found := _BUILDING.match(text):
            self._doing = f", building {found[1]}"
        elif _BUILT.match(text):
            self._doing = ", unpacking what was built"
        elif text.startswith(_INSTALLING):
            self.to_install = text.removeprefix(_INSTALLING).strip().split(", ")

    def words(self, installed: int, written: int | None) -> str:
        """Return the progress as text. `installed`: how many of `to_install` have all their files in place. `written`: the
        bytes that pip has written to files since it began to download, or since it began to install; None if unknown.
        """
        bytes_too = "" if written is None else f", {_mega(written)} MB written"
        if not self.to_install:
            whole = self._package_count
            return f"fetching: {min(self._seen, whole)} of {whole} packages{self._doing}{bytes_too}"
        whole = len(self.to_install)
        now = f", now {self.to_install[installed]}" if installed < whole else ""
        return f"installing files: {min(installed, whole)} of {whole} packages{now}{bytes_too}"


class Screen:
    """One line that is rewritten on a terminal; elsewhere a line at intervals."""

    def __init__(self, stream: IO[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._is_terminal = stream.isatty()
        self._began = self._last_shown = clock()

    def show(self, words: str) -> None:
        now = self._clock()
        line = f"[{now - self._began:4.0f} s] {words}"
        if self._is_terminal:
            self._stream.write(f"\r\033[K{line[: shutil.get_terminal_size().columns - 1]}")
        elif now - self._last_shown >= TELL_EVERY_S:
            self._stream.write(f"{line}\n")
            self._last_shown = now
        self._stream.flush()

    def end(self, words: str) -> None:
        line = f"[{self._clock() - self._began:4.0f} s] {words}\n"
        self._stream.write(f"\r\033[K{line}" if self._is_terminal else line)
        self._stream.flush()


def build(venv: Path, lock: Path, project: Path) -> None:
    """Return when `venv` holds the packages of `lock` and, in editable form, the project. Raises InstallFailed."""
    screen = Screen(sys.stderr)
    python = venv / "bin" / "python"
    if not _has_pip(python):
        if venv.is_symlink():
            raise InstallFailed(f"{venv} is a link to an environment of another Python or without pip: remove the link")
        _run([sys.executable, "-m", "venv", "--clear", str(venv)], venv.parent, screen, f"making {venv}")
    pins = lock.read_text()
    first = venv / "first.lock"
    first.write_text(pinned(pins, FIRST))
    _run([*_pip(venv), "--require-hashes", "-r", str(first)], venv, screen, f"installing {' and '.join(FIRST)}")
    progress = Progress(len(_PINNED.findall(pins)))
    _run([*_pip(venv), "--progress-bar", "raw", "--require-hashes", "-r", str(lock)], venv, screen, progress)
    _run([*_pip(venv), "--no-deps", "--editable", str(project)], venv, screen, "installing headrace itself, in place")
    if lacking_for_native() is None:
        _compile(venv, project, screen)
    (venv / ".installed").touch()
    screen.end(f"{venv} is ready")


def pinned(lock: str, names: Sequence[str]) -> str:
    """Return the entries of these packages, hashes included, of the text of a lock file."""
    return "".join(entry[0] for entry in _PINNED.finditer(lock) if entry[1] in names)


def hot_paths(venv: Path, project: Path) -> str:
    """Return, in one line, whether the hot paths of `venv` run in C or in pure Python, and then what that costs and what to do.

    Compiles `native/` if it is not there, or is of another version, and a compiler is. Raises InstallFailed.
    """
    if not _in_c(venv) and os.environ.get("HEADRACE_NATIVE") != "0" and lacking_for_native() is None:
        _compile(venv, project, Screen(sys.stderr))
    return path_in_words(_in_c(venv), lacking_for_native(), is_off=os.environ.get("HEADRACE_NATIVE") == "0")


def path_in_words(is_in_c: bool, lacking: str | None, *, is_off: bool) -> str:
    """Return which path is active, in one line. `lacking`: what the compilation lacks."""
    if is_in_c:
        return "hot paths of SDK, agent, loads and readers: C (headrace_native)"
    pure = f"hot paths of SDK, agent, loads and readers: pure Python, {PURE_COSTS}"
    if is_off:
        return f"{pure}. HEADRACE_NATIVE=0 switches C off: unset it"
    return f"{pure}. For C: {lacking or 'see .venv/install.log'}, then make install"


def _in_c(venv: Path) -> bool:
    return subprocess.run([str(venv / "bin" / "python"), "-c", _HOT_PATHS_IN_C], capture_output=True, timeout=60).returncode == 0


def _compile(venv: Path, project: Path, screen: "Screen") -> None:
    words = [*_pip(venv), "--no-deps", "--force-reinstall", str(project / "native")]
    _run(words, venv, screen, "compiling the hot paths (headrace_native)")


def _pip(venv: Path) -> list[str]:
    return [str(venv / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-build-isolation"]


def lacking_for_native(include: str | None = None) -> str | None:
    """Return what the compilation of `native/` lacks, with the remedy; None if nothing. `include`: the folder of the headers."""
    if shutil.which(os.environ.get("CC", "cc")) is None:
        return f"{NATIVE_PACKAGES} (there is no C compiler)"
    headers = Path(include or sysconfig.get_path("include"))
    if not (headers / "Python.h").exists():
        return f"{NATIVE_PACKAGES} ({headers} has no Python.h)"
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


def _run(command: Sequence[str], venv: Path, screen: Screen, step: "Progress | str") -> None:
    """Run a command to its end; write its output to the log and, each second, what it does to the screen: `step`'s words, or
    `step` itself. An interruption ends the command first.
    """
    lines: list[str] = []
    progress = step if isinstance(step, Progress) else None
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)
    reader = threading.Thread(target=_read, args=(child, lines, progress), daemon=True)
    reader.start()
    began_s = time.time()
    written_before: int | None = None
    try:
        while child.poll() is None:
            written = written_by(child.pid)
            if progress is None:
                screen.show(str(step))
            elif not progress.to_install:
                screen.show(progress.words(0, written))
            else:
                written_before = written if written_before is None else written_before
                files = None if written is None or written_before is None else max(0, written - written_before)
                screen.show(progress.words(_installed(venv, began_s), files))
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
        if not _BYTES.match(line):
            lines.append(line)
        if progress is not None:
            progress.line(line)


def written_by(pid: int) -> int | None:
    """Return the bytes that a process and its descendants have written so far; None where the kernel does not say.

    What a descendant wrote is its parent's once it has ended, so the figure grows only.
    """
    try:
        said = Path(f"/proc/{pid}/io").read_text()
        children = [word for task in Path(f"/proc/{pid}/task").iterdir() for word in (task / "children").read_text().split()]
    except OSError:
        return None
    own = int(said.partition("wchar: ")[2].partition("\n")[0])
    return own + sum(written_by(int(child)) or 0 for child in children)


def _installed(venv: Path, since: float) -> int:
    """How many packages have had all their files put in place since then: INSTALLER is among the last."""
    marks = venv.glob("lib/python3*/site-packages/*.dist-info/INSTALLER")
    return sum(1 for mark in marks if _changed(mark) >= since)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _mega(count: int) -> str:
    return f"{count / 1e6:,.0f}"


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
    """Build this checkout's `.venv`, or only compile its hot paths; say which of them run. Return 0 if it is ready, 1 with a
    reason if it is not, 130 if it was interrupted.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    os.chdir(CHECKOUT)
    venv = Path(".venv")
    try:
        if sys.argv[1:] != ["hot-paths"]:
            sys.stderr.write(f"setting up {venv}: pinned, hashed packages (once, one to three minutes, 1.6 GB)\n")
            build(venv, Path("requirements.lock"), CHECKOUT)
        sys.stderr.write(f"{hot_paths(venv, CHECKOUT)}\n")
    except InstallFailed as error:
        sys.stderr.write(
            f"\nheadrace: {error}\nAll of it: {venv / 'install.log'}. The same command continues where this one ended.\n"
        )
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nheadrace: interrupted, nothing is left running; the same command continues where this one ended\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
