"""The journals below a root: `<root>/<application>/<journal>`."""

from pathlib import Path

from .errors import JournalError
from .files.scratch import remove_abandoned
from .journal import Journal


def open_journals(root: Path) -> tuple[list[Journal], dict[Path, str]]:
    """Return the journals below `root`, and the folders that cannot be opened with the reason. No folder: no journals."""
    found: list[Journal] = []
    unopened: dict[Path, str] = {}
    for folder in journal_folders(root):
        try:
            found.append(Journal(folder))
        except JournalError as error:
            unopened[folder] = str(error)
    return found, unopened


def journal_folders(root: Path) -> list[Path]:
    """Return the folders that may be journals, sorted; hidden ones are still being made."""
    return sorted(journal for application in _folders(root) for journal in _folders(application))


def remove_abandoned_below(root: Path) -> int:
    """Remove what processes left that died while they made a journal; return how many."""
    return sum(remove_abandoned(application) for application in _folders(root))


def _folders(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
    except FileNotFoundError:
        return []
