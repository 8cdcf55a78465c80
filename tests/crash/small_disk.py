"""A tmpfs of a few MiB for a test. Root mounts it for all processes. Another user mounts it in its own user namespace, where
an idle process keeps it, and `/proc` shows it. Tests that use it are marked `needs("small disk")`: if neither is allowed, they
are skipped with the reason.
"""

import os
import subprocess
from pathlib import Path

import pytest

MIB = 1 << 20
_KEEPER = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", "echo there && exec sleep infinity"]


class SmallDisk:
    """Mounted at `folder`; a ballast file takes part of it and can be removed."""

    def __init__(self, folder: Path, *, mib: int, ballast_mib: int = 1) -> None:
        self._mounted_at = folder
        self._keeper: subprocess.Popen[str] | None = None
        self._enter: list[str] = []
        folder.mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(folder)]
        refused = self._try(mount)
        self.folder = folder
        """The path of the disk: every process of this user may use it, a broker too."""
        if refused:
            refused_again = self._enter_a_namespace() or self._try(mount)
            if refused_again:
                self.end()
                pytest.fail(_what_is_lacking(refused, refused_again), pytrace=False)
            assert self._keeper is not None
            self.folder = Path(f"/proc/{self._keeper.pid}/root{folder}")
        self._ballast = self.folder / "ballast"
        self._ballast.write_bytes(bytes(ballast_mib * MIB))

    def throw_ballast_out(self) -> None:
        self._ballast.unlink()

    def forbid_writing(self) -> None:
        self._remount("ro")

    def allow_writing(self) -> None:
        self._remount("rw")

    def end(self) -> None:
        if self._keeper is None:
            self._try(["umount", "-l", str(self._mounted_at)])
        else:
            self._keeper.kill()  # its mounts end with the last process of the namespace
            self._keeper.wait()

    def _remount(self, mode: str) -> None:
        # With type and device given, `mount` adds no options from /proc/mounts: an ordinary user's `uid=` there would be refused.
        self._run("mount", "-t", "tmpfs", "-o", f"remount,{mode}", "tmpfs", str(self._mounted_at))

    def _enter_a_namespace(self) -> str:
        """Return why a namespace is impossible; empty if it was entered."""
        try:
            self._keeper = subprocess.Popen(_KEEPER, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        except OSError as error:
            return str(error)
        assert self._keeper.stdout is not None
        said = self._keeper.stdout.readline().strip()
        if said != "there":
            return said or "unshare ended without a word"
        self._enter = ["nsenter", "--target", str(self._keeper.pid), "--user", "--mount", "--preserve-credentials"]
        return ""

    def _run(self, *command: str) -> None:
        refused = self._try(list(command))
        assert not refused, f"{' '.join(command)}: {refused}"

    def _try(self, command: list[str]) -> str:
        """Return the command's error output; empty if it succeeds."""
        try:
            done = subprocess.run([*self._enter, *command], capture_output=True, text=True, timeout=30)
        except OSError as error:
            return str(error)
        return "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"


def _what_is_lacking(refused: str, refused_again: str) -> str:
    return (
        "This test needs a small disk of its own, and this machine lets nobody mount one.\n"
        f"  as user {os.getuid()}: {refused}\n"
        f"  in a user namespace: {refused_again}\n"
        "Run it as root; in a container with --cap-add SYS_ADMIN; or allow unprivileged user namespaces "
        "(sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)."
    )
