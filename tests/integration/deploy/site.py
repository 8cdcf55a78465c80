"""A machine that `deploy/` was installed on, in a folder: its files with free ports and paths below the folder."""

import re
from pathlib import Path

from tests.support.processes import free_port

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
_PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<=port[= ])\d+|(?<=port = )\d+|(?<=--port )\d+")


class Site:
    """What is in the files is translated: ports of the documentation to free ones, /etc and /var/lib to folders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ports: dict[str, int] = {}

    def port(self, written: int | str) -> int:
        """Return the port that stands for one that is written in the files."""
        return self._ports.setdefault(str(written), free_port())

    def set_port(self, written: int, port: int) -> None:
        self._ports[str(written)] = port

    def text(self, name: str) -> str:
        """Return the content of a file of `deploy/`, translated."""
        return self.translated((DEPLOY / name).read_text())

    def translated(self, text: str) -> str:
        text = _PORT.sub(lambda found: str(self.port(found[0])), text)
        return text.replace("/etc/headrace", str(self.folder / "etc")).replace("/var/lib/headrace", str(self.folder / "var"))

    def install(self, name: str) -> Path:
        """Write a file of `deploy/` to its place, translated."""
        place = self.folder / "etc" / Path(name).name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(self.text(name))
        return place
