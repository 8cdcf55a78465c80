"""What some tests need of the machine that an ordinary user may lack. A test names its need: `@pytest.mark.needs("small disk")`.
`tests/conftest.py` leaves it out, with the reason, where the need is not met. `sudo make test-root` runs those that root can run.
"""

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from bench.harness import far_link
from tests.support import kafka, rest_catalog, versitygw
from tests.support.postgresql import installed

_TRY_S = 30
_MOUNT_ONE = 'mount -t tmpfs -o size=1m tmpfs "$0"'
_MAKE_EXT4 = "mkfs.ext4"


@cache
def lacking_small_disk() -> str | None:
    """Return why nobody may mount a tmpfs here, None where root or a user namespace may."""
    own = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--mount"]
    with tempfile.TemporaryDirectory(prefix="headrace-mount-") as folder:
        refused = _refused(["unshare", *own, "sh", "-c", _MOUNT_ONE, folder])
    return None if refused is None else f"wants a small disk of its own, and mounting one is refused ({refused})"


@cache
def lacking_mounted_disk() -> str | None:
    """Return why no tmpfs can be mounted for every process, None where it can. Other users' small disks are below
    `/proc/<pid>/root`, where Java creates no folder.
    """
    return "wants root, to mount a small disk that ZooKeeper can use" if os.geteuid() != 0 else lacking_small_disk()


@cache
def lacking_block_disk() -> str | None:
    """Return why no recorded block device can be mounted here, None where it can."""
    if os.geteuid() != 0:
        return "wants root, to cut the power of a block device"
    closed = [path for path in ("/dev/fuse", "/dev/loop-control") if not os.access(path, os.W_OK)]
    if closed:
        return f"wants {' and '.join(closed)}"
    if shutil.which(_MAKE_EXT4) is None:
        return f"wants {_MAKE_EXT4} (Debian: e2fsprogs)"
    refused = _refused(["unshare", "--mount", "true"])
    return None if refused is None else f"wants mounts of its own, which are refused ({refused})"


@cache
def lacking_chromium() -> str | None:
    """Return that there is no browser to look at pages with, None where there is one."""
    return None if shutil.which("chromium") else "wants chromium (Debian: chromium)"


@cache
def lacking_logrotate() -> str | None:
    """Return that files cannot be rotated as Debian does it, None where they can."""
    return None if shutil.which("logrotate") else "wants logrotate (Debian: logrotate)"


@cache
def lacking_promtool() -> str | None:
    """Return that there is no program that checks Prometheus' rules, None where there is one."""
    return None if shutil.which("promtool") else "wants promtool (Debian: prometheus)"


@cache
def lacking_containers() -> str | None:
    """Return what this machine lacks to build images and to run what is in them; None if nothing."""
    if os.geteuid() != 0:
        return "wants root, to build images and to give processes roots and networks of their own"
    lacking = [
        program for program in ("buildah", "mmdebstrap", "ip", "unshare", "setpriv", "curl") if shutil.which(program) is None
    ]
    if lacking:
        return f"wants {', '.join(lacking)} (Debian: buildah, mmdebstrap, iproute2, util-linux, curl)"
    refused = _refused(["unshare", "--mount", "--net", "true"])
    return None if refused is None else f"wants networks and mounts of its own, which are refused ({refused})"


@cache
def lacking_curl() -> str | None:
    """Return that there is no curl, None where there is one."""
    return None if shutil.which("curl") else "wants curl (Debian: curl)"


@cache
def lacking_logger() -> str | None:
    """Return that there is no `logger`, None where there is one."""
    return None if shutil.which("logger") else "wants logger (Debian: bsdutils)"


@cache
def lacking_openssl() -> str | None:
    """Return that OpenSSL's own client is not there, None where it is."""
    return None if shutil.which("openssl") else "wants the command openssl (Debian: openssl)"


@cache
def lacking_systemd_analyze() -> str | None:
    """Return that there is no program that checks units, None where there is one."""
    return None if shutil.which("systemd-analyze") else "wants systemd-analyze (Debian: systemd)"


@cache
def lacking_haproxy() -> str | None:
    """Return that there is no HAProxy, None where there is one."""
    return None if shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin") else "wants haproxy (Debian: haproxy)"


@cache
def lacking_postgresql() -> str | None:
    """Return why no PostgreSQL server can be started here, None where it can."""
    return None if installed() else "wants a PostgreSQL server (Debian: postgresql)"


@cache
def lacking_native() -> str | None:
    """Return that the hot paths in C are not built, or switched off, None where they are in use."""
    if os.environ.get("HEADRACE_NATIVE") == "0":
        return "HEADRACE_NATIVE=0 switches headrace_native off"
    if importlib.util.find_spec("headrace_native") is not None:
        return None
    return "wants headrace_native (a C compiler and Python's headers, then `pip install --no-build-isolation ./native`)"


@cache
def lacking_kafka() -> str | None:
    """Return what is missing to run Apache Kafka, None where it can."""
    return kafka.lacking()


@cache
def lacking_far_line() -> str | None:
    """Return why no late and lossy line can be laid here, None where it can."""
    missing = far_link.why_not("cubic")
    return None if missing is None else f"wants a line of its own: {missing}"


@cache
def lacking_s3() -> str | None:
    """Return why no S3-compatible server can be started here, None where it can, or where it can be built."""
    return versitygw.lacking()


@cache
def lacking_rest_catalog() -> str | None:
    """Return what is missing to run Apache Iceberg's REST catalog, None where it can."""
    return rest_catalog.lacking()


@cache
def lacking_git_history() -> str | None:
    """Return why no older version of this tree can be had, None where it can."""
    if shutil.which("git") is None:
        return "wants git"
    tree = Path(__file__).resolve().parents[2]
    done = subprocess.run(["git", "-C", str(tree), "rev-parse", "--show-toplevel"], capture_output=True, text=True, check=False)
    return None if done.stdout.strip() == str(tree) else f"wants {tree} to be a clone with a git history"


NEEDS: Mapping[str, Callable[[], str | None]] = {
    "small disk": lacking_small_disk,
    "mounted disk": lacking_mounted_disk,
    "block disk": lacking_block_disk,
    "chromium": lacking_chromium,
    "postgresql": lacking_postgresql,
    "logrotate": lacking_logrotate,
    "promtool": lacking_promtool,
    "containers": lacking_containers,
    "curl": lacking_curl,
    "logger": lacking_logger,
    "openssl": lacking_openssl,
    "systemd-analyze": lacking_systemd_analyze,
    "haproxy": lacking_haproxy,
    "native": lacking_native,
    "kafka": lacking_kafka,
    "far line": lacking_far_line,
    "s3": lacking_s3,
    "rest catalog": lacking_rest_catalog,
    "git history": lacking_git_history,
}
"""By name: returns what is lacking, None when nothing is."""
OF_ROOT = ("small disk", "mounted disk", "block disk")
"""What root has, or may make."""


def _refused(command: list[str]) -> str | None:
    """Return what the command complains of, None when it succeeds."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TRY_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines()
    return said[0] if said else f"exit code {done.returncode}"
