"""Runs a compose file without a container engine: images are built by buildah, and each service runs in its image's root, as the
image's user, in a network namespace of its own, with the file's command, variables, configurations, secrets and volumes. What
secures them is made by the command in the file's first lines.

What an engine does besides is not here: limits, restarts, capabilities of processes that are no root's anyway.
"""

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from headrace.cli.main import main
from tests.support.processes import Process
from tests.support.written_command import init_words

ROOT = Path(__file__).parents[2]
CONTAINERS = ROOT / "deploy" / "containers"
DEBIAN = "docker.io/library/debian:bookworm-slim"
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
SUBNETS = {"live": "10.217.1", "offline": "10.217.2"}


def run(*words: str | Path, timeout_s: int = 600) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


class Images:
    """Built images and their mounted roots. `folder` keeps them for the next run."""

    def __init__(self, folder: Path) -> None:
        # Of a layer vfs keeps a whole copy: minutes and gigabytes an image.
        driver = "overlay" if "\toverlay\n" in Path("/proc/filesystems").read_text() else "vfs"
        self._buildah = ["buildah", "--storage-driver", driver, "--root", str(folder / driver), "--runroot", str(folder / "run")]
        self._folder = folder
        self._mounted: dict[str, tuple[str, Path]] = {}

    def build(self, target: str) -> None:
        """Build one target, on a Debian that mmdebstrap makes where no registry of images is reached."""
        if not run(*self._buildah, "images", "--quiet", "--filter", f"reference={DEBIAN}").strip():
            base = self._folder / "base.tar"
            if not base.exists():
                run("mmdebstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", base, timeout_s=1_800)
            made = run(*self._buildah, "from", "scratch").strip()
            run(*self._buildah, "add", made, base, "/")
            # Whom this machine trusts, the builds trust: a registry of packages may stand behind a certificate of its own.
            run(*self._buildah, "add", made, AUTHORITIES, AUTHORITIES)
            run(*self._buildah, "config", "--env", f"PIP_CERT={AUTHORITIES}", made)
            run(*self._buildah, "config", "--env", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", made)
            run(*self._buildah, "commit", "--rm", made, DEBIAN)
        words = ["bud", "--layers", "--isolation", "chroot", "--pull-never", "--file", str(CONTAINERS / "Dockerfile")]
        run(*self._buildah, *words, "--target", target, "--tag", f"headrace-{target}", str(ROOT), timeout_s=3_600)

    def config(self, image: str) -> dict[str, Any]:
        words: dict[str, Any] = json.loads(run(*self._buildah, "inspect", "--type", "image", image))
        config: dict[str, Any] = words["Docker"]["config"]
        return config

    def root(self, image: str) -> Path:
        if image not in self._mounted:
            name = run(*self._buildah, "from", "--pull-never", image).strip()
            root = Path(run(*self._buildah, "mount", name).strip())
            for place in ("etc/hosts", "etc/headrace", "run", "tmp", "proc", "dev"):
                if place == "etc/hosts":
                    (root / place).touch()
                else:
                    (root / place).mkdir(parents=True, exist_ok=True)
            self._mounted[image] = name, root
        return self._mounted[image][1]

    def close(self) -> None:
        for name, _ in self._mounted.values():
            run(*self._buildah, "rm", name)


class Room:
    """The services of the compose file. Its networks are bridges in a namespace of their own, in which clients run, too."""

    def __init__(self, folder: Path, images: Images) -> None:
        self.folder = folder
        self.images = images
        self.services: dict[str, dict[str, Any]] = yaml.safe_load((CONTAINERS / "compose.yaml").read_text())["services"]
        self._words = yaml.safe_load((CONTAINERS / "compose.yaml").read_text())
        self.processes: dict[str, Process] = {}
        self._prefix = f"hr{os.getpid() % 10_000}"
        self.token = folder / "token"
        self.token.write_text("0123456789abcdef0123456789abcdef\n")
        self.security = folder / "security"
        assert main(init_words(CONTAINERS / "compose.yaml", self.security)) == 0
        run("chown", "--recursive", "10001:10001", self.security)
        self.hosts = folder / "hosts"
        lines = ["127.0.0.1 localhost"]
        lines += [f"{self._address(name, service['networks'][0])} {name}" for name, service in self.services.items()]
        self.hosts.write_text("\n".join(lines) + "\n")

    @property
    def hub(self) -> str:
        return f"{self._prefix}-hub"

    def _address(self, name: str, network: str) -> str:
        return f"{SUBNETS[network]}.{10 + list(self.services).index(name)}"

    def lay_networks(self) -> None:
        run("ip", "netns", "add", self.hub)
        run("ip", "-n", self.hub, "link", "set", "lo", "up")
        for network, subnet in SUBNETS.items():
            run("ip", "-n", self.hub, "link", "add", network, "type", "bridge")
            run("ip", "-n", self.hub, "addr", "add", f"{subnet}.1/24", "dev", network)
            run("ip", "-n", self.hub, "link", "set", network, "up")
        for number, (name, service) in enumerate(self.services.items()):
            space = self._space(name)
            run("ip", "netns", "add", space)
            run("ip", "-n", space, "link", "set", "lo", "up")
            for network in service["networks"]:
                inner, outer = f"e{network}", f"v{number}{network}"
                run("ip", "-n", self.hub, "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", space)
                run("ip", "-n", self.hub, "link", "set", outer, "master", network, "up")
                run("ip", "-n", space, "addr", "add", f"{self._address(name, network)}/24", "dev", inner)
                run("ip", "-n", space, "link", "set", inner, "up")

    def _space(self, name: str) -> str:
        return f"{self._prefix}-{name}"

    def start(self, name: str) -> None:
        """Start one service as its image and the file say."""
        service = self.services[name]
        config = self.images.config(service["image"])
        command = [*(service.get("entrypoint") or config["Entrypoint"]), *(service.get("command") or config.get("Cmd") or [])]
        variables = [*config["Env"], *(f"{key}={value}" for key, value in (service.get("environment") or {}).items())]
        process = Process(self._inside(name, command, variables), self.folder / f"{name}.log")
        process.start()
        self.processes[name] = process

    def _inside(self, name: str, command: Sequence[str], variables: Sequence[str]) -> list[str]:
        service = self.services[name]
        config = self.images.config(service["image"])
        root, data = self.images.root(service["image"]), self.folder / "volumes" / name
        if not data.exists():
            # As an engine does with a new volume: what the image has there, with its owner.
            data.parent.mkdir(exist_ok=True)
            run("cp", "--archive", root / "var/lib/headrace", data)
        assert service["read_only"] is True
        steps = [
            f"mount --bind {root} {root}",
            f"mount -o remount,ro,bind {root}",
            f"mount --bind {data} {root}/var/lib/headrace",
        ]
        steps += [f"mount -t tmpfs tmpfs {root}/tmp", f"mount -t tmpfs tmpfs {root}/run", f"mkdir {root}/run/secrets"]
        steps += [f"chmod 1777 {root}/tmp", f"cp {self.token} {root}/run/secrets/token", f"chmod 444 {root}/run/secrets/token"]
        for given in service.get("configs", ()):
            file = CONTAINERS / self._words["configs"][given["source"]]["file"]
            steps += [f"mount -t tmpfs tmpfs {root}/etc/headrace", f"cp {file} {root}{given['target']}"]
        for outside, inside, mode in (one.split(":") for one in service.get("volumes", ()) if one.startswith("./")):
            assert mode == "ro"
            there, make = self.folder / outside, "mkdir -p" if (self.folder / outside).is_dir() else "touch"
            steps += [f"mkdir -p {root}{Path(inside).parent}", f"{make} {root}{inside}"]
            steps += [f"mount --bind {there} {root}{inside}", f"mount -o remount,ro,bind {root}{inside}"]
        steps += [
            f"mount --bind /dev {root}/dev",
            f"mount --bind /proc {root}/proc",
            f"mount --bind {self.hosts} {root}/etc/hosts",
        ]
        steps += ["ulimit -S -n 4096"]  # a program may raise its own, as it may where an engine starts it
        inside = ["chroot", f"--userspec={config['User']}", str(root), "env", "-i", *variables]
        inside += ["sh", "-c", f"cd {config.get('WorkingDir') or '/'} && exec {shlex.join(command)}"]
        script = " && ".join([*steps, f"exec {shlex.join(inside)}"])
        return ["ip", "netns", "exec", self._space(name), "unshare", "--mount", "--uts", "sh", "-c", script]

    def is_healthy(self, name: str) -> bool:
        """Run the service's health check inside; the process must still run."""
        assert self.processes[name].is_running(), self.processes[name].output()[-3000:]
        config = self.images.config(self.services[name]["image"])
        kind, *check = self.services[name]["healthcheck"]["test"]
        assert kind == "CMD"
        done = subprocess.run(self._inside(name, check, config["Env"]), capture_output=True, text=True, timeout=60, check=False)
        return done.returncode == 0

    def client(self, *command: str, variables: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        """Run a command of this machine where the services' names are known, and every role's files are in their place."""
        files = f"mount -t tmpfs tmpfs /run && mkdir /run/security && mount --bind {self.security} /run/security"
        script = f"mount --bind {self.hosts} /etc/hosts && {files} && exec {shlex.join(command)}"
        words = ["ip", "netns", "exec", self.hub, "unshare", "--mount", "sh", "-c", script]
        return subprocess.run(
            words, capture_output=True, text=True, timeout=300, check=False, env={**os.environ, **(variables or {})}
        )

    def stop(self, name: str) -> int:
        os.kill(self.processes[name].pid, signal.SIGTERM)
        return self.processes[name].wait(120_000)

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
        for space in (self.hub, *map(self._space, self.services)):
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)
