"""Versions of this project to upgrade from and to: this tree, and an older commit whose code is taken from the git history."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

TREE = Path(__file__).resolve().parents[3]
FROM = "HEADRACE_UPGRADE_FROM"
"""The variable that names a commit or tag to upgrade from; empty: the oldest one with this tree's formats."""
FORMATS = (
    "platform/broker/log/log_format.py",
    "platform/broker/log/segment/sidecar.py",
    "platform/audit/service/store/tables.py",
    "platform/audit/service/checkpoints/form.py",
    "platform/audit/model/codec/writing.py",
    "platform/wire/mirror_ledger.py",
)
"""Files with the number of a format that one version writes and the next one reads."""
NUMBER = "^_?(LOG_FORMAT|LAYOUT|FORMAT|VERSION) = "
_SAYS_WHAT_IT_IS = """
import headrace
try:
    from headrace.runtime import native
except ImportError:
    native = None
print(headrace.__file__, getattr(native, "SHAPE", "?"), "C" if getattr(native, "native", None) else "Python")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """Code to run processes with. `environment`: variables under which `python -m headrace…` is this version."""

    name: str
    tree: Path
    environment: dict[str, str]

    def says(self) -> str:
        """Return which code runs, of which shape of `headrace_native`, and whether its hot paths run in C or in Python. Fails
        where it is another tree's code.
        """
        command = [sys.executable, "-c", _SAYS_WHAT_IT_IS]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **self.environment})
        place, shape, hot_paths = done.stdout.split()
        assert Path(place).is_relative_to(self.tree), f"{self.name} runs the code of {place}"
        return f"{self.name}, headrace_native of shape {shape}: hot paths in {hot_paths}"


def this_tree() -> Version:
    return Version(name="this tree", tree=TREE, environment={"PYTHONPATH": str(TREE / "src")})


def older(folder: Path, wanted: str) -> Version:
    """Return the commit or tag `wanted` (empty: the oldest whose formats are this tree's), its files below `folder`."""
    commit = _git("rev-parse", "--verify", f"{wanted or _oldest_of_same_formats()}^{{commit}}")
    folder.mkdir(parents=True)
    with subprocess.Popen(["git", "-C", str(TREE), "archive", commit], stdout=subprocess.PIPE) as archive:
        subprocess.run(["tar", "-x", "-C", str(folder)], stdin=archive.stdout, check=True)
    assert archive.returncode == 0
    name = _git("log", "-1", "--format=%h of %cs", commit)
    return Version(name=name, tree=folder, environment={"PYTHONPATH": str(folder / "src")})


def before_replication() -> str:
    """Return the last commit of the main line whose brokers keep one replica of each partition."""
    where = "platform/broker/settings/broker_settings.py"
    found = _git("log", "--first-parent", "-m", "-Sdefault_replication_factor", "--format=%H", "--", where).split()
    assert found, f"no commit of the history brought replication: set {FROM}"
    return f"{found[-1]}^"


def _oldest_of_same_formats() -> str:
    """Return the newest commit of the main line in which a number of a format changed: the oldest that has today's."""
    found = _git("log", "--first-parent", "-m", "-1", "--format=%H", "-E", f"-G{NUMBER}", "--", *FORMATS)
    assert found not in ("", _git("rev-parse", "HEAD")), f"no older commit has the formats of this tree: set {FROM}"
    return found


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(TREE), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"an older version comes from the git history of {TREE}: {done.stderr.strip()}"
    return done.stdout.strip()
