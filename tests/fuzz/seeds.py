"""The corpus: small files by target. Seeds from real clients' frames, and every input that was once a finding."""

from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"


def inputs(target: str) -> list[tuple[str, bytes]]:
    """Return the target's inputs as (file name, bytes), sorted by name."""
    folder = FOLDER / target
    return [(path.name, path.read_bytes()) for path in sorted(folder.iterdir())] if folder.is_dir() else []
