"""The command `headrace security init` that the comment of a file in `deploy/` tells its reader to run."""

import shlex
from pathlib import Path

BEGINS = "headrace security init security "


def init_words(file: Path, folder: Path) -> list[str]:
    """Return the words behind `headrace`, for this folder."""
    comment = iter(line.removeprefix("#").strip() for line in file.read_text().splitlines() if line.startswith("#"))
    command = next((line for line in comment if line.startswith(BEGINS)), None)
    assert command is not None, f"{file} does not say how to make its files"
    while command.endswith("\\"):
        command = command.removesuffix("\\") + next(comment)
    words = shlex.split(command.removeprefix(BEGINS))
    return ["security", "init", str(folder), *words]
