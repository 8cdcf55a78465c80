"""The agent of one home: `deploy/local/agent.toml` with this layout's folder and ports filled in.

`python -m headrace.local.agent_process STATUS_FILE` writes the settings into the home and becomes `headrace agent run`. So
`headrace agent status .headrace/agent/agent.toml` shows the running agent, the caller.
"""

import os
import re
import sys
from pathlib import Path

from ..errors import HeadraceError
from ..runtime.layout import Layout
from ..runtime.whole_file import replace_file
from .supervisor.process_table import DEPLOY

SETTINGS = DEPLOY / "agent.toml"
_PORT = re.compile(r"\{port\[(\d+)\]\}")
_NO_HOME = set('"\\\n')
"""What a path may not hold that stands between quotes in TOML."""


class AgentHomeRefused(HeadraceError):
    """The agent's settings cannot be made for this home."""


def settings_path(layout: Layout) -> Path:
    """Return the file that the agent of this home runs on; it is made at each start."""
    return layout.home / "agent" / "agent.toml"


def settings_for(layout: Layout, text: str) -> str:
    """Return the settings with `{home}` and `{port[N]}` (N plus PORT_SHIFT) filled in; every other brace stays as it is.

    Raises AgentHomeRefused: the home's path has a character that cannot be in the file.
    """
    home = str(layout.home)
    if _NO_HOME & set(home):
        raise AgentHomeRefused(f"HEADRACE_HOME={home!r} has a quote, a backslash or a line's end: name another folder")
    return _PORT.sub(lambda found: str(layout.port(int(found[1]))), text).replace("{home}", home)


def prepare(layout: Layout) -> Path:
    """Write the settings into the home, and make the folders that they name; return the settings' path."""
    path = settings_path(layout)
    for folder in (path.parent, layout.home / "journals", layout.home / "access_logs"):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    said = f"# Made from {SETTINGS} at each start of the agent: change that file, then `headrace restart agent`.\n"
    replace_file(path, (said + settings_for(layout, SETTINGS.read_text())).encode())
    return path


def main() -> None:
    """Become the agent of the layout in the environment."""
    try:
        path = prepare(Layout.from_environment())
    except (HeadraceError, OSError) as error:
        sys.exit(f"headrace: {error}")
    words = ["headrace.cli.main", "agent", "run", str(path), "--status-file", sys.argv[1]]
    os.execv(sys.executable, [sys.executable, "-m", *words])


if __name__ == "__main__":
    main()
