"""How an agent makes itself known in a folder of journals: `<root>/.agents/<name>.json`, and what applications conclude from it.

An enrolled agent has a run of its own in the audit, for the topics it names here. While it does not say that it has read the
journals of a window, no window of these topics is COMPLETE. So a journal of such a topic is announced from its beginning, even if
the host is lost before the agent reads it. One of another topic is announced once the agent has opened it (`announced` in its
folder).
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from ...runtime.whole_file import replace_file
from .files.head import file_name
from .files.layout import VERSION

AGENTS_FOLDER = ".agents"
ANNOUNCED_FILE = "announced"


def enrol(root: Path, agent: str, topics: Iterable[str]) -> None:
    """Say that an agent has announced its enrolment for these topics (all of them, each time). Durable. Raises OSError."""
    folder = root / AGENTS_FOLDER
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    words = {"version": VERSION, "agent": agent, "topics": sorted(topics)}
    replace_file(folder / f"{file_name(agent)}.json", json.dumps(words).encode(), is_durable=True, mode=0o600)


def leave(root: Path, agent: str) -> None:
    """Remove the agent's mark: it no longer ships these journals. Raises OSError."""
    (root / AGENTS_FOLDER / f"{file_name(agent)}.json").unlink(missing_ok=True)


def enrolled_topics(root: Path) -> dict[str, frozenset[str]]:
    """Return the agents that are or were at work in this root, and their topics. A mark that cannot be read is left out."""
    found: dict[str, frozenset[str]] = {}
    try:
        paths = sorted((root / AGENTS_FOLDER).glob("*.json"))
    except OSError:
        return found
    for path in paths:
        try:
            words = json.loads(path.read_bytes())
            found[str(words["agent"])] = frozenset(map(str, words["topics"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


def mark_announced(folder: Path) -> None:
    """Say that the audit knows of this journal's run. Raises OSError."""
    os.close(os.open(folder / ANNOUNCED_FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def is_announced(root: Path, folder: Path, topic: str) -> bool:
    """Return whether the audit knows the journal, or waits for the agent that will report it."""
    return (folder / ANNOUNCED_FILE).exists() or any(topic in topics for topics in enrolled_topics(root).values())
