"""How much disk the files below a folder take."""

from pathlib import Path


def bytes_of(folder: Path, pattern: str = "**/*") -> int:
    """Return the bytes in files below `folder` that match."""
    return sum(path.stat().st_size for path in folder.glob(pattern) if path.is_file())


def allocated_bytes_of(folder: Path, pattern: str = "**/*") -> int:
    """Return the disk blocks below `folder`, in bytes: the size to compare where a server enlarges a file before it writes."""
    return sum(path.stat().st_blocks * 512 for path in folder.glob(pattern) if path.is_file())
