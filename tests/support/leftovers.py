"""Which processes of one platform still run, found anywhere in the process tree by the home in their environment."""

from pathlib import Path

from headrace.local.supervisor.descendants import parents


def processes_of(home: Path) -> dict[int, str]:
    """Return command lines by process id; one that has ended and waits for its parent does not count."""
    mark = f"HEADRACE_HOME={home}\0".encode()
    found: dict[int, str] = {}
    for pid in parents():
        try:
            if mark in Path(f"/proc/{pid}/environ").read_bytes() + b"\0":
                found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue  # it ended meanwhile, or is another user's
    return found
