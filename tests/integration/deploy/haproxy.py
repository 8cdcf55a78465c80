"""HAProxy with a file of `deploy/haproxy`."""

import os
import subprocess
from collections.abc import Iterator

from tests.integration.deploy.site import Site
from tests.support.processes import Process

HAPROXY = ["env", f"PATH={os.environ.get('PATH', '')}:/usr/sbin", "haproxy"]


def running(site: Site, name: str) -> Iterator[Process]:
    """Let HAProxy check the file, and yield it once it runs with it; for a fixture."""
    file = site.install(name)
    checked = subprocess.run([*HAPROXY, "-c", "-f", str(file)], capture_output=True, text=True, timeout=30, check=False)
    assert checked.returncode == 0, checked.stderr
    process = Process([*HAPROXY, "-f", str(file)], site.folder / "haproxy.log")
    process.start()
    yield process
    process.kill()
